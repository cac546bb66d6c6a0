"""Named results: what a graph reads, computes and calls.

A program is a list of buffers. Each is computed once, from buffers before it;
views are no buffers but other indices into one.

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
    """A tensor argument of the graph."""

    name: str
    dtype: torch.dtype
    device: torch.device
    layout: Layout
    position: int
    """Its place among the graph's arguments."""
    from_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GraphAttribute:
    """A tensor that the graph module itself holds (an fx ``get_attr`` node)."""

    name: str
    dtype: torch.dtype
    device: torch.device
    layout: Layout
    attribute: str
    """Where: the dotted path below the graph module."""
    from_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pointwise:
    """Every element computed by itself: ``body`` over ``i0 < size[0], i1 < size[1], ...``."""

    name: str
    dtype: torch.dtype
    device: torch.device
    layout: Layout
    body: Expr
    from_nodes: tuple[str, ...] = ()
    writes_to: str = ""
    """A graph input (or attribute) in whose memory the result goes: ``x.copy_(y)``. Then ``layout`` is
    that of the input; reads of the input elsewhere in the program mean its old value."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """For each element, ``body`` over ``r0 < reduced[0], ...`` combined into one.

    ``body`` has dtype ``accumulate`` (for argmax and argmin: the type
    compared). The result is cast to ``dtype``.
    """

    name: str
    dtype: torch.dtype
    device: torch.device
    layout: Layout
    body: Expr
    kind: str
    """``sum prod max min any all argmax argmin``. max and min propagate nan, argmax and argmin
    take the first place (a nan wins) counted over ``reduced`` in row-major order; any and all are bool."""
    reduced: tuple[Index, ...]
    """None of them is 1."""
    accumulate: torch.dtype
    from_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Scan:
    """For each element, ``body`` combined over the elements before it along one dimension, itself included.

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
    place along ``dim`` of the best so far: of equal values the last, and of nan the last."""
    dim: int
    """Of more than one element."""
    accumulate: torch.dtype
    from_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Scatter:
    """A tensor with some elements changed: ``body`` goes to ``position``, for ``i0 < size[0], ...``.

    Iterations that meet at one element follow each other in row-major order.
    """

    name: str
    dtype: torch.dtype
    device: torch.device
    layout: Layout
    """That of ``into``, whose memory it takes over."""
    body: Expr
    size: tuple[Index, ...]
    position: tuple[IndexOf, ...]
    """For each dimension of the result where to, over the loop variables and what is gathered."""
    kind: str
    """``store`` (the last one stays), or how the element and the newcomer are combined: ``sum prod max min any``."""
    into: str
    """A :class:`Pointwise` with the elements before, made for this alone."""
    from_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BufferView:
    """A tensor over a buffer's memory: ``as_strided(buffer, layout...)``.

    ``layout.offset`` counts from the buffer's data pointer. Where the layout
    is the buffer's own, it is the buffer itself.
    """

    buffer: str
    layout: Layout
    apart: bool = False
    """Even where the layout is the buffer's own it is another tensor, in the same memory: another result is it."""


@dataclass(frozen=True, slots=True)
class Extern:
    """A call of an ATen operator; its results are the :class:`ExternOutput` buffers that name it."""

    name: str
    target: Any
    """The ``torch._ops.OpOverload`` (or a higher-order operator, or another callable)."""
    args: tuple[Any, ...]
    """As in the fx graph, nested in tuples, lists and dicts; a tensor is a :class:`BufferView`,
    a symbolic number is an Index (``sympy.Expr``), a graph module a :class:`ModuleReference`."""
    kwargs: dict[str, Any]
    reason: str
    """Why no kernel is generated, in words."""
    mutates: tuple[str, ...] = ()
    """Buffers that the call writes to."""
    from_nodes: tuple[str, ...] = ()

    def __hash__(self) -> int:
        return hash(self.name)


@dataclass(frozen=True, slots=True)
class ExternOutput:
    """One tensor that an Extern returns, with the strides that FakeTensor predicts.

    The run-time wrapper asserts nothing of them: if the real strides differ
    it copies into a tensor with this layout.
    """

    name: str
    dtype: torch.dtype
    device: torch.device
    layout: Layout
    extern: str
    path: tuple[int, ...]
    """Which item of the call's result: ``()`` the result itself, ``(0,)`` its first item."""
    from_nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModuleReference:
    """In the arguments of an Extern: a submodule of the graph module (a branch of ``torch.cond``)."""

    attribute: str


LoopBuffer = Pointwise | Reduction | Scan
"""What has a body over loops, and shares them with others in a kernel."""
Tensor = GraphInput | GraphAttribute | Pointwise | Reduction | Scan | Scatter | ExternOutput
"""What has a layout and can be loaded from."""
Buffer = Tensor | Extern


@dataclass(frozen=True, slots=True)
class SymbolSource:
    """Where the value of a symbolic size is found when the graph is called."""

    symbol: Symbol
    position: int
    """Which argument of the graph."""
    dim: int | None = None
    """None: the argument is the number; else its size along this dimension."""
    property: str = "size"
    """``size`` or ``stride`` of the argument along ``dim``."""


@dataclass(frozen=True, slots=True)
class Program:
    """A whole graph: buffers in an order in which they can be computed."""

    buffers: tuple[Buffer, ...]
    outputs: tuple[BufferView | Index | float | None, ...]
    """What the graph returns. A view of an input with the input's own layout is the input itself."""
    arguments: int
    """How many arguments the graph takes (tensors and numbers)."""
    symbols: tuple[SymbolSource, ...] = ()
    single_output: bool = False
    """Whether the graph returns one value and not a tuple of them."""

    by_name: dict[str, Tensor] = field(init=False, repr=False, compare=False)
    """What can be loaded from; asked for each kernel, so it is made once."""

    def __post_init__(self) -> None:
        tensors = {each.name: each for each in self.buffers if not isinstance(each, Extern)}
        object.__setattr__(self, "by_name", tensors)

    def tensors(self) -> dict[str, Tensor]:
        """What can be loaded from, by name."""
        return self.by_name


def ranges(buffer: LoopBuffer | Scatter) -> Ranges:
    """The size of each loop variable of a body."""
    if isinstance(buffer, Scatter):
        return {loop_variable(axis): size for axis, size in enumerate(buffer.size)}
    outer: dict[Symbol, Index] = {loop_variable(axis): size for axis, size in enumerate(buffer.layout.size)}
    if isinstance(buffer, Reduction):
        outer |= {reduction_variable(axis): size for axis, size in enumerate(buffer.reduced)}
    return outer


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
