"""Buffers: the named tensors that a graph reads, computes, or gets from a call.

A program is a list of buffers in topological order. Each is computed once, from
earlier buffers; a view is no buffer, but another index into one.

    y = torch.softmax(x, -1)
    ->  Reduction("buf0", max,  x[i0, r0])
        Pointwise("buf1",       exp(x[i0, i1] - buf0[i0]))
        Reduction("buf2", sum,  buf1[i0, r0])
        Pointwise("buf3",       buf1[i0, i1] / buf2[i0])

In torch: torch/_inductor/ir.py (Pointwise, Reduction, ExternKernel). Read
next: nbcompile/ir/kernel.py
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from nbcompile.ir.expr import Expr, IndexOf
from nbcompile.ir.index import Index, Ranges, Symbol, loop_variable, reduction_variable
from nbcompile.ir.layout import Layout


@dataclass(frozen=True, slots=True)
class GraphInput:
    """A tensor input of the graph."""

    name: str
    dtype: torch.dtype
    device: torch.device
    layout: Layout
    position: int
    """Position among the graph's arguments."""
    from_nodes: tuple[str, ...] = ()
    donated: bool = False
    """True if it has no user but the graph (saved for a backward pass): it is freed after its last use."""


@dataclass(frozen=True, slots=True)
class GraphAttribute:
    """A tensor constant of the graph module (an fx ``get_attr`` node)."""

    name: str
    dtype: torch.dtype
    device: torch.device
    layout: Layout
    attribute: str
    """The dotted path below the graph module."""
    from_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pointwise:
    """Elements computed independently of each other: ``body`` over ``i0 < size[0], i1 < size[1], ...``."""

    name: str
    dtype: torch.dtype
    device: torch.device
    layout: Layout
    body: Expr
    from_nodes: tuple[str, ...] = ()
    writes_to: str = ""
    """A graph input (or attribute) that the buffer mutates: ``x.copy_(y)``. Then ``layout`` is that of the
    input; loads of the input elsewhere in the program mean its old value."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """Reduction of ``body`` over ``r0 < reduced[0], ...`` to one number for each element.

    ``body`` has dtype ``accumulate`` (for argmax and argmin: the type
    compared). The result is cast to ``dtype``.
    """

    name: str
    dtype: torch.dtype
    device: torch.device
    layout: Layout
    body: Expr
    kind: str
    """``sum prod max min any all argmax argmin``. max and min propagate nan, argmax and argmin give the first
    row-major index over ``reduced`` (a nan wins); any and all are bool. ``dot`` is a sum of products of two factors,
    for the matrix units of a GPU; in ``dot_tf32`` the factors may be rounded to 10 bits first."""
    reduced: tuple[Index, ...]
    """Sizes of the reduced dimensions; none of them is 1."""
    accumulate: torch.dtype
    from_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Scan:
    """Scan: ``body`` combined, for each element, over the elements before it along one dimension, itself included.

    ``body`` has dtype ``accumulate`` (for argmax and argmin: the type
    compared). The result is cast to ``dtype``.
    """

    name: str
    dtype: torch.dtype
    device: torch.device
    layout: Layout
    body: Expr
    kind: str
    """``sum prod max min logsumexp argmax argmin``. max and min propagate nan; argmax and argmin give the
    index along ``dim`` of the running extremum: of equal values the last, and of nan the last."""
    dim: int
    """The scanned dimension; it has more than one element."""
    accumulate: torch.dtype
    from_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Scatter:
    """A tensor with some elements updated: ``body`` is stored at ``position``, for ``i0 < size[0], ...``.

    Iterations that update the same element run in row-major order.
    """

    name: str
    dtype: torch.dtype
    device: torch.device
    layout: Layout
    """The layout of ``into``, whose memory it reuses."""
    body: Expr
    size: tuple[Index, ...]
    position: tuple[IndexOf, ...]
    """Index along each dimension of the result, over the loop variables and gathered indices."""
    kind: str
    """``store`` (the last value wins), or how the old and the new value are combined: ``sum prod max min any``."""
    into: str
    """A :class:`Pointwise` with the initial elements, whose single use is this."""
    from_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BufferView:
    """A tensor over a buffer's memory: ``as_strided(buffer, layout...)``.

    ``layout.offset`` counts from the buffer's data pointer. Where the layout
    is the buffer's own, it is the buffer itself.
    """

    buffer: str
    layout: Layout
    distinct: bool = False
    """True if it is a tensor object of its own although the layout is the buffer's: another output is the buffer."""


