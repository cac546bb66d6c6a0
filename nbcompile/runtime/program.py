"""An emitted graph as a callable.

    loaded = load(emitted, compiler)
    loaded([x, y])               -> (z,)        the list is emptied: AOTAutograd's calling convention
    loaded.positional(x, y)      -> (z,)

A graph that has a plan runs in C from end to end. Any other runs its wrapper,
the Python text that is also shown to the reader, with the kernels as functions;
so does every graph where an input is not as expected, or a mode looks on.

In torch: torch/_inductor/output_code.py (CompiledFxGraph). Read next:
nbcompile/runtime/launcher.py
"""

from __future__ import annotations

import functools
import linecache
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol

import torch

from nbcompile import torch_internals
from nbcompile.ir import compiled_artifact
from nbcompile.ir.compiled_artifact import Runnable
from nbcompile.ir.profiler_ranges import current_origin
from nbcompile.runtime import cpp, effects, launcher, plan_encoding, processor
from nbcompile.runtime.launcher import Entry, NoLauncher
from nbcompile.runtime.plan_encoding import PlanEncoder
from nbcompile.runtime.toolchain import Compiler

Attribute = Callable[[str], torch.Tensor]
"""Fetches a tensor that the graph module holds, by its dotted path."""


class LoadedGraph(Protocol):
    """A compiled graph in memory: its callable, and how it is launched."""

    _boxed_call: bool

    def __call__(self, inputs: list[Any], /) -> tuple[Any, ...]:
        """Run, with one list of inputs, which is emptied."""

    def positional(self, *inputs: Any) -> tuple[Any, ...]:
        """Run, with the inputs as arguments."""


def load(
    emitted: Runnable,
    compiler: Compiler,
    attribute: Attribute | None = None,
    constants: Mapping[int, object] | None = None,
    on_gpu: Mapping[str, Callable[..., None]] | None = None,
    is_stored: bool = True,
) -> LoadedGraph:
    """Build what must be built, and return the graph as a callable.

    ``on_gpu`` are prepared kernels for a GPU; ``is_stored``: it is part of the artifact for later processes.

    Raises:
        toolchain.BuildError: the compiler rejected what we generated.
    """
    if is_stored:
        compiled_artifact.add_program(emitted, attribute, constants)
    #     text ─ shared object ─ addresses of functions ─ a plan for launcher.c
    #                                                   └ or callables in the wrapper's Python
    library = cpp.load(emitted.source, compiler) if emitted.source else None
    entries, prepared = {}, on_gpu or {}
    for kernel in emitted.kernels:
        if kernel.name in prepared:
            continue
        assert library
        entries[kernel.name] = Entry(
            kernel.name,
            library.address(kernel.function),
            len(kernel.arguments),
            len(kernel.sizes),
            kernel.lengthy,
            kernel.complaints,
        )
    extension = launcher.extension_module(compiler)
    kernels = {name: launcher.make_kernel(entry, library, compiler) for name, entry in entries.items()}
    kernels |= prepared
    functions = kernels if isinstance(extension, NoLauncher) else {**kernels, "empty_strided": extension.empty_strided}
    wrapped = PythonWrapper(emitted, functions, attribute or _no_attribute, constants or {})
    program: LoadedGraph = wrapped
    # The wrapper is a complete program by itself; the plan is the same steps for the launcher in C.
    if emitted.plan is not None and not isinstance(extension, NoLauncher):
        program = _program(emitted, entries, extension, wrapped, library, prepared)
    sets_grad_mode = any(extern.target is torch._C._set_grad_enabled for extern in emitted.externs)
    return RestoredGradMode(program) if sets_grad_mode else program


