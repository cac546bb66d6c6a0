"""Kernels and whole graphs as Python callables.

    kernel = make_kernel(Entry("kernel0", address, tensors=2, sizes=0), owner=library)
    kernel(x, out)                                       120 ns

launcher.c does this in C. It is built once, like a kernel, and is used only after a
self-test, because it relies on the offset of the at::Tensor within its Python object.
If it cannot be built (for example without the Python headers) or the test fails, the
calls fall back to ctypes: a microsecond slower, otherwise equal.

In torch: torch/_inductor/codegen/cpp_wrapper_cpu.py, torch/csrc/inductor/aoti_runtime/
Read next: nbcompile/runtime/program.py
"""

from __future__ import annotations

import ctypes
import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import NoReturn

import torch

from nbcompile import hooks
from nbcompile.ir.emitted import ZERO_DIVISION
from nbcompile.runtime import extension
from nbcompile.runtime.compiler_processes import BuildError
from nbcompile.runtime.toolchain import Compiler

SOURCE = Path(__file__).with_name("launcher.c")
POINTER = ctypes.sizeof(ctypes.c_void_p)
DTYPES = (
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex128, torch.complex64,
    torch.int64, torch.int32, torch.int16, torch.int8, torch.uint64, torch.uint32, torch.uint16, torch.uint8,
    torch.bool,
)  # fmt: skip
"""Element types that the launcher allocates itself; others through torch.empty_strided."""
SEARCHED = 16
"""Words of a tensor object that are searched for its at::Tensor."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One generated function, as the launcher needs to know it."""

    name: str
    address: int
    tensors: int
    sizes: int
    lengthy: bool = False
    """True if the launcher releases the GIL during the kernel, as it may run for long."""
    complaints: tuple[str, ...] = ()
    """Messages of bounds checks, by the number of the check in the kernel."""


ERRORS: dict[str, type[Exception]] = {ZERO_DIVISION: RuntimeError}
"""Message that means eager mode's ZeroDivisionError; all others are IndexErrors, or name their class."""
RUNTIME_ERROR = "RuntimeError: "
"""The beginning of a message whose error is a RuntimeError."""


@dataclass(frozen=True, slots=True)
class NoLauncher:
    """Reason why kernels are called through ctypes."""

    reason: str


class Context(ctypes.Structure):
    """Per-call state of a kernel: the number of threads, and the index that was out of bounds (nbvec.h, Context)."""

    _fields_ = (
        ("threads", ctypes.c_int64),
        ("site", ctypes.c_int64),
        ("index", ctypes.c_int64),
        ("size", ctypes.c_int64),
    )


def make_kernel(entry: Entry, owner: object, compiler: Compiler) -> Callable[..., None]:
    """A callable that takes tensors, then sizes; ``owner`` lives as long as it does."""
    #     launcher.c      pointers are read from the tensors' own memory
    #     ctypes          where the extension cannot be built, or misreads tensors: slower, and the same results
    extension = extension_module(compiler)
    if isinstance(extension, NoLauncher):
        return PlainKernel(entry, owner)
    kernel: Callable[..., None] = extension.make_kernel(
        entry.name, entry.address, entry.tensors, entry.sizes, entry.lengthy, complain(entry.complaints), owner
    )
    return kernel


def complain(complaints: tuple[str, ...]) -> Callable[[str, int, int, int], NoReturn]:
    """Raise the error of a failed check: an index out of bounds, or an integer divided by 0."""

    def raise_error(kernel: str, site: int, index: int, size: int) -> NoReturn:
        pattern = (
            complaints[site]
            if site < len(complaints)
            else "index {index} is out of bounds for dimension with size {size}"
        )
        cls = ERRORS.get(pattern, RuntimeError if pattern.startswith(RUNTIME_ERROR) else IndexError)
        error = cls(pattern.removeprefix(RUNTIME_ERROR).format(index=index, size=size))
        error._nbcompile_kernel = kernel  # type: ignore[attr-defined]  # for the record: which one it was
        raise error

    return raise_error


class PlainKernel:
    """A kernel called through ctypes."""

    def __init__(self, entry: Entry, owner: object) -> None:
        self.entry = entry
        self.owner = owner
        # CFUNCTYPE releases the GIL during the call, PYFUNCTYPE keeps it.
        prototype = (ctypes.CFUNCTYPE if entry.lengthy else ctypes.PYFUNCTYPE)(
            ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(Context)
        )
        self.function = prototype(entry.address)
        self.pointers = ctypes.c_void_p * max(entry.tensors, 1)
        self.sizes = ctypes.c_int64 * max(entry.sizes, 1)
        self.complain = complain(entry.complaints)

    def __call__(self, *arguments: object) -> None:
        entry = self.entry
        if len(arguments) != entry.tensors + entry.sizes:
            raise TypeError(
                f"{entry.name} takes {entry.tensors} tensors and {entry.sizes} sizes, not {len(arguments)} arguments"
            )
        tensors = arguments[: entry.tensors]
        for tensor in tensors:
            if not isinstance(tensor, torch.Tensor):
                raise TypeError(f"a kernel takes tensors, not {type(tensor).__name__}")
            if tensor.device.type != "cpu":
                raise TypeError("a C++ kernel takes tensors that are in the CPU's memory")
        # On this call's own stack: several threads may run one kernel.
        context = Context(torch.get_num_threads(), -1, 0, 0)
        pointers = self.pointers(*(tensor.data_ptr() for tensor in tensors))  # type: ignore[attr-defined]
        sizes = self.sizes(*map(operator.index, arguments[entry.tensors :]))  # type: ignore[arg-type]
        if self.function(pointers, sizes, ctypes.byref(context)):
            self.complain(entry.name, context.site, context.index, context.size)


