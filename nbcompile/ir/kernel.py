"""Kernels: loop nests in order, which a code generator walks.

A kernel is a nest of parallel outer loops around statements in sequence. Inner
nests run one after the other for each outer iteration; that is how a softmax
over rows is one kernel.

    kernel0: for i0 < 64:                                outer loops, all parallel
                 for r0 < 1024:                          Nest
                     buf0 = max(buf0, in0[1024*i0 + r0])     Accumulate
                 for r0 < 1024:
                     buf1 = exp(in0[1024*i0 + r0] - buf0)    Let
                     row1[r0] = buf1                         Store into a scratch row
                     buf2 += buf1
                 for r0 < 1024:
                     buf3[1024*i0 + r0] = row1[r0] / buf2    Store

In a kernel every ``Load`` and ``Store`` has one index: the offset in memory.

In torch: torch/_inductor/codegen/simd.py, cpp.py (built while it is printed).
Read next: nbcompile/ir/evaluate.py
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from nbcompile.ir.buffer import PRODUCT_KINDS, Extern, Program, views_in
from nbcompile.ir.expr import Expr, Gather, IndexOf
from nbcompile.ir.index import ONE, ZERO, Index, Symbol, constant, product
from nbcompile.ir.strides import stride_along
from nbcompile.record.model import FusionDecision


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop: ``for 0 <= variable < size``."""

    variable: Symbol
    size: Index


@dataclass(frozen=True, slots=True)
class Let:
    """Bind a local: ``Local(name)`` is the value until the enclosing loop body (or the kernel) ends."""

    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Store:
    """Write one element. ``value.dtype`` is the buffer's dtype."""

    buffer: str
    """A buffer of the program, or a scratch row of the kernel."""
    offset: Index
    value: Expr


@dataclass(frozen=True, slots=True)
class Accumulate:
    """Reduce ``value`` over the loops of the enclosing Nest; ``Local(name)`` is the result after it.

    The result has ``value.dtype``; for argmax and argmin it is the ``index`` (int64)
    of the extremum.
    """

    name: str
    kind: str
    """See :class:`nbcompile.ir.buffer.Reduction`."""
    value: Expr
    index: Index = ZERO
    """The index of this iteration, for argmax and argmin; of equal values the smallest index wins."""


@dataclass(frozen=True, slots=True)
class Carry:
    """Scan: combine ``value`` with the earlier iterations; ``Local(name)`` is the running result, inclusive.

    The enclosing Nest has one loop, which runs in order. The result has ``value.dtype``; for argmax and
    argmin it is the ``index`` (int64) of the running extremum.
    """

    name: str
    kind: str
    """See :class:`nbcompile.ir.buffer.Scan`."""
    value: Expr
    index: Index = ZERO


@dataclass(frozen=True, slots=True)
class Update:
    """Update one element at a gathered index: ``buffer[offset] += value``.

    An index out of bounds is an IndexError, and nothing is written for it.
    """

    buffer: str
    offset: IndexOf
    """The offset in memory, as for Store."""
    value: Expr
    kind: str
    """See :class:`nbcompile.ir.buffer.Scatter`."""


@dataclass(frozen=True, slots=True)
class Nest:
    """Inner loops, run to their end before the next statement.

    Iterations are independent except for Accumulate and Carry: they can be vectorised.
    With an Update in the body they run one by one, in row-major order.
    """

    loops: tuple[Loop, ...]
    body: tuple[Let | Store | Accumulate | Carry | Update, ...]


Statement = Let | Store | Update | Nest
Inner = Let | Store | Accumulate | Carry | Update
"""A statement inside a Nest."""


@dataclass(frozen=True, slots=True)
class Scratch:
    """Scratch buffer of one outer iteration (a row that stays in cache), of ``size`` elements."""

    name: str
    dtype: torch.dtype
    size: Index


@dataclass(frozen=True, slots=True)
class ProductTile:
    """Tile of a matrix product: the part of one program of a GPU."""

    rows: int
    columns: int
    depth: int
    """Steps of the sum that are done at once."""
    warps: int = 4
    stages: int = 3
    """Steps whose factors are loaded ahead."""
    group: int = 8
    """Blocks of rows whose programs run in sequence for the same columns, since they share cached columns."""

    programs: int = 0
    """Number of programs of a persistent kernel, each with one tile after another; 0: one for each tile."""
    descriptors: bool = False
    """Factors are loaded by tensor descriptors (TMA, from sm_90 on)."""

    @property
    def label(self) -> str:
        """``64x128x32, 4 warps, 3 stages``."""
        persistent = f", {self.programs} programs" if self.programs else ""
        engine = ", TMA" if self.descriptors else ""
        return f"{self.rows}x{self.columns}x{self.depth}, {self.warps} warps, {self.stages} stages{persistent}{engine}"


