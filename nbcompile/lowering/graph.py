"""From a functional ATen graph to a program of buffers.

    def forward(x, w):                       buf0 = extern aten.mm(x, w)
        mm = aten.mm(x, w)             ->    buf1[i0, i1] = max(buf0[i0, i1] + 1.0, 0.0)
        add = aten.add(mm, 1)                return buf1
        return aten.relu(add)

Nodes are lowered in order to values that are not computed yet; a value gets
memory (a buffer) only where :func:`wants_memory` says so.

In torch: torch/_inductor/graph.py (GraphLowering.run_node). Read next:
nbcompile/lowering/elementwise.py
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import sympy
import torch
from torch import fx

from nbcompile.capture.node_meta import CHANNELS_LAST
from nbcompile.ir import buffer as ir
from nbcompile.ir.expr import UnsupportedDtype, cost, loads, walk, with_origin
from nbcompile.ir.index import Symbol, index, loop_variables
from nbcompile.ir.layout import of_tensor, same_addresses
from nbcompile.lowering import (
    activations,
    addmm_epilogue,
    convolution,
    creation,
    dtype_cast,
    foreach,
    indexing,
    normalisation,
    pointwise,
    pooling,
    randomness,
    reductions,
    resizing,
    scans,
    scatter,
    slice_scatter,
    views,
)
from nbcompile.lowering.builder import CHEAP_COST, CHEAP_LOADS, Builder, Draws
from nbcompile.lowering.dtype_cast import convert
from nbcompile.lowering.elementwise import SUPPORTED
from nbcompile.lowering.extern import reason_for
from nbcompile.lowering.registry import LOWERINGS, NoLowering, UnsupportedGraph
from nbcompile.lowering.value import Value, expanded, is_free

aten = torch.ops.aten
_TABLES = (
    activations,
    dtype_cast,
    convolution,
    creation,
    foreach,
    indexing,
    normalisation,
    pointwise,
    pooling,
    randomness,
    reductions,
    slice_scatter,
    resizing,
    scans,
    scatter,
    views,
)
"""Importing them has filled LOWERINGS."""

BODY_LIMIT = 96
LOAD_LIMIT = 12

# They check what FakeTensor has checked already, or speak to the tracer.
_NOTHING_TO_DO = {aten._assert_tensor_metadata.default, aten.sym_constrain_range.default}
_COPIES = {aten.clone.default, aten._to_copy.default, aten.contiguous.default, aten.lift_fresh_copy.default,
           aten.copy.default, torch.ops.prims.convert_element_type.default}  # fmt: skip
_RANDOM = torch.Tag.nondeterministic_seeded


def lower(
    graph_module: fx.GraphModule,
    example_inputs: Sequence[object] = (),
    keep_sharing: bool = True,
    own_random: bool = False,
    device: torch.device | None = None,
    refused: Mapping[str, str] | None = None,
) -> ir.Program:
    """Make a program of a functional ATen graph whose nodes' ``meta["val"]`` hold fake tensors.

    ``keep_sharing``: results that share memory according to FakeTensor do so. (What a forward graph
    saves for the backward need not.) ``own_random``: random numbers are part of the loops (randomness.py),
    and not those that eager draws. ``device``: tensors on the CPU are taken as if they lay there. ``refused``:
    nodes that run through ATen though they have a lowering, each with the reason.

    Raises:
        UnsupportedGraph: a tensor is not strided, or a size depends on data.
    """
    return _Lowering(graph_module, keep_sharing, own_random, device, refused or {}).run()


def wants_memory(value: Value, node: fx.Node) -> bool:
    """The policy: whether a node's value is kept in memory, or computed again where it is used.

    Views, numbers and casts are never kept. Kept is what several nodes use,
    unless it costs no more than CHEAP_COST additions over CHEAP_LOADS loads;
    what is returned or handed to a call of ATen, perhaps through views; a body
    that has grown too long; and what a larger tensor would compute for each of
    its elements again. (Kept does not mean stored: scheduling keeps a
    value in a register or a cached row where its users share its loop.)
    """
    if is_free(value):
        return False
    reads = {(each.buffer, each.index) for each in loads(value.body)}
    size = sum(1 for _ in walk(value.body))
    if size > BODY_LIMIT or len(reads) > LOAD_LIMIT:
        return True
    price = cost(value.body)
    if _is_handed_over(node):
        return True
    if len(node.users) > 1 and (price > CHEAP_COST or len(reads) > CHEAP_LOADS):
        return True
    return price > 0 and _is_spread(node) and bool(reads)


def _is_handed_over(node: fx.Node) -> bool:
    """Whether the node, or a view of it, is returned or goes into a call of ATen: both need memory."""
    return any(
        user.op == "output"
        or (
            (
                user.target not in LOWERINGS
                or (user.target is convolution.CONVOLUTION and CHANNELS_LAST not in user.meta)
            )
            and user.target is not operator.getitem
            and user.target is not aten.copy_.default
        )
        or (user.target in _ALIASING and _is_handed_over(user))
        for user in node.users
    )


def _is_spread(node: fx.Node) -> bool:
    # Whether some user has more elements than the node: it would be computed again along a new dimension.
    mine = node.meta.get("val")
    if not isinstance(mine, torch.Tensor):
        return False
    waiting, seen = list(node.users), set()
    while waiting:
        user = waiting.pop()
        theirs = user.meta.get("val")
        if user in seen or not isinstance(theirs, torch.Tensor) or not _is_lazy(user):
            continue
        seen.add(user)
        if index_count(theirs) != index_count(mine) and theirs.dim() >= mine.dim() and _grows(mine, theirs):
            return True
        if user.target in _VIEWS:
            waiting.extend(user.users)
    return False


_VIEWS = {
    aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.permute.default, aten.unsqueeze.default,
    aten.squeeze.dim, aten.squeeze.dims, aten.squeeze.default, aten.t.default, aten.transpose.int, aten.alias.default,
    aten.expand.default, aten.detach.default,
}  # fmt: skip
_MAY_GIVE_BACK = {
    aten._unsafe_view.default, aten.reshape.default, aten.contiguous.default, aten.detach.default,
    aten.lift_fresh_copy.default,
}  # fmt: skip
"""What may return its argument though its schema does not say so."""
_ALIASING = _VIEWS | {
    aten.slice.Tensor, aten.select.int, aten.split.Tensor, aten.split_with_sizes.default, aten.unbind.int,
    aten.diagonal.default, aten.as_strided.default, aten.unfold.default, operator.getitem,
}  # fmt: skip


def _is_lazy(node: fx.Node) -> bool:
    return node.target in LOWERINGS and (node.target is not convolution.CONVOLUTION or CHANNELS_LAST in node.meta)


def may_run_through_aten(node: fx.Node) -> bool:
    """Whether an operator that has a lowering may be called instead: not where its result is a view of an argument."""
    schema = getattr(node.target, "_schema", None)
    if node.op != "call_function" or schema is None or node.target in _MAY_GIVE_BACK:
        return False
    return node.target is aten.copy_.default or all(each.alias_info is None for each in schema.returns)


def index_count(tensor: torch.Tensor) -> sympy.Expr:
    """The number of elements, as an expression."""
    return index(tensor.numel())


def _grows(small: torch.Tensor, large: torch.Tensor) -> bool:
    ratio = index_count(large) - index_count(small)
    return not (isinstance(ratio, sympy.Integer) and ratio <= 0)


class _Lowering:
    def __init__(
        self, graph_module: fx.GraphModule, keep_sharing: bool, own_random: bool, device: torch.device | None,
        refused: Mapping[str, str],
    ) -> None:  # fmt: skip
        self.module, self.refused = graph_module, refused
        self.build = Builder(Draws() if own_random else None, device)
        self.values: dict[fx.Node, Any] = {}
        self.symbols: dict[Symbol, ir.SymbolSource] = {}
        self.arguments = 0
        self.single_output = False
        self.shared = _shared_by_results(graph_module.graph) if keep_sharing else frozenset()

    def run(self) -> ir.Program:
        outputs: list[Any] = []
        for node in self.module.graph.nodes:
            self.build.node = node
            match node.op:
                case "placeholder":
                    self.values[node] = self._placeholder(node)
                case "get_attr":
                    self.values[node] = self._attribute(node)
                case "output":
                    outputs = self._outputs(node)
                case _:
                    self.values[node] = self._call(node)
        return ir.Program(
            tuple(self.build.buffers), tuple(outputs), self.arguments, tuple(self.symbols.values()), self.single_output
        )

    # -- what comes in ----------------------------------------------------------------------------

    def _placeholder(self, node: fx.Node) -> Any:
        position, self.arguments = self.arguments, self.arguments + 1
        value = node.meta.get("val")
        self._note_shapes(value)
        if isinstance(value, torch.Tensor):
            _require_strided(node, value)
            layout = of_tensor(value)
            device = self.build.placed(value.device)
            self.build.add(ir.GraphInput(node.name, value.dtype, device, layout, position, (node.name,)))
            for kind, entries in (("size", layout.size), ("stride", layout.stride)):
                for dim, entry in enumerate(entries):
                    if isinstance(entry, sympy.Symbol):
                        self.symbols.setdefault(entry, ir.SymbolSource(entry, position, dim, kind))
            return self.build.whole(node.name)
        if isinstance(value, torch.SymInt):
            symbol = index(value)
            if isinstance(symbol, sympy.Symbol):
                # The argument itself is the best source: no tensor need be asked.
                self.symbols[symbol] = ir.SymbolSource(symbol, position)
            return symbol
        return value

    def _note_shapes(self, value: Any) -> None:
        numbers = [*value.shape, *value.stride()] if isinstance(value, torch.Tensor) else [value]
        for number in numbers:
            if isinstance(number, torch.SymInt):
                self.build.shape_env = number.node.shape_env

    def _attribute(self, node: fx.Node) -> Any:
        value = operator.attrgetter(str(node.target))(self.module)
        if isinstance(value, torch.nn.Module):
            return ir.ModuleReference(str(node.target))
        if not isinstance(value, torch.Tensor):
            return value
        _require_strided(node, value)
        layout = of_tensor(value)
        device = self.build.placed(value.device)
        self.build.add(ir.GraphAttribute(node.name, value.dtype, device, layout, str(node.target), (node.name,)))
        return self.build.whole(node.name)

    # -- what is computed -------------------------------------------------------------------------

    def _call(self, node: fx.Node) -> Any:
        predicted = node.meta.get("val")
        if isinstance(predicted, (torch.SymInt, int, float, bool, torch.SymFloat, torch.SymBool)):
            return self._number(node, predicted)
        if node.target is operator.getitem and isinstance(node.args[0], fx.Node):
            return self.values[node.args[0]][node.args[1]]  # of a list as long as it may be
        args, kwargs = fx.map_arg((node.args, node.kwargs), self.values.__getitem__)
        args, kwargs = _plain(args), _plain(kwargs)
        if predicted is None and isinstance(node.target, torch._ops.HigherOrderOperator):
            raise UnsupportedGraph(f"what {node.target} gives is only known when it runs")
        if node.target in _NOTHING_TO_DO:
            return None
        if node.target is aten.copy_.default:
            return self._copy_into(node, *args)
        reason = self.refused.get(node.name, "")
        if not reason and addmm_epilogue.may_be_apart(self.build, node) and not _is_handed_over(node):
            return self._settled(node, addmm_epilogue.apart(self.build, args, predicted), predicted)
        if node.target in LOWERINGS and not reason:
            try:
                return self._settled(node, LOWERINGS[node.target](self.build, *args, **kwargs), predicted)
            except (NoLowering, UnsupportedDtype) as answer:
                reason = str(answer)
        _require_known_sizes(node, predicted)
        result = self.build.extern(node.target, args, kwargs, predicted, reason or reason_for(node.target))
        self._refresh()
        return result

    def _number(self, node: fx.Node, predicted: Any) -> Any:
        if isinstance(predicted, (torch.SymFloat, torch.SymBool)):
            expression: Any = predicted.node.expr
        else:
            expression = index(predicted) if isinstance(predicted, torch.SymInt) else predicted
        unknown: set[Any] = getattr(expression, "free_symbols", set()) - self.symbols.keys()
        if unknown:
            raise UnsupportedGraph(f"{node.name}: the value of {unknown.pop()} is only known when the graph runs")
        return expression

    def _settled(self, node: fx.Node, result: Any, predicted: Any) -> Any:
        """What a lowering answered, checked against FakeTensor and given memory where it should have some."""
        if not isinstance(result, tuple):
            return self._settled_value(node, result, predicted, node)
        takers = {user.args[1]: user for user in node.users if user.target is operator.getitem}
        return tuple(
            self._settled_value(node, *pair, takers.get(at, node))
            for at, pair in enumerate(zip(result, predicted, strict=True))
        )

    def _settled_value(self, node: fx.Node, result: Any, predicted: Any, taken_by: fx.Node) -> Any:
        """One result of ``node``; ``taken_by`` is the node that stands for it in the graph."""
        if not isinstance(result, Value):
            return result
        result = replace(result, body=with_origin(result.body, (node.name,)))
        size = of_tensor(predicted).size
        if result.dtype != predicted.dtype or len(size) != result.ndim:
            raise NoLowering(
                f"lowering gives {result.dtype}{result.size} where FakeTensor says {predicted.dtype}{size}"
            )
        if result.size != size:
            # Equal, written in another way; or not to be shown equal, and FakeTensor has the last word.
            result = replace(result, size=size)
        same = node.target in _COPIES or self._is_an_argument(node, result)
        view = self.build.view_of(result)
        is_view = view is not None
        shared = _storage(taken_by) in self.shared and not is_view
        wanted = shared or wants_memory(result, taken_by) or (same and _reaches_output(taken_by))
        if result.dtype not in SUPPORTED and (wanted or view is None or _is_moved(view, predicted)):
            raise NoLowering(f"{result.dtype} is not computed with")
        if wanted:
            return self.build.realise(result, copy=same)
        return result

    def _is_an_argument(self, node: fx.Node, result: Value) -> bool:
        """Whether an operator that makes a new tensor only gives back an argument, as ``x * 1`` does."""
        schema = getattr(node.target, "_schema", None)
        view = self.build.view_of(result)
        if node.target is aten._unsafe_view.default:
            return False  # nobody else has what it is a view of: that it is none needs no copy
        if view is None or schema is None or any(each.alias_info is not None for each in schema.returns):
            return False
        given = (self.values.get(each) for each in node.all_input_nodes)
        views = (self.build.view_of(each) for each in given if isinstance(each, Value))
        return any(each is not None and each.buffer == view.buffer for each in views)

    def _copy_into(self, node: fx.Node, target: Value, source: Value, *_: Any) -> Value:
        """``x.copy_(y)`` at the end of a graph: the result is written into the argument's memory."""
        view = self.build.view_of(target)
        whole = view is not None and self.build.realise(target) is target
        refused = self.refused.get(node.name, "")
        if refused or view is None or not whole or source.device != target.device or source.dtype not in SUPPORTED:
            reason = refused or "a copy into a part of a tensor, or from another device"
            result: Value = self.build.extern(node.target, (target, source), {}, node.meta["val"], reason)
            return result
        source = convert(self.build, expanded(source, target.size), target.dtype)
        own = [each for each in loads(source.body) if each.buffer == view.buffer]
        if any(each.index != loop_variables(target.ndim) or each.gathers for each in own):
            source = self.build.realise(source)
        layout = self.build.tensors[view.buffer].layout
        return self.build.realise(source, layout, writes_to=view.buffer)

    def _refresh(self) -> None:
        """After a call that writes to buffers: values that meant their old content are computed before it."""
        call = next((each for each in reversed(self.build.buffers) if isinstance(each, ir.Extern)), None)
        if call is None or not call.mutates:
            return
        at = self.build.buffers.index(call)
        late = self.build.buffers[at:]
        del self.build.buffers[at:]
        for node, value in self.values.items():
            if any(user not in self.values for user in node.users):
                self.values[node] = self._kept_from(call, value)
        self.build.buffers.extend(late)

    def _kept_from(self, call: ir.Extern, value: Any) -> Any:
        """A value that means the content of a buffer before the call changes it."""
        if isinstance(value, tuple):
            return tuple(self._kept_from(call, each) for each in value)
        if not isinstance(value, Value) or is_free(value):
            return value
        return self.build.realise(value) if any(each.buffer in call.mutates for each in loads(value.body)) else value

    # -- what goes out ----------------------------------------------------------------------------

    def _outputs(self, node: fx.Node) -> list[Any]:
        returned = node.args[0]
        if not isinstance(returned, (tuple, list)):
            self.single_output = True
            returned = (returned,)
        outputs = [self._output(each) for each in returned]
        memory: dict[int, str] = {}
        for value, output in zip(returned, outputs, strict=True):
            storage = _storage(value) if isinstance(value, fx.Node) else None
            if storage in self.shared and memory.setdefault(storage, output.buffer) != output.buffer:
                raise UnsupportedGraph("two results that share memory are no views of one buffer")
        return _apart(returned, outputs)

    def _output(self, node: Any) -> Any:
        if not isinstance(node, fx.Node):
            return node if not isinstance(node, int) or isinstance(node, bool) else index(node)
        value = self.values[node]
        if not isinstance(value, Value):
            return index(value) if isinstance(value, int) and not isinstance(value, bool) else value
        self.build.node = node
        expected = of_tensor(node.meta["val"])
        view = self.build.as_argument(value, expected, any_stride=False)
        whole = self.build.whole(view.buffer)
        if view.layout.offset == 0 and whole.size == value.size:
            # Later outputs that are views of this one share its memory.
            self.values[node] = value if self.build.view_of(value) else whole
        return view


