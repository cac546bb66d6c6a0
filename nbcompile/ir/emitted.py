"""Generated text and what is needed to run it: the hand-over from codegen to runtime.

    EmittedProgram(source="EXPORT i64 kernel0(...", wrapper="def call(args): ...", kernels=(...,), plan=LaunchPlan(...))

Still only data: nothing is built or loaded. The launcher in C runs ``plan``,
of which ``wrapper`` is printed; a graph that needs Python has only the text.

In torch: torch/_inductor/codegen/wrapper.py (text only). Read next:
nbcompile/codegen/cpp.py, nbcompile/runtime/program.py
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from nbcompile.ir.profiler_ranges import ProfilerRange
from nbcompile.record.model import KernelLine

if TYPE_CHECKING:  # only annotations need SymPy: an emitted program runs without it
    from nbcompile.ir.buffer import Extern
    from nbcompile.ir.kernel import Schedule

ZERO_DIVISION = "ZeroDivisionError"
"""The error that a division of an integer by 0 raises."""


@dataclass(frozen=True, slots=True)
class EmittedKernel:
    """One function of the generated source."""

    name: str
    function: str
    """Name of the function in the source: equal kernels share one."""
    source: str
    arguments: tuple[str, ...]
    """Buffers, in the order of the pointers."""
    sizes: tuple[str, ...] = ()
    """Symbolic sizes, in order, after the buffers."""
    buffers: tuple[str, ...] = ()
    from_nodes: tuple[str, ...] = ()
    lines: tuple[KernelLine, ...] = ()
    lengthy: bool = False
    """True if it runs without the interpreter's lock, so that other Python threads can run."""
    complaints: tuple[str, ...] = ()
    """Messages of the checks: an index is out of bounds, or a divisor is 0."""
    language: str = "cpp"
    types: tuple[str, ...] = ()
    """Triton's types of the arguments, then of the sizes; none in C++."""
    rounds: str = ""
    """Number of iterations of the loops of one Triton program, as Python over the sizes."""
    warps: int = 4
    """Number of warps (of 32 threads) of a Triton program."""
    stages: int = 3
    """Number of pipeline stages of a Triton loop: iterations whose loads are issued ahead."""
    grid: str = ""
    """Number of Triton programs, as Python over the sizes."""
    header: str = ""
    """Text at the beginning of the module of a Triton function."""
    gpu: int = -1
    """Number of the GPU that it runs on; -1: the CPU."""
    unaligned_source: str = ""
    """Triton source for pointers that are no multiples of 16 bytes, if it differs."""
    parameters: tuple[str, ...] = ()
    """Names of the pointers in the Triton source, where they are not p0, p1, ..."""
    any_order: bool = False
    """True if several elements may be stored to one address in any order, as in eager mode."""


@dataclass(frozen=True, slots=True)
class RuntimeSize:
    """A number that is known at run time only: ``LaunchPlan.values[at]``."""

    at: int


@dataclass(frozen=True, slots=True)
class PythonExpression:
    """A number, or a part of the graph, that only the Python wrapper can evaluate; a plan that C runs has none."""

    text: str


Number = int | RuntimeSize


@dataclass(frozen=True, slots=True)
class Value:
    """A number at run time: read from an input (``argument``, ``size``, ``stride``), or computed of two others."""

    operation: str
    first: Number
    """The position of the input; or a number to compute with."""
    second: Number = 0
    """The dimension of the input; or a number to compute with."""


@dataclass(frozen=True, slots=True)
class TensorShape:
    """A tensor's type, sizes and strides."""

    dtype: torch.dtype
    size: tuple[Number, ...]
    stride: tuple[Number, ...]
    gpu: int = -1
    """Number of the GPU that it is on; -1: in the CPU's memory."""
    other_device: str = ""
    """Name of a device that is neither; a plan that C runs has none."""


ANY_SHAPE = TensorShape(torch.float32, (), ())
"""Placeholder of a shape that is never read."""


@dataclass(frozen=True, slots=True)
class AllocateSlot:
    """Allocate a slot."""

    slot: int
    shape: TensorShape


@dataclass(frozen=True, slots=True)
class Launch:
    """Run a kernel over slots."""

    kernel: str
    slots: tuple[int, ...]
    sizes: tuple[Number, ...] = ()
    """The symbolic sizes that are arguments of the kernel."""
    grid: Number = -1
    """Number of blocks on a GPU; -1: the kernel is C++."""


@dataclass(frozen=True, slots=True)
class FreeSlot:
    """Free a slot."""

    slot: int