def autograd_keys() -> int:
    """The dispatch keys by which autograd sees an operator, and changes are counted, as a set of bits."""
    keys = (torch._C.DispatchKey.AutogradFunctionality, torch._C.DispatchKey.ADInplaceOrView)
    return sum(torch._C.DispatchKeySet(key).raw_repr() for key in keys)


@functools.lru_cache(maxsize=4)
@extension.first_call_in_its_own_thread
def extension_module(compiler: Compiler) -> ModuleType | NoLauncher:
    """launcher.c as a module that was seen to work, or why there is none."""
    try:
        module = extension.built("nbcompile_launcher", SOURCE, compiler)
        offset = tensor_offset()
        if offset is None:
            return NoLauncher("torch keeps its tensors where they were not found")
        keys = autograd_keys()
        module.setup(offset, {}, torch.empty_strided, keys)  # dtypes are numbered by what it says of tensors
        module.setup(offset, {dtype: dtype_code(module, dtype) for dtype in DTYPES}, torch.empty_strided, keys)
        # It reads memory of torch's objects, whose layout no version promises: tried out before any
        # program depends on it.
        trouble = self_test(module)
        if not trouble:
            hooks.installed().launcher_loaded(module)
    except (BuildError, OSError, ImportError) as error:
        return NoLauncher(str(error).strip().partition("\n")[0])
    return NoLauncher(trouble) if trouble else module


def tensor_offset() -> int | None:
    """Offset of the at::Tensor (one pointer, to the TensorImpl) within a tensor object, in words."""
    tensor = torch.ones(3)
    size = min(type(tensor).__basicsize__, SEARCHED * POINTER)
    # tensor._cdata is the pointer that is looked for.
    for offset in range(0, size - POINTER + 1, POINTER):
        if ctypes.c_void_p.from_address(id(tensor) + offset).value == tensor._cdata:
            return offset
    return None


def self_test(module: ModuleType) -> str:
    """Error of the extension; "" if it reads tensors of several kinds correctly."""
    base = torch.arange(24, dtype=torch.float32)
    # What could be misread: strides, an offset, no dimension, no element, other types, a subclass.
    samples = (
        base, base.view(4, 6).t()[1:, ::2], torch.tensor(1), torch.empty(0, 3), base.to(torch.float64),
        torch.nn.Parameter(base.clone()), base.to(torch.bfloat16)[3:],
    )  # fmt: skip
    for sample in samples:
        _, sizes, strides, pointer = module.describe(sample)
        if (sizes, strides, pointer) != (tuple(sample.shape), sample.stride(), sample.data_ptr()):
            return f"a tensor of shape {tuple(sample.shape)} was misread"
    dtype, sizes, strides, _ = module.describe(base)
    round_trip = module.make_program(
        (((dtype, sizes, strides),), ((0, 1, dtype, sizes, strides),), ((0, None), (1, None)), ()),
        2, False, (), print, print, None,
    )  # fmt: skip
    first, second = round_trip([base])
    if (
        first is not base
        or not isinstance(second, torch.Tensor)
        or second.shape != base.shape
        or second.dtype != base.dtype
    ):
        return "a new tensor came out wrong"
    # A tensor over foreign memory would change another one, or crash here and not in a user's program.
    second.fill_(1.0)
    if float(second.sum()) != base.numel():
        return "a new tensor has no memory of its own"
    # A product through a view and C's own function, the parts that depend most on torch's internals:
    #     slot 0 given    slot 1 a constant    slot 2 a view of slot 0    slot 3 = slot 1 @ slot 2
    table = (dtype, (4, 6), (6, 1))
    square = module.make_program(
        ((table, table), ((3, 2, 0, (6, 4), (1, 6), (0,)), (0, 3, dtype, (4, 4), (4, 1)),
                          (5, 0, (3, 1, 2), 1.0, 1.0, 0)),
         ((3, None),), ()), 4, True, (base.view(4, 6),), print, print, None,
    )  # fmt: skip
    given = base.view(4, 6) + 1
    return "" if torch.equal(square([given]), base.view(4, 6) @ given.t()) else "a matrix product came out wrong"


def dtype_code(module: ModuleType, dtype: torch.dtype) -> int:
    """Torch's own number for a dtype."""
    code: int = module.describe(torch.empty(0, dtype=dtype))[0]
    return code
