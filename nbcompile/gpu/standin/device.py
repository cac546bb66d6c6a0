"""``device="cuda"`` without a GPU: torch's operators on the stand-in device, whose memory is the CPU's.

    with standin() as here:
        x = torch.randn(16, 1000, device="cuda")          an ordinary tensor on cuda:0
        compiled(x)                                        launched through the driver, run by the simulator
        here.driver.log()

An operator of eager mode runs on the CPU, over the same memory: a backend fallback for the dispatch key CUDA makes CPU
tensors that share the arguments' memory, calls the operator, and moves new results to the device. Results are therefore
those of eager mode on the CPU. A process that computed gradients before this device was there has no threads for it:
install it early.

In torch: test/cpp_extensions/open_registration_extension. Read next: nbcompile/gpu/standin/device.cpp
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch.utils import _pytree as pytree

from nbcompile import torch_internals
from nbcompile.gpu.standin import attention, replaced_kernels
from nbcompile.gpu.standin.driver import StandInDriver
from nbcompile.gpu.standin.execution import Executor
from nbcompile.gpu.standin.recording import NOT_PERMITTED, CapturedCalls
from nbcompile.runtime import extension, gpu_launcher, launcher
from nbcompile.runtime.toolchain import Compiler, NoCompiler, find

SOURCE = Path(__file__).with_name("device.cpp")
Size = Sequence[int]


@dataclass(slots=True)
class StandIn:
    """The device, installed."""

    driver: StandInDriver
    executor: Executor
    module: ModuleType
    calls: CapturedCalls

    @contextmanager
    def stream(self, number: int, device: int = 0) -> Iterator[None]:
        """Make another stream current."""
        before = self.module.set_stream(device, number)
        try:
            yield
        finally:
            self.module.set_stream(device, before)


@contextmanager
def standin(devices: int = 1) -> Iterator[StandIn]:
    """The device inside the block; outside there is no GPU again."""
    here = install()
    here.driver.recover()
    here.driver.set_devices(devices)
    before = os.environ.get(gpu_launcher.VARIABLE)
    os.environ[gpu_launcher.VARIABLE] = str(here.driver.path)
    functions: dict[str, Any] = {
        "_lazy_init": lambda: None, "current_device": here.module.current_device,
        "synchronize": lambda device=None: here.driver.library.cuStreamSynchronize(None),
    }  # fmt: skip
    # This torch was built without CUDA: these functions would raise, or do not exist.
    replaced = [(torch.cuda, name, function) for name, function in functions.items()]
    replaced += [(torch._C, name, function) for name, function in _pool_functions(here.module).items()]
    originals = [(owner, name, getattr(owner, name, None)) for owner, name, _ in replaced]
    for owner, name, function in replaced:
        setattr(owner, name, function)
    here.module.enable(True)
    try:
        yield here
    finally:
        here.module.enable(False)
        for owner, name, original in originals:
            if original is None:
                delattr(owner, name)
            else:
                setattr(owner, name, original)
        os.environ.pop(gpu_launcher.VARIABLE)
        if before is not None:
            os.environ[gpu_launcher.VARIABLE] = before
        here.driver.set_devices(0)


def _pool_functions(module: ModuleType) -> dict[str, Callable[..., Any]]:
    """Torch's functions for private pools of memory, which a build without CUDA lacks."""
    numbers = itertools.count(1)
    return {
        "_graph_pool_handle": lambda: (0, next(numbers)),
        "_cuda_beginAllocateCurrentThreadToPool": lambda device, pool: module.begin_pool(pool[1]),
        "_cuda_endAllocateToPool": lambda device, pool: module.end_pool(),
        "_cuda_releasePool": lambda device, pool: module.release_pool(pool[1]),
    }


@functools.cache
def install() -> StandIn:
    """Build driver and device, and register them with torch; once in a process.

    Raises:
        OSError: there is no C++ compiler.
        RuntimeError: there is a GPU.
    """
    compiler = find()
    if isinstance(compiler, NoCompiler):
        raise OSError(f"the stand-in device needs a C++ compiler: {compiler.reason}")
    if torch.cuda.is_available():
        raise RuntimeError("there is a GPU: the stand-in device would replace it")
    driver = StandInDriver.build(compiler)
    module = extension.built("nbcompile_standin_device", SOURCE, compiler)
    module.install(str(driver.path))
    executor = Executor(driver)
    executor.attach()
    calls = CapturedCalls(driver, module)
    _Operators(module, compiler, calls).register()
    return StandIn(driver, executor, module, calls)