def _program(
    emitted: Runnable,
    entries: Mapping[str, Entry],
    extension: ModuleType,
    wrapped: PythonWrapper,
    library: object,
    on_gpu: Mapping[str, object],
) -> Any:
    """The plan as the launcher in C understands it (launcher.c, operators.h, sizes.h)."""
    plan = emitted.plan
    assert plan is not None, "a program without a plan runs as its text"
    steps, targets = effects.without_tokens(plan, {each.name: each.target for each in emitted.externs})
    by_onednn = processor.multiplies_by_onednn()
    coder = PlanEncoder(extension, entries, targets, by_onednn, on_gpu, adopt, dispatches=plan.gpu < 0)
    # Fetched once. make_program compares their layouts with those that were compiled for.
    held = tuple(wrapped.attribute(path) for path, _ in plan.attributes)
    description = (
        (*map(coder.input, plan.inputs), *(coder.shape(shape) for _, shape in plan.attributes)),
        tuple(map(coder.step, steps)),
        tuple(map(plan_encoding.output, plan.outputs)),
        tuple(map(plan_encoding.value, plan.values)),
    )
    complaints = {name: launcher.complain(entry.complaints) for name, entry in coder.entries.items()}

    def complain(name: str, site: int, index: int, size: int) -> None:
        complaints[name](name, site, index, size)

    return coder.extension.make_program(
        description, plan.slots, plan.single, held, wrapped, complain, library, plan.gpu
    )


class PythonWrapper:
    """A graph that runs its wrapper."""

    _boxed_call = True

    def __init__(
        self,
        emitted: Runnable,
        functions: Mapping[str, Callable[..., Any]],
        attribute: Attribute,
        constants: Mapping[int, object],
    ) -> None:
        self.emitted = emitted
        self.attribute = attribute
        # A name of its own for each: two graphs of a program must not share their lines in a traceback.
        text, file = emitted.wrapper, f"<nbcompile wrapper {id(self):x}>"
        # A traceback and a debugger show the wrapper's lines. Without a time of change the entry is
        # never checked on disk.
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        self.namespace: dict[str, Any] = {
            "torch": torch, "math": math, "inf": math.inf, "expect": expect, "adopt": adopt, "view_of": view,
            "take_over": take_over, "attribute": attribute, "constant": constants.__getitem__,
            "empty_strided": torch.empty_strided,
            **{f"{extern.name}_target": effects.callee(extern.target) for extern in emitted.externs}, **functions,
        }  # fmt: skip
        self.origin = current_origin()
        self.code = compile(text, file, "exec")
        self.call = self._define(self.namespace)

    def _define(self, namespace: dict[str, Any]) -> Callable[[list[Any]], tuple[Any, ...]]:
        exec(self.code, namespace)
        call: Callable[[list[Any]], tuple[Any, ...]] = namespace["call"]
        torch_internals.hide_from_hook(call.__code__)
        return call

    def __call__(self, inputs: list[Any], /) -> tuple[Any, ...]:
        return self.profiled(inputs) if _profiler_enabled() else self.call(inputs)

    def positional(self, *inputs: Any) -> tuple[Any, ...]:
        """Run, with the inputs as arguments."""
        return self(list(inputs))

    @functools.cached_property
    def profiled(self) -> Callable[[list[Any]], tuple[Any, ...]]:
        """The wrapper where each kernel and each extern call is a range of torch.profiler."""
        ranged = {
            called: in_range(self.namespace[called], known.label(self.origin), known.source_lines(self.origin))
            for name, known in self.emitted.ranges
            for called in (name, f"{name}_target")
            if called in self.namespace
        }
        return self._define({**self.namespace, **ranged})


class RestoredGradMode:
    """A graph that sets grad modes in between, and leaves the one of the call behind where an operator fails."""

    _boxed_call = True

    def __init__(self, graph: LoadedGraph) -> None:
        self.graph = graph

    def __call__(self, inputs: list[Any], /) -> tuple[Any, ...]:
        was_enabled = torch._C.is_grad_enabled()
        try:
            return self.graph(inputs)
        finally:
            torch._C._set_grad_enabled(was_enabled)

    def positional(self, *inputs: Any) -> tuple[Any, ...]:
        """Run, with the inputs as arguments."""
        return self(list(inputs))


for _method in (RestoredGradMode.__call__, RestoredGradMode.positional):
    torch_internals.hide_from_hook(_method.__code__)

_profiler_enabled: Callable[[], bool] = torch.autograd._profiler_enabled  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class RangedCall:
    """One profiled call of a kernel or an operator."""

    label: str
    locations: tuple[tuple[str, int], ...]
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any]
    result: Any


