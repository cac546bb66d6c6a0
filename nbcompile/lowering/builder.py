"""The program under construction: names, realisation, calls of ATen.

    build.realize(x + 1)              buf0 = x[i0, i1] + 1.0;  the value is now buf0[i0, i1]
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
from nbcompile.ir.expr import Gather, IndexOf, UnsupportedDtype, cast, compute_dtype, constant
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
    reduction_variable,
    simplify,
)
from nbcompile.ir.layout import Layout, channels_last, contiguous, is_dense, of_tensor, same_addresses
from nbcompile.ir.strides import stride_along
from nbcompile.ir.traversal import cost, loads, substitute, with_origin
from nbcompile.lowering import split_reduction
from nbcompile.lowering.bounds_errors import bounds_error
from nbcompile.lowering.extern import returned_by
from nbcompile.lowering.registry import LOWERINGS, NoLowering
from nbcompile.lowering.value import Value, load, merge_nodes, reindexed, single_load

CHEAP_COST = 4
CHEAP_LOADS = 2
"""Limits of additions and loads: a body within both is recomputed, any other is stored."""

# Operators that accept any strides and return a fresh contiguous result: their operands are not copied.
_ACCEPTS_ANY_STRIDE = {
    torch.ops.aten.mm.default, torch.ops.aten.bmm.default, torch.ops.aten.addmm.default,
    torch.ops.aten.baddbmm.default, torch.ops.aten.mv.default, torch.ops.aten.dot.default,
    torch.ops.aten.addmv.default, torch.ops.aten.embedding_dense_backward.default,
}  # fmt: skip


@dataclass(slots=True)
class PhiloxState:
    """State of the Philox generator while one program is lowered (randomness.py)."""

    seeds: dict[torch.device, Value] = field(default_factory=dict)
    counters_used: Index = ZERO
    """Number of counters in use by the random operators so far."""


class Builder:
    """Builder of one program: the list of its buffers, and what lowerings have in common."""

    def __init__(self, random_state: PhiloxState | None = None, device: torch.device | None = None) -> None:
        self.random_state = random_state
        """None: ATen draws the random numbers, the same as eager's."""
        self.device = device
        """The device to generate code for instead of the CPU; None: the CPU itself."""
        self.buffers: list[ir.Buffer] = []
        self.tensors: dict[str, ir.Tensor] = {}
        self.devices: set[torch.device] = set()
        self.node: fx.Node | None = None
        """The fx node that is being lowered."""
        self.shape_env: Any = None
        """torch's ``ShapeEnv``; None where no size is symbolic."""
        self.channels_last: set[str] = set()
        """Buffers in channels-last layout where the graph is contiguous."""
        self.known: dict[fx.Node, Value] = {}
        """Values that a launch of a Triton kernel has written, by the later nodes that represent them."""
        self.written_by_launches: set[str] = set()
        """Buffers that only launches of Triton kernels have written, or will."""
        self.launch_inputs: dict[fx.Node, fx.Node] = {}
        """Results of launches that are in an input's memory, with the input."""
        self.own_tensors: dict[fx.Node, torch.Tensor] = {}
        """Tensors that are attributes of the graph module, by their nodes."""
        self._counts: dict[str, int] = {}

    def is_true(self, condition: Any) -> bool:
        """Return whether a condition on sizes is statically true; False if that is unknown."""
        if isinstance(condition, (bool, sympy.logic.boolalg.BooleanAtom)):
            return bool(condition)
        return self.shape_env is not None and torch_internals.statically_true(self.shape_env, condition)

    def target_device(self, device: torch.device) -> torch.device:
        """The device for which code is generated, for a tensor of a device."""
        return self.device if self.device is not None and device.type in ("cpu", "meta") else device

    # -- names ----------------------------------------------------------------

    def fresh(self, prefix: str) -> str:
        """A new name: ``buf0``, ``buf1``, ..."""
        while True:
            number = self._counts.get(prefix, 0)
            self._counts[prefix] = number + 1
            if f"{prefix}{number}" not in self.tensors:
                return f"{prefix}{number}"

    def fresh_gather(self) -> Symbol:
        """A new symbol for a gathered index."""
        number = self._counts.get("g", 0)
        self._counts["g"] = number + 1
        return gather_variable(number)

    def origin(self) -> tuple[str, ...]:
        """Origin of new buffers: the name of the fx node that is being lowered."""
        return (self.node.name,) if self.node is not None else ()

    # -- buffers --------------------------------------------------------------

    def add(self, buffer: ir.Buffer) -> None:
        """Append a buffer; expressions of its body without an origin get the current one."""
        if isinstance(buffer, ir.LoopBuffer | ir.Scatter):
            buffer = replace(buffer, body=with_origin(buffer.body, self.origin()))
        self.buffers.append(buffer)
        if not isinstance(buffer, ir.Extern):
            self.tensors[buffer.name] = buffer
            self.devices.add(buffer.device)

    def whole(self, name: str) -> Value:
        """The value that loads a whole buffer."""
        tensor = self.tensors[name]
        return load(name, tensor.dtype, tensor.device, tensor.layout.size)

    def realize(self, value: Value, layout: Layout | None = None, *, copy: bool = False, writes_to: str = "") -> Value:
        """Store a value in its own buffer. A value that is a whole buffer is returned as it is, unless ``copy``.

        In torch: ``TensorBox.realize``.
        """
        if not copy and not writes_to and self._is_whole_buffer(value, layout):
            return value
        if value.dtype.is_complex:
            raise UnsupportedDtype(value.dtype)
        layout = layout if layout is not None else self.default_layout(value)
        # A dimension of size 1 is always read at 0: fusion compares indices as they are written.
        ones: dict[Symbol, Index] = {loop_variable(at): ZERO for at, extent in enumerate(layout.size) if is_one(extent)}
        body = cast(substitute(value.body, ones) if ones else value.body, value.dtype)
        if ZERO in layout.size:  # a tensor without elements: nothing may be loaded
            body = constant(0, value.dtype)
        name = self.fresh("buf")
        if self.channels_last and value.ndim == 4 and same_addresses(layout, channels_last(layout.size)):
            self.channels_last.add(name)
        self.add(
            ir.Pointwise(name, value.dtype, value.device, layout, body, value.from_nodes or self.origin(), writes_to)
        )
        return self.whole(writes_to or name)

    def realize_if_costly(self, value: Value) -> Value:
        """Realize a value that a lowering uses several times, unless it is cheap to recompute."""
        few = sum(1 for _ in loads(value.body)) <= CHEAP_LOADS
        return value if cost(value.body) <= CHEAP_COST and few else self.realize(value)

    def _is_whole_buffer(self, value: Value, layout: Layout | None) -> bool:
        load_of_view = single_load(value)
        if load_of_view is None or load_of_view.gathers or load_of_view.index != loop_variables(value.ndim):
            return False
        own = self.tensors[load_of_view.buffer].layout
        return own.size == value.size and (layout is None or same_addresses(own, layout))

    def default_layout(self, value: Value) -> Layout:
        """The strides that FakeTensor predicts for the node, where this is its result; else row-major."""
        predicted = self.node.meta.get("val") if self.node is not None else None
        if isinstance(predicted, torch.Tensor):
            layout = of_tensor(predicted)
            if layout.size == value.size and is_dense(layout):
                return channels_last(value.size) if self._follows_channels_last(value) else layout
        return contiguous(value.size)

    def _follows_channels_last(self, value: Value) -> bool:
        """Return whether an intermediate value is computed from a buffer in channels-last layout."""
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
        """Reduce over some dimensions: a new buffer, unless all of these have one element."""
        kept_dims = tuple(at for at in range(value.ndim) if at not in dims)
        reduced_dims = tuple(at for at in dims if not is_one(value.size[at]))
        operand = split_reduction.ReductionOperand(value, kept_dims, reduced_dims)
        number, _ = split_reduction.number_of_parts(self, operand, kind)
        if number > 1:
            result = split_reduction.in_parts(self, operand, number, kind, dtype, accumulate)
            return _keep_dims(result, value.size, kept_dims) if keepdim else result
        # The kept dimensions are numbered anew:  x.sum(1) of x[i0, i1, i2]  is  sum over r0 of x[i0, r0, i1].
        mapping: dict[Symbol, Index] = {loop_variable(at): loop_variable(to) for to, at in enumerate(kept_dims)}
        mapping |= {loop_variable(at): reduction_variable(to) for to, at in enumerate(reduced_dims)}
        mapping |= {loop_variable(at): ZERO for at, extent in enumerate(value.size) if is_one(extent)}
        body = cast(substitute(value.body, mapping), accumulate)
        size = tuple(value.size[at] for at in kept_dims)
        reduced = tuple(value.size[at] for at in reduced_dims)
        nodes = merge_nodes(value.from_nodes, self.origin())
        if reduced:
            name = self.fresh("buf")
            self.add(ir.Reduction(name, dtype, value.device, contiguous(size), body, kind, reduced, accumulate, nodes))
            result = self.whole(name)
        else:
            result = Value(dtype, value.device, size, split_reduction.of_one_element(body, kind, dtype), nodes)
        return _keep_dims(result, value.size, kept_dims) if keepdim else result

    def scan(self, value: Value, dim: int, kind: str, dtype: torch.dtype, accumulate: torch.dtype) -> Value:
        """Scan along a dimension: a new buffer."""
        ones: dict[Symbol, Index] = {loop_variable(at): ZERO for at, extent in enumerate(value.size) if is_one(extent)}
        body = cast(substitute(value.body, ones) if ones else value.body, accumulate)
        name, nodes = self.fresh("buf"), merge_nodes(value.from_nodes, self.origin())
        layout = self.default_layout(value)
        self.add(ir.Scan(name, dtype, value.device, layout, body, kind, dim, accumulate, nodes))
        return self.whole(name)

    def scatter(self, target: Value, source: Value, position: Sequence[IndexOf], kind: str) -> Value:
        """Copy ``target`` and update its elements at ``position`` (over the source's loops): a new buffer."""
        if kind != "store" and compute_dtype(target.dtype) != target.dtype:
            # Each addition rounds, so the sum is accumulated in the wider type.
            wide = replace(target, dtype=compute_dtype(target.dtype))
            return replace(self.scatter(wide, source, position, kind), dtype=target.dtype)
        # The operator is functional: it updates a copy, so that its argument keeps its values.
        into = single_load(self.realize(target, copy=True))
        assert into is not None
        layout = self.tensors[into.buffer].layout
        ones: dict[Symbol, Index] = {loop_variable(at): ZERO for at, extent in enumerate(source.size) if is_one(extent)}
        body = cast(substitute(source.body, ones), target.dtype)
        positions = tuple(substitute(each, ones) for each in position)
        name, nodes = self.fresh("buf"), merge_nodes(target.from_nodes, source.from_nodes, self.origin())
        self.add(
            ir.Scatter(
                name, target.dtype, target.device, layout, body, source.size, positions,  # type: ignore[arg-type]
                kind, into.buffer, nodes,
            )
        )  # fmt: skip
        return self.whole(name)

    def view_of(self, value: Value) -> ir.BufferView | None:
        """The value as a view of a buffer, where it is one with plain strides; else None."""
        load_of_view = single_load(value)
        if load_of_view is None or load_of_view.gathers:
            return None
        #     x[1:, ::2], x of (4, 8)     offset 8 + 8*i0 + 2*i1: strides (8, 2), from 8 on
        offset = simplify(self.tensors[load_of_view.buffer].layout.at(load_of_view.index), value.ranges())
        variables = loop_variables(value.ndim)
        steps = [stride_along(offset, variable) for variable in variables]
        if any(step is None or step.could_extract_minus_sign() for step in steps):
            return None  # torch has no tensors with negative strides
        start = offset.xreplace(dict.fromkeys(variables, ZERO))
        own = self.tensors[load_of_view.buffer].layout
        # Along a dimension of size 1 the stride is not in the index: take the buffer's own, if it has one.
        same_size = own.size == value.size and load_of_view.index == variables
        stride = own.stride if same_size else tuple(step for step in steps if step is not None)
        return ir.BufferView(load_of_view.buffer, Layout(value.size, stride, sympy.expand(start)))

    def as_argument(self, value: Value, expected: Layout | None, any_stride: bool) -> ir.BufferView:
        """The value as an operand of ATen: with the strides of the fx graph, unless any strides will do."""
        view = self.view_of(value)
        if view is not None and (
            any_stride or expected is None or same_addresses(_without_offset(view.layout), expected)
        ):
            # A dimension with one element may have any stride: ATen gets that of the fx graph.
            if view.layout.size and expected is not None and not any_stride:
                return ir.BufferView(view.buffer, Layout(view.layout.size, expected.stride, view.layout.offset))
            return view
        return self._copy_for_argument(value, expected if expected is not None else contiguous(value.size))

    def _copy_for_argument(self, value: Value, layout: Layout) -> ir.BufferView:
        """A buffer that holds the value, seen with a layout."""
        # All elements along a stride of 0 have one address: only one is computed.
        repeated = [at for at, step in enumerate(layout.stride) if step == 0 and not is_one(layout.size[at])]
        size = tuple(ONE if at in repeated else extent for at, extent in enumerate(layout.size))
        position = [ZERO if at in repeated else loop_variable(at) for at in range(value.ndim)]
        unexpanded = reindexed(value, size, position) if repeated else value
        load_of_view = single_load(self.realize(unexpanded, Layout(size, layout.stride), copy=True))
        assert load_of_view is not None
        return ir.BufferView(load_of_view.buffer, Layout(layout.size, layout.stride))

    # -- operators ------------------------------------------------------------

    def call(self, target: Any, *args: Any, **kwargs: Any) -> Any:
        """Lower an operator inside the lowering of another one."""
        return LOWERINGS[target](self, *args, **kwargs)

    def gather(self, index_value: Value, extent: Index, wraps: bool, dim: int | None = None) -> tuple[Symbol, Gather]:
        """A symbol for an index into a dimension, loaded from a tensor (whose loop variables are the result's)."""
        if index_value.dtype not in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8):
            raise NoLowering(f"an index of dtype {index_value.dtype}")
        symbol = self.fresh_gather()
        return symbol, Gather(symbol, cast(index_value.body, torch.int64), extent, wraps, bounds_error(self.node, dim))

    def extern(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, reason: str) -> Any:
        """Add an extern call: arguments are values, ``result`` is the fake tensor that it returns."""
        any_stride = target in _ACCEPTS_ANY_STRIDE
        plain = _map_leaves(
            args, lambda argument, fake: self._argument(argument, fake, any_stride), self._fakes(args, 0)
        )
        named = {
            key: _map_leaves(value, lambda e, f: self._argument(e, f, any_stride), None)
            for key, value in kwargs.items()
        }
        return self.extern_call(target, plain, named, result, reason)

    def extern_call(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any, reason: str) -> Any:
        """Add an extern call whose arguments are buffers already."""
        name = self.fresh("extern")
        mutates = tuple(dict.fromkeys(_mutated(target, args, kwargs)))
        self.add(ir.Extern(name, target, args, kwargs, reason, mutates, self.origin()))
        return self._results(name, returned_by(target, result), ())

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
            device = self.target_device(result.device)
            self.add(ir.ExternOutput(name, result.dtype, device, layout, extern, path, self.origin()))
            return self.whole(name)
        if isinstance(result, (tuple, list)):
            return tuple(self._results(extern, each, (*path, at)) for at, each in enumerate(result))
        return result