def on_cpu(tensor: torch.Tensor) -> torch.Tensor:
    """A CPU tensor that shares the memory of one on the device."""
    storage = tensor.untyped_storage()
    # Without bytes there is no address to share.
    if not storage.nbytes():
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
    # The device's memory is the CPU's: nothing is copied, so that an operator that writes to its
    # argument writes to the device's tensor.
    memory = (ctypes.c_uint8 * storage.nbytes()).from_address(storage.data_ptr())
    raw = torch.frombuffer(memory, dtype=torch.uint8)
    offset = int(tensor.storage_offset())
    return torch.empty(0, dtype=tensor.dtype).set_(raw.untyped_storage(), offset, tensor.shape, tensor.stride())


def _tensors_for_numbers(operator: Any, arguments: Sequence[Any]) -> Iterator[Any]:
    """Make tensors of numbers where the schema requires tensors: ``x | 1`` reaches ``bitwise_or.Tensor`` with the 1.

    A number decides a result's dtype less than a tensor without dimensions: it takes the dtype of one of its kind.
    """
    dtypes = [value.dtype for value in arguments if isinstance(value, torch.Tensor)]
    for argument, value in zip(operator._schema.arguments, arguments, strict=False):
        if isinstance(value, (bool, int, float, complex)) and str(argument.type) == "Tensor":
            scalar = torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)
            same_kind = [dtype for dtype in dtypes if torch.result_type(torch.empty((), dtype=dtype), value) == dtype]
            yield scalar.to(same_kind[0]) if same_kind else scalar
        else:
            yield value