listeners: list[Callable[[RangedCall], None]] = []
"""Functions that are called after each profiled call (tools/profile.py)."""


def in_range(
    function: Callable[..., Any], name: str, locations: tuple[tuple[str, int], ...] = ()
) -> Callable[..., Any]:
    """A function whose calls torch.profiler shows under a label."""

    def call(*arguments: Any, **keywords: Any) -> Any:
        with torch._C._profiler._RecordFunctionFast(name):
            result = function(*arguments, **keywords)
        for listener in listeners:
            listener(RangedCall(name, locations, function, arguments, keywords, result))
        return result

    torch_internals.hide_from_hook(call.__code__)
    return call


def _no_attribute(path: str) -> torch.Tensor:
    raise AttributeError(f"the graph has a tensor {path!r} of its own, and load() was given no way to fetch it")


def expect(
    tensor: torch.Tensor | None,
    size: tuple[int, ...],
    stride: tuple[int, ...],
    dtype: torch.dtype,
    written: bool = False,
    device: str = "",
) -> torch.Tensor | None:
    """Check an input against its guards' shape and dtype; copy it if only its strides differ.

    None is an effect token: it orders operators with side effects, and holds no data.

    Raises:
        ValueError: another shape, dtype or device, or other strides where the graph writes to it.
    """
    if tensor is None:
        return None
    if device and tensor.device != torch.device(device):
        raise ValueError(f"a graph compiled for a tensor on {device} was given one on {tensor.device}")
    # Guards hold when the frame is entered, but a graph may have other callers: a backward pass, a user's backend.
    if tensor.dtype != dtype or tensor.shape != size:
        raise ValueError(f"a graph compiled for {dtype}{list(size)} was given {tensor.dtype}{list(tensor.shape)}")
    if _strides_agree(tensor, stride):
        return tensor
    if written:
        raise ValueError(f"a graph that writes to an input with strides {stride} was given one with {tensor.stride()}")
    return _rearranged(tensor, size, stride)


def adopt(tensor: Any, size: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype, operator: str) -> Any:
    """Result of an extern call, converted to the layout and dtype that later kernels rely on.

    Raises:
        RuntimeError: the shape differs from that of the operator's fake implementation. (A dtype that differs is
            converted: some fake implementations of ATen return another dtype, and the graph was compiled for it.)
    """
    if not isinstance(tensor, torch.Tensor):
        return tensor
    if tensor.shape != size or (tensor.dtype != dtype and not operator.startswith("aten.")):
        raise RuntimeError(
            f"{operator} returned {tensor.dtype}{list(tensor.shape)}, but its fake implementation says "
            f"{dtype}{list(size)}; torch.library.opcheck finds such mistakes"
        )
    if tensor.dtype == dtype and _strides_agree(tensor, stride):
        return tensor
    return _rearranged(tensor, size, stride, dtype)


def _rearranged(
    tensor: torch.Tensor, size: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype | None = None
) -> torch.Tensor:
    copy = torch.empty_strided(size, stride, dtype=dtype or tensor.dtype, device=tensor.device)
    return copy.copy_(tensor)


def _strides_agree(tensor: torch.Tensor, stride: tuple[int, ...]) -> bool:
    # A stride along a dimension of one element, or of a tensor without any, addresses nothing.
    actual = tensor.stride()
    return (
        actual == stride
        or tensor.numel() == 0
        or all(extent == 1 or one == two for extent, one, two in zip(tensor.shape, actual, stride, strict=True))
    )


def view(tensor: torch.Tensor, size: tuple[int, ...], stride: tuple[int, ...], offset: int) -> torch.Tensor:
    """A view, its offset counted from the tensor's own data."""
    return torch.as_strided(tensor, size, stride, tensor.storage_offset() + offset)


def take_over(tensor: torch.Tensor, size: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """A tensor of another shape or type in the memory of one that is not needed any more."""
    # An offset in elements: of the old type, and then of the new one.
    start = tensor.storage_offset() * tensor.dtype.itemsize // dtype.itemsize
    return torch.empty(0, dtype=dtype, device=tensor.device).set_(tensor.untyped_storage(), start, size, stride)