def _keep_dims(result: Value, size: Sequence[Index], kept_dims: Sequence[int]) -> Value:
    """The result of a reduction with a dimension of size 1 for each reduced one (``keepdim=True``)."""
    whole = tuple(extent if at in kept_dims else index(1) for at, extent in enumerate(size))
    return reindexed(result, whole, [loop_variable(at) for at in kept_dims])


def _without_offset(layout: Layout) -> Layout:
    return Layout(layout.size, layout.stride)


def _map_leaves(value: Any, change: Callable[[Any, Any], Any], paired: Any) -> Any:
    """Apply a function to every leaf of nested arguments, with the leaf at the same position of ``paired``."""
    if isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
        others = paired if isinstance(paired, (tuple, list)) and len(paired) == len(value) else [None] * len(value)
        parts = [_map_leaves(each, change, other) for each, other in zip(value, others, strict=True)]
        return tuple(parts) if isinstance(value, tuple) else parts
    if isinstance(value, dict):
        return {key: _map_leaves(each, change, None) for key, each in value.items()}
    return change(value, paired)


def _mutated(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """Buffers that an operator mutates, by its schema."""
    schema = getattr(target, "_schema", None)
    if schema is None:
        return []
    mutated: list[str] = []
    for position, argument in enumerate(schema.arguments):
        if argument.alias_info is None or not argument.alias_info.is_write:
            continue
        value = kwargs.get(argument.name, args[position] if position < len(args) else None)
        tensors = value if isinstance(value, (tuple, list)) else [value]
        mutated.extend(each.buffer for each in tensors if isinstance(each, ir.BufferView))
    return mutated
