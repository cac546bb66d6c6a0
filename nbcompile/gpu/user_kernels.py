"""Triton kernels of the user's: compiled for their arguments, simulated for a target, launched on the GPU that is here.

    kernel[(blocks,)](x, out, n, 3.0, BLOCK=128)        a node of the graph (tracing/variables/triton_kernels.py)
    Target(CHIPS["sm_90"], ...)(kernel_idx=0, ...)      the simulator runs it, over CPU tensors
    launch(kernel_idx=0, ...)                           this GPU does

As Triton's own launch does, a kernel is compiled for the types of its arguments, for pointers and numbers that are
multiples of 16, and for numbers that are 1. Of a kernel that is tuned, each configuration is simulated once for each
value of its key, on copies, and the one with the least predicted time is kept; on a GPU Triton tunes it, and launches
what has no form for our launcher.

In torch: torch/_higher_order_ops/triton_kernel_wrap.py, torch/_inductor/codegen/wrapper.py. Read next:
nbcompile/gpu/user_kernel_store.py
"""

from __future__ import annotations

import ctypes
import functools
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import triton
from triton.compiler import ASTSource

from nbcompile import torch_internals
from nbcompile.capture.triton_kernels import function_of
from nbcompile.gpu import cubins, elf, user_kernel_store
from nbcompile.gpu.build import CannotBuild
from nbcompile.gpu.chip import CHIPS, Chip
from nbcompile.gpu.machine_code import POINTER_BYTES, MachineCode
from nbcompile.runtime import gpu_launcher, toolchain
from nbcompile.runtime.gpu_launcher import Image