def _is_moved(view: ir.BufferView, predicted: torch.Tensor) -> bool:
    """Whether a copy has other strides than what it copies: a loop would have to move the elements."""
    mine = of_tensor(predicted)
    return not same_addresses(replace(view.layout, offset=mine.offset), mine)


def _apart(returned: Sequence[Any], outputs: list[Any]) -> list[Any]:
    """Results of several nodes are several tensors, also where all are views of one buffer with its own layout."""
    taken: dict[ir.BufferView, Any] = {}
    return [
        replace(output, apart=True)
        if isinstance(output, ir.BufferView) and taken.setdefault(output, node) is not node
        else output
        for node, output in zip(returned, outputs, strict=True)
    ]


def _shared_by_results(graph: fx.Graph) -> frozenset[int]:
    """The memory, by FakeTensor's storage, that several results are views of: one buffer, as writing to one shows."""
    (output,) = graph.find_nodes(op="output")
    returned = output.args[0] if isinstance(output.args[0], (tuple, list)) else (output.args[0],)
    owned = Counter(_storage(each) for each in dict.fromkeys(returned) if isinstance(each, fx.Node))
    given = {_storage(node) for node in graph.find_nodes(op="placeholder")}
    return frozenset(each for each, count in owned.items() if count > 1 and each is not None and each not in given)


def _storage(node: fx.Node) -> int | None:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return None
    return int(value.untyped_storage()._cdata)


def _require_strided(node: fx.Node, tensor: torch.Tensor) -> None:
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_nested:
        raise UnsupportedGraph(f"{node.name} is not a strided tensor")


def _require_known_sizes(node: fx.Node, predicted: Any) -> None:
    for tensor in predicted if isinstance(predicted, (tuple, list)) else [predicted]:
        if isinstance(tensor, torch.Tensor):
            _require_strided(node, tensor)
            for extent in (*tensor.shape, *tensor.stride()):
                if isinstance(extent, torch.SymInt) and any(str(s).startswith("u") for s in index(extent).free_symbols):
                    raise UnsupportedGraph(f"{node.name}: the size {extent} depends on data")


def _plain(value: Any) -> Any:
    """Fx's immutable containers as tuples, lists and dicts."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, tuple) and not isinstance(value, torch.Size):
        return tuple(_plain(each) for each in value)
    return value


def _reaches_output(node: fx.Node) -> bool:
    """Whether the node, or a view of it, is returned: then its copy must be one."""
    return any(user.op == "output" or (user.target in _ALIASING and _reaches_output(user)) for user in node.users)
