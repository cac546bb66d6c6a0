"""The program under construction: names, realisation, calls of ATen.

    build.realise(x + 1)              buf0 = x[i0, i1] + 1.0;  the value is now buf0[i0, i1]
    build.call(aten.exp.default, x)   lower another operator, inside a lowering
    build.extern(aten.mm.default, ...)

In torch: torch/_inductor/graph.py (GraphLowering), ir.py (realize). Read next:
nbcompile/lowering/graph.py, which drives it
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import sympy
import torch
from torch import fx

from nbcompile import torch_internals
from nbcompile.ir import buffer as ir
from nbcompile.ir.expr import (
    Gather,
    IndexOf,
    UnsupportedDtype,
    cast,
    compute_dtype,
    constant,
    cost,
    loads,
    substitute,
    with_origin,
)
from nbcompile.ir.index import (
    ONE,
    ZERO,
    Index,
    Symbol,
    gather_variable,
    index,
    is_one,
    loop_variable,
    loop_variables,
    product,
    reduction_variable,
    simplify,
    stride_along,
    unflatten,
)
from nbcompile.ir.layout import Layout, channels_last, contiguous, is_dense, of_tensor, same_addresses
from nbcompile.lowering import split_reduction
from nbcompile.lowering.registry import LOWERINGS, NoLowering
from nbcompile.lowering.value import Value, joined_nodes, load, moved, whole_load

CHEAP_COST = 4
CHEAP_LOADS = 2
"""What costs no more additions, over no more loads, is computed again rather than kept."""

# These accept any strides and return a fresh contiguous result: no copy is made for them.
_TAKES_ANY_STRIDE = {
    torch.ops.aten.mm.default, torch.ops.aten.bmm.default, torch.ops.aten.addmm.default,
    torch.ops.aten.baddbmm.default, torch.ops.aten.mv.default, torch.ops.aten.dot.default,
    torch.ops.aten.addmv.default, torch.ops.aten.embedding_dense_backward.default,
}  # fmt: skip


@dataclass(slots=True)
class Draws:
    """The random numbers of one program that are our own (randomness.py)."""

    seeds: dict[torch.device, Value] = field(default_factory=dict)
    taken: Index = ZERO
    """How many counters are used up."""


class Builder:
    """Collects the buffers of one program."""

    def __init__(self, draws: Draws | None = None, device: torch.device | None = None) -> None:
        self.draws = draws
        """None: ATen draws the random numbers, those of eager."""
        self.device = device
        """Where tensors that are on the CPU are taken to be; None: there."""
        self.buffers: list[ir.Buffer] = []
        self.tensors: dict[str, ir.Tensor] = {}
        self.node: fx.Node | None = None
        """The fx node that is being lowered."""
        self.shape_env: Any = None
        """What is known of symbolic sizes; None where there are none."""
        self.channels_last: set[str] = set()
        """Buffers that have their channels last though the graph has them first."""
        self._counts: dict[str, int] = {}

    def is_true(self, condition: Any) -> bool:
        """Whether a condition on sizes holds in every call of the graph (False: cannot tell)."""
        if isinstance(condition, (bool, sympy.logic.boolalg.BooleanAtom)):
            return bool(condition)
        return self.shape_env is not None and torch_internals.statically_true(self.shape_env, condition)

    def placed(self, device: torch.device) -> torch.device:
        """Where a tensor is taken to be."""
        return self.device if self.device is not None and device.type == "cpu" else device

    # -- names ----------------------------------------------------------------

    def fresh(self, prefix: str) -> str:
        """A new name: ``buf0``, ``buf1``, ..."""
        while True:
            number = self._counts.get(prefix, 0)
            self._counts[prefix] = number + 1
            if f"{prefix}{number}" not in self.tensors:
                return f"{prefix}{number}"

    def fresh_gather(self) -> Symbol:
        """A new symbol for an index that is read from memory."""
        number = self._counts.get("g", 0)
        self._counts["g"] = number + 1
        return gather_variable(number)

    def here(self) -> tuple[str, ...]:
        """The name of the fx node at work."""
        return (self.node.name,) if self.node is not None else ()

    # -- buffers --------------------------------------------------------------

    def add(self, buffer: ir.Buffer) -> None:
        """Append a buffer; what of its body is no node's work yet is that of the node at work."""
        if isinstance(buffer, ir.LoopBuffer | ir.Scatter):
            buffer = replace(buffer, body=with_origin(buffer.body, self.here()))
        self.buffers.append(buffer)
        if not isinstance(buffer, ir.Extern):
            self.tensors[buffer.name] = buffer

    def whole(self, name: str) -> Value:
        """The value of a buffer that exists."""
        tensor = self.tensors[name]
        return load(name, tensor.dtype, tensor.device, tensor.layout.size)

    def realise(self, value: Value, layout: Layout | None = None, *, copy: bool = False, writes_to: str = "") -> Value:
        """Give a value memory. A value that is a whole buffer already is answered as it is, unless ``copy``."""
        if not copy and not writes_to and self._is_whole_buffer(value, layout):
            return value
        if value.dtype.is_complex:
            raise UnsupportedDtype(value.dtype)
        layout = layout if layout is not None else self.default_layout(value)
        ones: dict[Symbol, Index] = {loop_variable(at): ZERO for at, extent in enumerate(layout.size) if is_one(extent)}
        body = cast(substitute(value.body, ones) if ones else value.body, value.dtype)
        if ZERO in layout.size:  # no element: nothing may be read for it
            body = constant(0, value.dtype)
        name = self.fresh("buf")
        if self.channels_last and value.ndim == 4 and same_addresses(layout, channels_last(layout.size)):
            self.channels_last.add(name)
        self.add(
            ir.Pointwise(name, value.dtype, value.device, layout, body, value.from_nodes or self.here(), writes_to)
        )
        return self.whole(writes_to or name)

    def shared(self, value: Value) -> Value:
        """A value that a lowering uses several times: realised, unless it costs little to compute again."""
        few = sum(1 for _ in loads(value.body)) <= CHEAP_LOADS
        return value if cost(value.body) <= CHEAP_COST and few else self.realise(value)

    def _is_whole_buffer(self, value: Value, layout: Layout | None) -> bool:
        single = whole_load(value)
        if single is None or single.gathers or single.index != loop_variables(value.ndim):
            return False
        own = self.tensors[single.buffer].layout
        return own.size == value.size and (layout is None or same_addresses(own, layout))

    def default_layout(self, value: Value) -> Layout:
        """The strides that FakeTensor predicts for the node, where this is its result; else row-major."""
        predicted = self.node.meta.get("val") if self.node is not None else None
        if isinstance(predicted, torch.Tensor):
            layout = of_tensor(predicted)
            if layout.size == value.size and is_dense(layout):
                return channels_last(value.size) if self._follows(value) else layout
        return contiguous(value.size)

    def _follows(self, value: Value) -> bool:
        """Whether a value inside the graph is made of buffers that have their channels last."""
        assert self.node is not None
        if not self.channels_last or value.ndim != 4 or any(user.op == "output" for user in self.node.users):
            return False
        return any(
            access.buffer in self.channels_last and access.index == loop_variables(4) and not access.gathers
            for access in loads(value.body)
        )

    def reduce(
        self, value: Value, dims: Sequence[int], keepdim: bool, kind: str, dtype: torch.dtype, accumulate: torch.dtype
    ) -> Value:
        """Combine all elements along some dimensions into one: a new buffer, unless each is the only one."""
        kept = [at for at in range(value.ndim) if at not in dims]
        several = [at for at in dims if not is_one(value.size[at])]
        if self.device is not None and several:
            number = split_reduction.count(
                [value.size[at] for at in kept], [value.size[at] for at in several], kind,
                along_columns=self._lies_along(value, kept, several),
            )  # fmt: skip
            if number > 1:
                return self._reduce_in_parts(value, kept, several, number, keepdim, kind, dtype, accumulate)
        mapping: dict[Symbol, Index] = {loop_variable(at): loop_variable(to) for to, at in enumerate(kept)}
        mapping |= {loop_variable(at): reduction_variable(to) for to, at in enumerate(several)}
        mapping |= {loop_variable(at): ZERO for at, extent in enumerate(value.size) if is_one(extent)}
        body = cast(substitute(value.body, mapping), accumulate)
        size = tuple(value.size[at] for at in kept)
        nodes = joined_nodes(value.from_nodes, self.here())
        if several:
            name, reduced = self.fresh("buf"), tuple(value.size[at] for at in several)
            self.add(ir.Reduction(name, dtype, value.device, contiguous(size), body, kind, reduced, accumulate, nodes))
            result = self.whole(name)
        else:
            alone = constant(0, dtype) if kind.startswith("arg") else cast(body, compute_dtype(dtype))
            result = Value(dtype, value.device, size, alone, nodes)
        return _with_ones(result, value.size, kept) if keepdim else result

    def _lies_along(self, value: Value, kept: Sequence[int], several: Sequence[int]) -> bool:
        """Whether neighbours in memory belong to different results, of most that is read."""
        columns = rows = 0
        for access in loads(value.body):
            offset = self.tensors[access.buffer].layout.at(access.index)
            rows += any(stride_along(offset, loop_variable(at)) == ONE for at in several)
            columns += any(stride_along(offset, loop_variable(at)) == ONE for at in kept)
        return columns > rows

    def _reduce_in_parts(
        self, value: Value, kept: Sequence[int], several: Sequence[int], number: int, keepdim: bool, kind: str,
        dtype: torch.dtype, accumulate: torch.dtype,
    ) -> Value:  # fmt: skip
        """As :meth:`reduce`, first of each of some parts, then of these."""
        reduced = [value.size[at] for at in several]
        length = product(reduced) / number
        part, inside = loop_variable(len(kept)), loop_variable(len(kept) + 1)
        places = unflatten(length * part + inside, reduced, {part: index(number), inside: length})
        position: list[Index] = [ZERO] * value.ndim
        for to, at in enumerate(kept):
            position[at] = loop_variable(to)
        for at, place in zip(several, places, strict=True):
            position[at] = place
        size = tuple(value.size[at] for at in kept)
        apart = moved(value, (*size, index(number), length), position)
        totals = self.reduce(apart, [len(kept) + 1], False, kind, accumulate, accumulate)
        result = self.reduce(totals, [len(kept)], False, kind, dtype, accumulate)
        return _with_ones(result, value.size, kept) if keepdim else result

    def scan(self, value: Value, dim: int, kind: str, dtype: torch.dtype, accumulate: torch.dtype) -> Value:
        """Combine each element with those before it along a dimension: a new buffer."""
        ones: dict[Symbol, Index] = {loop_variable(at): ZERO for at, extent in enumerate(value.size) if is_one(extent)}
        body = cast(substitute(value.body, ones) if ones else value.body, accumulate)
        name, nodes = self.fresh("buf"), joined_nodes(value.from_nodes, self.here())
        layout = self.default_layout(value)
        self.add(ir.Scan(name, dtype, value.device, layout, body, kind, dim, accumulate, nodes))
        return self.whole(name)

    def scatter(self, target: Value, source: Value, position: Sequence[IndexOf], kind: str) -> Value:
        """``target`` with the elements at ``position`` (over the source's loops) changed: a new buffer."""
        if kind != "store" and compute_dtype(target.dtype) != target.dtype:
            # As the rounding of each addition would add up, elements are changed in the wider type.
            wide = replace(target, dtype=compute_dtype(target.dtype))
            return replace(self.scatter(wide, source, position, kind), dtype=target.dtype)
        into = whole_load(self.realise(target, copy=True))
        assert into is not None
        layout = self.tensors[into.buffer].layout
        ones: dict[Symbol, Index] = {loop_variable(at): ZERO for at, extent in enumerate(source.size) if is_one(extent)}
        body = cast(substitute(source.body, ones), target.dtype)
        places = tuple(substitute(each, ones) for each in position)
        name, nodes = self.fresh("buf"), joined_nodes(target.from_nodes, source.from_nodes, self.here())
        self.add(
            ir.Scatter(name, target.dtype, target.device, layout, body, source.size, places, kind, into.buffer, nodes)  # type: ignore[arg-type]
        )
        return self.whole(name)

    def view_of(self, value: Value) -> ir.BufferView | None:
        """The value as strides over a buffer's memory, where it is a plain view of one."""
        single = whole_load(value)
        if single is None or single.gathers:
            return None
        place = simplify(self.tensors[single.buffer].layout.at(single.index), value.ranges())
        variables = loop_variables(value.ndim)
        steps = [stride_along(place, variable) for variable in variables]
        if any(step is None or step.could_extract_minus_sign() for step in steps):
            return None  # no tensor walks its memory backwards
        start = place.xreplace(dict.fromkeys(variables, ZERO))
        own = self.tensors[single.buffer].layout
        # Along a dimension of size 1 the stride is not in the index: take the buffer's own, if it has one.
        same_size = own.size == value.size and single.index == variables
        stride = own.stride if same_size else tuple(step for step in steps if step is not None)
        return ir.BufferView(single.buffer, Layout(value.size, stride, sympy.expand(start)))

    def as_argument(self, value: Value, expected: Layout | None, any_stride: bool) -> ir.BufferView:
        """The value as a tensor to hand to ATen: with the strides of the fx graph, unless these do not matter."""
        view = self.view_of(value)
        if view is not None and (any_stride or expected is None or same_addresses(_unmoved(view.layout), expected)):
            if view.layout.size and expected is not None and not any_stride:
                return ir.BufferView(view.buffer, Layout(view.layout.size, expected.stride, view.layout.offset))
            return view
        layout = expected if expected is not None else contiguous(value.size)
        # Along a stride of 0 all elements are one: only that one is computed.
        repeated = [at for at, step in enumerate(layout.stride) if step == 0 and not is_one(layout.size[at])]
        size = tuple(ONE if at in repeated else extent for at, extent in enumerate(layout.size))
        position = [ZERO if at in repeated else loop_variable(at) for at in range(value.ndim)]
        narrow = moved(value, size, position) if repeated else value
        single = whole_load(self.realise(narrow, Layout(size, layout.stride), copy=True))
        assert single is not None
        return ir.BufferView(single.buffer, Layout(layout.size, layout.stride))

    # -- operators ------------------------------------------------------------

    def call(self, target: Any, *args: Any, **kwargs: Any) -> Any:
        """Lower an operator inside the lowering of another one."""
        return LOWERINGS[target](self, *args, **kwargs)

    def gather(self, index_value: Value, extent: Index, wraps: bool) -> tuple[Symbol, Gather]:
        """A symbol that stands for an index read from a tensor (whose loop variables are the result's)."""
        if index_value.dtype not in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
            raise NoLowering(f"an index of dtype {index_value.dtype}")
        symbol = self.fresh_gather()
        return symbol, Gather(symbol, cast(index_value.body, torch.int64), extent, wraps)

    def extern(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, reason: str) -> Any:
        """Call an operator of ATen: arguments are values, ``result`` what FakeTensor says it returns."""
        any_stride = target in _TAKES_ANY_STRIDE
        plain = _map(args, lambda argument, fake: self._argument(argument, fake, any_stride), self._fakes(args, 0))
        named = {key: _map(each, lambda e, f: self._argument(e, f, any_stride), None) for key, each in kwargs.items()}
        return self.extern_of(target, plain, named, result, reason)

    def extern_of(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, reason: str) -> Any:
        """The same with arguments that are buffers already."""
        name = self.fresh("extern")
        mutates = tuple(dict.fromkeys(_mutated(target, args, kwargs)))
        self.add(ir.Extern(name, target, args, kwargs, reason, mutates, self.here()))
        return self._results(name, result, ())

    def _fakes(self, args: tuple[Any, ...], _: int) -> Any:
        # What the fx graph says of the very same arguments, to know their strides.
        node = self.node
        if node is None or len(node.args) != len(args):
            return None
        return fx.map_arg(node.args, lambda operand: operand.meta.get("val"))

    def _argument(self, value: Any, fake: Any, any_stride: bool) -> Any:
        if not isinstance(value, Value):
            return value
        expected = of_tensor(fake) if isinstance(fake, torch.Tensor) else None
        if expected is not None and len(expected.size) != value.ndim:
            expected = None
        return self.as_argument(value, expected, any_stride)

    def _results(self, extern: str, result: Any, path: tuple[int, ...]) -> Any:
        if isinstance(result, torch.Tensor):
            name = self.fresh("buf")
            layout = of_tensor(result)
            device = self.placed(result.device)
            self.add(ir.ExternOutput(name, result.dtype, device, layout, extern, path, self.here()))
            return self.whole(name)
        if isinstance(result, (tuple, list)):
            return tuple(self._results(extern, each, (*path, at)) for at, each in enumerate(result))
        return result