TYPES = {
    torch.float64: "fp64", torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16", torch.bool: "i1",
    torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64", torch.uint8: "u8",
    torch.uint16: "u16", torch.uint32: "u32", torch.uint64: "u64",
    torch.float8_e4m3fn: "fp8e4nv", torch.float8_e5m2: "fp8e5",
}  # fmt: skip
"""Triton's names."""
_FORMATS = {"fp64": "d", "fp32": "f", "bf16": "f", "fp16": "e"}
"""Format characters of the module ``struct``; for bfloat16, that of the type whose upper half it is."""
OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
Grid = Sequence[Any]
Given = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Form:
    """Arguments as the code of a kernel depends on them."""

    function: Any
    """The function that ``triton.jit`` created."""
    signature: tuple[tuple[str, str], ...]
    constants: tuple[tuple[int, Any], ...]
    """Arguments that are part of the code, by position."""
    divisible: tuple[int, ...]
    """Positions of arguments that are multiples of 16."""
    options: tuple[tuple[str, int], ...] = ()
    texts: tuple[str, ...] = ()
    """Constants as text: to Python 0.0 is -0.0, and 1 is 1.0 and True, but not to a kernel."""

    @property
    def source(self) -> ASTSource:
        """The form as Triton's class."""
        promises = {(at,): [["tt.divisibility", POINTER_BYTES]] for at in self.divisible}
        return ASTSource(self.function, dict(self.signature), {(at,): value for at, value in self.constants}, promises)

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the arguments of a launch."""
        return tuple(name for name, kind in self.signature if kind != "constexpr")


def form_of(function: Any, given: Given, is_aligned: Callable[[torch.Tensor], bool]) -> Form:
    """The form of a kernel for some arguments.

    Raises:
        CannotBuild: an argument is missing, or of a type that a kernel cannot take; or a global variable changed.
    """
    _expect_same_globals(function)
    signature, constants, divisible = [], [], []
    for at, parameter in enumerate(function.params):
        if parameter.name not in given:
            raise CannotBuild(f"{function.__name__} is not given its argument {parameter.name}")
        value = given[parameter.name]
        kind = _type(function, parameter, value)
        signature.append((parameter.name, kind))
        if kind == "constexpr":
            constants.append((at, value))
        elif _is_divisible(parameter, value, is_aligned):
            divisible.append(at)
    options = tuple((name, given[name]) for name in OPTIONS if given.get(name) is not None)
    # Part of the key of compiled forms: 0.0 and -0.0 are equal, but not the same constant.
    texts = tuple(f"{type(value).__name__} {value!r}" for _, value in constants)
    return Form(function, tuple(signature), tuple(constants), tuple(divisible), options, texts)


def _expect_same_globals(function: Any) -> None:
    """Raise where a global variable has changed, as Triton's launch does: its value is part of the code.

    Raises:
        CannotBuild: one has.
    """
    for (name, _), (value, scope) in function.used_global_vals.items():
        now = scope.get(name, "nothing")
        if now != value:
            raise CannotBuild(f"the global variable {name} of {function.__name__} has changed from {value} to {now}")


def _is_divisible(parameter: Any, value: object, is_aligned: Callable[[torch.Tensor], bool]) -> bool:
    if isinstance(value, torch.Tensor):
        return is_aligned(value)
    return type(value) is int and value % POINTER_BYTES == 0 and not parameter.do_not_specialize


def _type(function: Any, parameter: Any, value: object) -> str:
    if (
        parameter.is_constexpr
        or value is None
        or (type(value) is int and value == 1 and not parameter.do_not_specialize)
    ):
        return "constexpr"
    if isinstance(value, torch.Tensor) and value.dtype in TYPES:
        return f"*{TYPES[value.dtype]}"
    # An annotation of the user's decides, as in Triton's own launch.
    if parameter.annotation_type and isinstance(value, (int, float)):
        return str(parameter.annotation_type)
    match value:
        case bool():
            return "i1"
        case int():
            # Triton's own rule: a number is as wide as it needs to be.
            return "i32" if -(2**31) <= value < 2**31 else "i64" if value < 2**63 else "u64"
        case torch.SymInt():
            return "i32"
        case float() | torch.SymFloat():
            return "fp32"
    name = f"{value.dtype}" if isinstance(value, torch.Tensor) else type(value).__name__
    raise CannotBuild(f"{function.__name__} is given a {name} as {parameter.name}")


@functools.lru_cache(maxsize=1024)
def built(form: Form, chip: Chip) -> MachineCode:
    """The machine code of a form, which an earlier process may have compiled.

    Raises:
        CannotBuild: Triton fails, or its machine code needs more than our launcher provides.
    """
    return user_kernel_store.build_or_fetch(form, chip)


# -- what is written -------------------------------------------------------------------------------------------------


def written(kernel_idx: int, constant_args_idx: int, arguments: Given) -> list[str]:
    """The tensors that a kernel of torch's table writes, of fake arguments; all where that cannot be found out."""
    kernel, constants = of_table(kernel_idx, constant_args_idx)
    function = function_of(kernel)
    found: set[str] = set()
    # Which configuration will run is not known yet, and a constant may decide what is stored: all count.
    for config in configurations(kernel):
        try:
            # Fake tensors have no address. Alignment changes loads, and not which arguments are written.
            form = form_of(function, {**arguments, **constants, **config}, lambda _: False)
            found |= user_kernel_store.find_written(form, CHIPS["sm_90"])
        except Exception:  # noqa: BLE001  Triton raises the error again at the launch
            found |= arguments.keys()
    return [name for name, value in arguments.items() if name in found and isinstance(value, torch.Tensor)]


def of_table(kernel_idx: int, constant_args_idx: int) -> tuple[Any, dict[str, Any]]:
    """A kernel, and its constant arguments."""
    table = torch_internals.triton_kernel_wrap().kernel_side_table
    return table.get_kernel(kernel_idx), table.get_constant_args(constant_args_idx)


def configurations(kernel: Any) -> list[dict[str, Any]]:
    """Constants and options that tuning may choose; one empty choice where nothing is tuned."""
    configs = getattr(kernel, "configs", None)
    return [{}] if configs is None else [config.all_kwargs() for config in configs]


# -- on the GPU that is here -----------------------------------------------------------------------------------------