class _Operators:
    """Kernels for the dispatch key CUDA."""

    def __init__(self, module: ModuleType, compiler: Compiler, calls: CapturedCalls) -> None:
        self.module = module
        self.calls = calls
        self.in_c = launcher.extension_module(compiler)
        self.libraries: tuple[torch.library.Library, ...] = (
            torch.library.Library("_", "IMPL"),
            torch.library.Library("aten", "IMPL", "CUDA"),
        )
        self.attention = attention.register()
        self.numbers: dict[torch.dtype, int] = {}

    def register(self) -> None:
        """Register them; they stay until the process ends."""
        everything, aten = self.libraries[:2]
        everything.fallback(self.fallback, "CUDA")
        named: Mapping[str, Callable[..., Any]] = {
            "empty.memory_format": self.empty, "empty_strided": self.empty_strided, "copy_": self.copy_,
            "_copy_from": self.copy_from, "as_strided": self.as_strided, "view": self.view,
            "_reshape_alias": self.as_strided,
            "resize_": self.resize_, "_local_scalar_dense": self.item, "set_.source_Storage_storage_offset": self.set_,
            "unfold": self.unfold, "set_.source_Tensor": self.set_tensor, "set_": self.set_empty,
        }  # fmt: skip
        for name, function in named.items():
            with warnings.catch_warnings(action="ignore"):  # a torch that was built with CUDA has a kernel
                aten.impl(name, function)
            torch_internals.hide_from_hook(function.__func__.__code__)  # type: ignore[attr-defined]
        # A kernel of CUDA's own there. For other devices torch composes it, and reads the sizes of the groups.
        aten.impl("_grouped_mm", functools.partial(self.fallback, torch.ops.aten._grouped_mm.default))
        if torch.version.cuda is not None:
            self.libraries += tuple(replaced_kernels.replace_cuda_kernels(self.fallback, {*named, "_grouped_mm"}))
        for function in (_Operators.fallback, _Operators._new, on_cpu):
            torch_internals.hide_from_hook(function.__code__)

    def number(self, dtype: torch.dtype) -> int:
        """Torch's own number of a dtype."""
        if dtype not in self.numbers:
            self.numbers[dtype] = launcher.dtype_code(self.in_c, dtype)  # type: ignore[arg-type]
        return self.numbers[dtype]

    def _new(self, size: Size, stride: Size, dtype: torch.dtype | None, device: torch.device | None) -> torch.Tensor:
        number = self.number(dtype or torch.get_default_dtype())
        index = device.index if device is not None and device.index is not None else torch.cuda.current_device()
        created: torch.Tensor = self.module.empty_strided(tuple(size), tuple(stride), number, index)
        return created

    def fallback(self, operator: Any, *arguments: Any, **keywords: Any) -> Any:
        """Any operator, on the CPU."""
        borrowed: list[tuple[torch.Tensor, torch.Tensor, int]] = []
        device = keywords.get("device")

        def borrow(tensor: torch.Tensor) -> torch.Tensor:
            nonlocal device
            if tensor.device.type != "cuda":
                return tensor
            device = tensor.device
            # One tensor that is given twice stays one.
            for mine, theirs, _ in borrowed:
                if theirs is tensor:
                    return mine
            mine = on_cpu(tensor)
            borrowed.append((mine, tensor, mine.untyped_storage().data_ptr()))
            return mine

        given, named = pytree.tree_map_only(torch.Tensor, borrow, (arguments, keywords))
        given = tuple(_tensors_for_numbers(operator, given))
        if named.get("device") is not None:
            named = {**named, "device": torch.device("cpu")}
        index = torch.cuda.current_device() if device is None or device.index is None else device.index

        def make(shape: torch.Tensor) -> torch.Tensor:
            return self._new(shape.shape, shape.stride(), shape.dtype, device)

        if self.calls.is_capturing(index):
            results = self.calls.record(index, operator, given, named, make, on_cpu)
            return pytree.tree_map_only(
                torch.Tensor,
                lambda result: next((theirs for mine, theirs, _ in borrowed if mine is result), result),
                results,
            )
        results = replaced_kernels.with_cpu_kernel(operator)(*given, **named)
        for mine, theirs, memory in borrowed:
            # out= and resize_ may give the CPU tensor other memory: then the device's tensor gets it, too.
            moved = mine.untyped_storage().data_ptr() != memory
            if moved or mine.shape != theirs.shape or mine.stride() != theirs.stride():
                self._resized(theirs, mine)

        def give(result: torch.Tensor) -> torch.Tensor:
            for mine, theirs, _ in borrowed:
                # An operator in place returns its argument, and eager mode's caller relies on its identity.
                if result is mine:
                    return theirs
            return self._moved(result, device)

        return pytree.tree_map_only(torch.Tensor, give, results)

    def _moved(self, tensor: torch.Tensor, device: torch.device | None) -> torch.Tensor:
        created = self._new(tensor.shape, tensor.stride(), tensor.dtype, device)
        on_cpu(created).copy_(tensor)
        return created

    def _replace(self, tensor: torch.Tensor, other: torch.Tensor) -> None:
        """Give a tensor another one's storage and shape."""
        self.module.replace(tensor._cdata, other._cdata)

    def _resized(self, tensor: torch.Tensor, like: torch.Tensor) -> None:
        """``out=`` of an operator that has resized it."""
        self._replace(tensor, self._moved(like, tensor.device))

    def empty(
        self, size: Size, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None,
        memory_format: Any = None,
    ) -> torch.Tensor:  # fmt: skip
        # The meta device computes strides as torch does, without memory.
        like = torch.empty(size, device="meta", memory_format=memory_format or torch.contiguous_format)
        return self._new(size, like.stride(), dtype, device)

    def empty_strided(
        self,
        size: Size,
        stride: Size,
        dtype: Any = None,
        layout: Any = None,
        device: Any = None,
        pin_memory: Any = None,
    ) -> torch.Tensor:
        return self._new(size, stride, dtype, device)

    def copy_(self, into: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
        first, second = (on_cpu(each) if each.device.type == "cuda" else each for each in (into, source))
        device = (into if into.device.type == "cuda" else source).device.index
        if not self.calls.is_capturing(device):
            first.copy_(second)
        elif into.device == source.device:
            self.calls.add(device, lambda: first.copy_(second), (first, second))
        else:
            raise RuntimeError(NOT_PERMITTED)
        return into

    def copy_from(self, source: torch.Tensor, into: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
        return self.copy_(into, source)

    def as_strided(self, tensor: torch.Tensor, size: Size, stride: Size, offset: int | None = None) -> torch.Tensor:
        start = tensor.storage_offset() if offset is None else offset
        created: torch.Tensor = self.module.view(tensor._cdata, tuple(size), tuple(stride), int(start))
        return created

    def view(self, tensor: torch.Tensor, size: Size) -> torch.Tensor:
        like = torch.empty_strided(tensor.shape, tensor.stride(), device="meta").view(size)
        return self.as_strided(tensor, like.shape, like.stride())

    def unfold(self, tensor: torch.Tensor, dimension: int, size: int, step: int) -> torch.Tensor:
        like = torch.empty_strided(tensor.shape, tensor.stride(), device="meta").unfold(dimension, size, step)
        return self.as_strided(tensor, like.shape, like.stride())

    def resize_(self, tensor: torch.Tensor, size: Size, memory_format: Any = None) -> torch.Tensor:
        like = on_cpu(tensor).clone().resize_(size, memory_format=memory_format or torch.contiguous_format)
        if like.untyped_storage().nbytes() > tensor.untyped_storage().nbytes():
            self._resized(tensor, like)
        else:
            self._replace(tensor, self.as_strided(tensor, like.shape, like.stride()))
        return tensor

    def item(self, tensor: torch.Tensor) -> Any:
        if self.calls.is_capturing(tensor.device.index):
            raise RuntimeError(NOT_PERMITTED)
        torch.cuda.synchronize()
        return on_cpu(tensor).item()

    def set_(self, tensor: torch.Tensor, storage: Any, offset: int, size: Size, stride: Size = ()) -> torch.Tensor:
        raise NotImplementedError("set_ with a storage, on the stand-in device")

    def set_tensor(self, tensor: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        self._replace(tensor, source)
        return tensor

    def set_empty(self, tensor: torch.Tensor) -> torch.Tensor:
        self._replace(tensor, self._new((0,), (1,), tensor.dtype, tensor.device))
        return tensor