ViewNumbers = tuple[tuple[Number, ...], tuple[Number, ...], Number]
"""Size, stride, offset."""


@dataclass(frozen=True, slots=True)
class ViewSlot:
    """A view of a slot's tensor, in its own slot."""

    slot: int
    source: int
    view: ViewNumbers


@dataclass(frozen=True, slots=True)
class AtSlot:
    """Tensor in a slot, as an argument of a call."""

    slot: int


@dataclass(frozen=True, slots=True)
class ExternResult:
    """One tensor that an operator returns: its path in the result, its slot, the shape that kernels expect."""

    path: tuple[int, ...]
    slot: int
    shape: TensorShape
    is_view: bool = False
    """A view of an argument that autograd tracks, returned as the operator creates it; ``shape`` is unused."""


@dataclass(frozen=True, slots=True)
class Call:
    """Call an operator as Python would; a tensor is an :class:`AtSlot` in its arguments, nested as they may be."""

    extern: str
    arguments: tuple[Any, ...]
    keywords: tuple[tuple[str, Any], ...]
    results: tuple[ExternResult, ...]


@dataclass(frozen=True, slots=True)
class Multiply:
    """A matrix product into a slot that was created before: ``mm``, ``bmm``, ``addmm``, ``baddbmm``."""

    extern: str
    product: str
    slots: tuple[int, ...]
    """The result's, then the operands'."""
    beta: float = 1.0
    alpha: float = 1.0
    """Factor of the product. ``alpha`` and ``beta`` have the graph's type: a product of integers accepts no float."""


@dataclass(frozen=True, slots=True)
class Convolve:
    """A convolution."""

    extern: str
    slots: tuple[int, ...]
    """Input, weight, bias if there is one."""
    geometry: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...], bool, int]
    """Strides, padding, dilation, output padding; whether it is transposed; groups."""
    result: ExternResult


Step = AllocateSlot | Launch | FreeSlot | ViewSlot | Call | Multiply | Convolve


@dataclass(frozen=True, slots=True)
class PlanOutput:
    """One output: a slot, or a view of it; or a value that is no tensor (``slot`` is None)."""

    slot: int | None
    view: ViewNumbers | None = None
    value: float | RuntimeSize | None = None


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """A graph as data: inputs are slots 0, 1, ...; the steps run in order."""

    inputs: tuple[TensorShape | None, ...]
    """None: an argument that the graph does not use."""
    slots: int
    steps: tuple[Step, ...]
    outputs: tuple[PlanOutput, ...]
    attributes: tuple[tuple[str, TensorShape], ...] = ()
    """Tensors that are attributes of the graph, by path; their slots follow the inputs'."""
    single: bool = False
    """True if the plan returns its one output and not a tuple."""
    values: tuple[Value, ...] = ()
    """The numbers that each call computes before its launches, each from earlier ones."""
    gpu: int = -1
    """Number of the GPU that it launches on; -1: none."""


@dataclass(frozen=True, slots=True)
class CaptureFacts:
    """Facts that decide whether a graph can be recorded as a CUDA graph."""

    obstacle: str
    """The reason why it cannot; "" if it can."""
    written: tuple[tuple[int, str], ...] = ()
    """Position of each input that the graph writes to, and the user's line with the write."""
    unsafe: tuple[str, ...] = ()
    """Extern calls that cannot be recorded; the rest can, if the graph is divided there."""
    unsafe_is_known: bool = False
    """True if these calls and operations on the CPU are the only obstacles."""
    writes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Positions of the pointers that each kernel writes to."""
    mutating: tuple[str, ...] = ()
    """Extern calls that write to their arguments."""
    collectives: tuple[str, ...] = ()
    """Extern calls that begin a collective, and those that wait for one."""


@dataclass(frozen=True, slots=True)
class EmittedProgram:
    """Everything generated for one graph."""

    schedule: Schedule
    source: str
    """The C++ translation unit; "" if the graph has no kernel of its own."""
    wrapper: str
    """Python: allocates, launches, calls ATen, returns."""
    kernels: tuple[EmittedKernel, ...]
    externs: tuple[Extern, ...] = ()
    plan: LaunchPlan | None = None
    """None: the graph needs the wrapper."""
    no_plan: str = ""
    """The reason why there is no plan."""
    written: tuple[int, ...] = ()
    """The positions of inputs that the graph writes to; only for Triton."""
    ranges: tuple[tuple[str, ProfilerRange], ...] = ()
    """The range of each kernel and extern call in torch.profiler, by its name in the wrapper."""
    capture: CaptureFacts | None = None
    """None: it is not to be recorded as a CUDA graph."""