def launch(
    find: Callable[[int, int], tuple[Any, dict[str, Any]]], *, kernel_idx: int, constant_args_idx: int,
    grid: Sequence[Grid], tma_descriptor_metadata: object, kwargs: Given,
) -> None:  # fmt: skip
    """Launch on the device of the arguments; ``find`` returns a kernel and its constants by their numbers."""
    del tma_descriptor_metadata
    kernel, constants = find(kernel_idx, constant_args_idx)
    given = {**kwargs, **constants}
    device = next((value.device for value in kwargs.values() if isinstance(value, torch.Tensor)), None)
    blocks = tuple(map(int, grid[0]))
    if device is None or device.type != "cuda" or not isinstance(kernel, triton.JITFunction):
        _launch_by_triton(kernel, grid, given)
        return
    try:
        form = form_of(kernel, given, lambda value: value.data_ptr() % POINTER_BYTES == 0)
        prepared = _prepared(form, device.index or 0)
    except CannotBuild:
        _launch_by_triton(kernel, grid, given)
        return
    prepared.grid.blocks = blocks
    prepared.run(*(bits(given[name], kind) for name, kind in form.signature if kind != "constexpr"))


def _launch_by_triton(kernel: Any, grids: Sequence[Grid], given: Given) -> None:
    """Launch as eager mode does."""
    configs = configurations(kernel)

    def grid(chosen: Given) -> Grid:
        # Triton has chosen a configuration, and calls the grid function: return the grid that was traced with it.
        return next(
            blocks
            for config, blocks in zip(configs, grids, strict=True)
            if all(chosen.get(name, value) == value for name, value in config.items())
        )

    kernel[grid](**given)


@dataclass(slots=True)
class _LoadedKernel:
    """A kernel that is loaded into a device."""

    # One loaded kernel serves all threads, and the number of blocks differs from launch to launch.
    grid: threading.local = field(default_factory=threading.local)
    """``blocks`` of the next launch of a thread, which the launcher reads."""
    run: Callable[..., None] = print


@functools.lru_cache(maxsize=256)
def _prepared(form: Form, device: int) -> _LoadedKernel:
    compiler = toolchain.find()
    opened = (
        gpu_launcher.NoGpu("") if isinstance(compiler, toolchain.NoCompiler) else gpu_launcher.open_launcher(compiler)
    )
    if isinstance(opened, gpu_launcher.NoGpu):
        raise CannotBuild(opened.reason)
    major, minor, _ = opened.capability(device)
    chip = CHIPS.get(f"sm_{major}{minor}")
    if chip is None:
        raise CannotBuild(f"sm_{major}{minor} is no chip that is known")
    code = built(form, chip)
    name = form.function.__name__
    image = Image(code.cubin, name, code.threads, code.shared_bytes, elf.parameters(code.cubin, name))
    # The stand-in driver is given machine code only, and looks up what to simulate.
    cubins.loaded[code.cubin] = cubins.Cubin(image, code.ptx)
    prepared = _LoadedKernel()
    # Pointers are passed as numbers, as the launcher has tensors before all numbers, and the user's kernel need not.
    count = len(form.parameters)
    prepared.run = opened.module.make_kernel(
        name, device, 0, count, False, lambda *_: prepared.grid.blocks, tuple(image), lambda: image
    )
    return prepared


def bits(value: Any, kind: str) -> int:
    """An argument as the bits of a number, which are those of a signed one of 64 bits for our launcher.

    As in Triton's launch, a number that is too large for float32 is inf, and bfloat16 is the upper half of float32.
    """
    if isinstance(value, torch.Tensor):
        return int(value.data_ptr())
    if kind in _FORMATS:
        # struct raises for a number that is too large, c_float makes it infinite.
        if kind in ("fp32", "bf16"):
            value = ctypes.c_float(value).value
        packed = int.from_bytes(struct.pack(f"<{_FORMATS[kind]}", value), "little", signed=True)
        return packed >> 16 if kind == "bf16" else packed
    return (int(value) + 2**63) % 2**64 - 2**63