@dataclass(frozen=True, slots=True)
class Kernel:
    """One loop nest, one function of generated code."""

    name: str
    device: torch.device
    loops: tuple[Loop, ...]
    """Outer loops, outermost first; every iteration is independent of the others."""
    body: tuple[Statement, ...]
    scratch: tuple[Scratch, ...] = ()
    reads: tuple[str, ...] = ()
    """Buffers that it loads from, in order of first use: pointer arguments."""
    writes: tuple[str, ...] = ()
    """Buffers that it stores to (an input, where ``x.copy_(...)`` is fused)."""
    buffers: tuple[str, ...] = ()
    """Buffers of the program that it computes, also those that are never stored."""
    from_nodes: tuple[str, ...] = ()
    vector_variable: Symbol | None = None
    """The loop to vectorise: the innermost outer loop where there are no nests or where it is contiguous
    (an outer reduction), otherwise the last loop of each nest. None: there is no loop."""
    parts: tuple[Kernel, ...] = ()
    """Independent kernels that one launch on a GPU runs in parallel; loops and body are empty then."""
    tile: ProductTile | None = None
    """Tile of the matrix product, where there is one; None: the default."""

    @property
    def product(self) -> Accumulate | None:
        """The matrix product of the kernel, if there is one (it is the only reduction then)."""
        nests = (statement for statement in self.body if isinstance(statement, Nest))
        inner = (part for nest in nests for part in nest.body)
        return next((part for part in inner if isinstance(part, Accumulate) and part.kind in PRODUCT_KINDS), None)


@dataclass(frozen=True, slots=True)
class Allocate:
    """Allocate the memory of a buffer (its layout is in the program)."""

    buffer: str


@dataclass(frozen=True, slots=True)
class Reuse:
    """Reuse the memory of a dead buffer."""

    buffer: str
    memory_of: str


@dataclass(frozen=True, slots=True)
class Free:
    """Free the memory of a buffer after its last use."""

    buffer: str


Step = Allocate | Reuse | Free | Kernel | Extern


@dataclass(frozen=True, slots=True)
class Schedule:
    """The program as a list of steps in execution order."""

    program: Program
    """The program after dead code elimination; ``program.tensors()`` has the layouts."""
    steps: tuple[Step, ...]
    decisions: tuple[FusionDecision, ...] = ()
    buffers_read: frozenset[str] = field(init=False, repr=False, compare=False)
    """Names of what kernels and extern calls read; built once, as every kernel needs it."""

    def __post_init__(self) -> None:
        read = {name for kernel in self.kernels() for name in kernel.reads}
        calls = (step for step in self.steps if isinstance(step, Extern))
        read |= {view.buffer for call in calls for view in views_in((call.args, call.kwargs))}
        object.__setattr__(self, "buffers_read", frozenset(read))

    def kernels(self) -> Iterator[Kernel]:
        """The generated kernels, in order."""
        return (step for step in self.steps if isinstance(step, Kernel))


def access(offset: Index, gathers: tuple[Gather, ...], variable: Symbol) -> str:
    """Access pattern along a loop.

    ``contiguous`` (stride 1), ``broadcast`` (stride 0), ``strided`` (any
    other constant stride) or ``gather`` (anything else: indices loaded from
    memory, divisions, remainders).
    """
    if any(gather.symbol in offset.free_symbols for gather in gathers):
        return "gather"
    step = stride_along(offset, variable)
    if step is None:
        return "gather"
    return {ONE: "contiguous", ZERO: "broadcast"}.get(step, "strided")


MAX_SHORT_ROW = 1 << 16
"""Elements. Sixteen longer rows do not fit in a cache, so they are not packed."""


MAX_REGISTER_ROW = 1 << 14
"""Elements. The longest row that the threads of one program on a GPU hold in registers."""


def is_short_row(inner: tuple[Loop, ...]) -> bool:
    """Return whether rows of so many elements can be packed into a panel."""
    length = constant(product([loop.size for loop in inner]))
    return length is None or length <= MAX_SHORT_ROW


MAX_SMALL_STRIDE = 4
"""Elements. Lanes at most this far apart are shuffled out of contiguous vector loads."""


def has_small_stride(offset: Index, variable: Symbol, other: Symbol) -> bool:
    """Return whether an access is contiguous along a loop, or nearly so and not contiguous along the other one."""
    step = constant(stride_along(offset, variable) or ZERO)
    return step == 1 or (step is not None and 0 < abs(step) <= MAX_SMALL_STRIDE and stride_along(offset, other) != ONE)


def is_transposed_access(offset: Index, lanes: Symbol, rows: Symbol) -> bool:
    """Return whether an access is contiguous along the row loop, and strided along the vectorised one."""
    return stride_along(offset, rows) == ONE and stride_along(offset, lanes) not in (None, ZERO, ONE)