@dataclass(frozen=True, slots=True)
class Extern:
    """A call of an ATen operator; its results are the :class:`ExternOutput` buffers that name it."""

    name: str
    target: Any
    """The ``torch._ops.OpOverload`` (or a higher-order operator, or another callable)."""
    args: tuple[Any, ...]
    """Arguments as in the fx graph, nested in tuples, lists and dicts; a tensor is a :class:`BufferView`,
    a symbolic number is an Index (``sympy.Expr``), a graph module a :class:`ModuleReference`."""
    kwargs: dict[str, Any]
    reason: str
    """The reason why no kernel is generated, for the record."""
    mutates: tuple[str, ...] = ()
    """Buffers that the call writes to."""
    from_nodes: tuple[str, ...] = ()

    def __hash__(self) -> int:
        return hash(self.name)


@dataclass(frozen=True, slots=True)
class ExternOutput:
    """One tensor that an Extern returns, with the strides that FakeTensor predicts.

    The wrapper does not assert them: if the real strides differ, it copies
    into a tensor with this layout.
    """

    name: str
    dtype: torch.dtype
    device: torch.device
    layout: Layout
    extern: str
    path: tuple[int, ...]
    """Path to the tensor in the call's result: ``()`` the result itself, ``(0,)`` its first item."""
    from_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModuleReference:
    """A submodule of the graph module in the arguments of an Extern (a branch of ``torch.cond``)."""

    attribute: str


PRODUCT_KINDS = ("dot", "dot_tf32")
"""Reductions that are matrix products."""
LoopBuffer = Pointwise | Reduction | Scan
"""A buffer with a body over loops, which can be fused. In torch: ``Loops``."""
Tensor = GraphInput | GraphAttribute | Pointwise | Reduction | Scan | Scatter | ExternOutput
"""A buffer with a layout, from which bodies load."""
Buffer = Tensor | Extern


@dataclass(frozen=True, slots=True)
class SymbolSource:
    """Source of a symbolic size: the argument that its value is read from at each call."""

    symbol: Symbol
    position: int
    """Position of the argument."""
    dim: int | None = None
    """The dimension of the argument; None: the argument is the number."""
    property: str = "size"
    """``size`` or ``stride`` of the argument along ``dim``."""


@dataclass(frozen=True, slots=True)
class Program:
    """A graph as loop IR: buffers in topological order."""

    buffers: tuple[Buffer, ...]
    outputs: tuple[BufferView | Index | float | None, ...]
    """Results of the graph. A view of an input with the input's own layout is the input itself."""
    arguments: int
    """Number of arguments of the graph (tensors and numbers)."""
    symbols: tuple[SymbolSource, ...] = ()
    single_output: bool = False
    """True if the graph returns one value and not a tuple of them."""
    checks_divisors: bool = False
    """True if kernels for a GPU check that no whole number is divided by 0, as eager mode on the CPU does."""

    by_name: dict[str, Tensor] = field(init=False, repr=False, compare=False)
    """Tensors by name; built once, as every kernel needs it."""
    outputs_of: dict[str, tuple[ExternOutput, ...]] = field(init=False, repr=False, compare=False)
    """Results of each extern call, by its name; built once, as every call needs it."""

    def __post_init__(self) -> None:
        tensors = {each.name: each for each in self.buffers if not isinstance(each, Extern)}
        object.__setattr__(self, "by_name", tensors)
        found: dict[str, list[ExternOutput]] = {}
        for buffer in self.buffers:
            if isinstance(buffer, ExternOutput):
                found.setdefault(buffer.extern, []).append(buffer)
        object.__setattr__(self, "outputs_of", {name: tuple(outputs) for name, outputs in found.items()})

    def tensors(self) -> dict[str, Tensor]:
        """Tensors by name."""
        return self.by_name


def ranges(buffer: LoopBuffer | Scatter) -> Ranges:
    """Size of each loop variable of a buffer's body."""
    if isinstance(buffer, Scatter):
        return {loop_variable(axis): size for axis, size in enumerate(buffer.size)}
    outer: dict[Symbol, Index] = {loop_variable(axis): size for axis, size in enumerate(buffer.layout.size)}
    if isinstance(buffer, Reduction):
        outer |= {reduction_variable(axis): size for axis, size in enumerate(buffer.reduced)}
    return outer


COLLECTIVES = "_c10d_functional"
"""Namespace of the operators that begin a collective between processes, and of the one that waits for its result."""


def operator_name(target: Any) -> str:
    """``aten::mm``; empty for higher-order operators and Python functions, which have no schema."""
    schema = getattr(target, "_schema", None)
    return "" if schema is None else str(schema.name)


def views_in(value: Any) -> Iterator[BufferView]:
    """Every tensor in the arguments of a call."""
    if isinstance(value, BufferView):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from views_in(item)
    elif isinstance(value, (tuple, list)):
        for item in value:
            yield from views_in(item)