def _with_ones(result: Value, size: Sequence[Index], kept: Sequence[int]) -> Value:
    """What is left of a reduction, with one element along each dimension that is gone."""
    whole = tuple(extent if at in kept else index(1) for at, extent in enumerate(size))
    return moved(result, whole, [loop_variable(at) for at in kept])


def _unmoved(layout: Layout) -> Layout:
    return Layout(layout.size, layout.stride)


def _map(value: Any, change: Callable[[Any, Any], Any], beside: Any) -> Any:
    """Apply a function to every leaf of nested arguments, with the leaf at the same place beside it."""
    if isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
        others = beside if isinstance(beside, (tuple, list)) and len(beside) == len(value) else [None] * len(value)
        parts = [_map(each, change, other) for each, other in zip(value, others, strict=True)]
        return tuple(parts) if isinstance(value, tuple) else parts
    if isinstance(value, dict):
        return {key: _map(each, change, None) for key, each in value.items()}
    return change(value, beside)


def _mutated(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """The buffers that an operator writes to, as its schema says."""
    schema = getattr(target, "_schema", None)
    if schema is None:
        return []
    written: list[str] = []
    for at, argument in enumerate(schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        given = kwargs.get(argument.name, args[at] if at < len(args) else None)
        several = given if isinstance(given, (tuple, list)) else [given]
        written.extend(each.buffer for each in several if isinstance(each, ir.BufferView))
    return written
