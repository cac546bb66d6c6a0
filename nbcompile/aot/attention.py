"""Attention that is written out becomes the one operator for which ATen has a fused kernel.

    scores  = bmm(q, k transposed) / 8.0
    scores  = masked_fill(scores, mask, -inf)           bias = where(mask, -inf, 0.0)
    weights = softmax(scores, -1)                ->     out  = attention(q, k, v, bias, mask, -inf, 0.125)
    out     = bmm(weights, v)

The fused kernel never writes the scores to memory. It is taken where the graph is exactly attention: scores used once,
scaled by numbers, masked with minus infinity (or with a number so low that nothing is left of a masked score), biased
by tensors that broadcast. Where the kernel and the steps differ (rows without any key, infinities and NaNs in queries
and keys), the operator does the steps: nbcompile/ir/attention.py.

In torch: torch/_inductor/fx_passes/fuse_attention.py. Read next: nbcompile/ir/attention.py
"""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import fx

from nbcompile.capture.node_meta import ORIGIN, STACK
from nbcompile.ir.attention import ATTENTION

aten = torch.ops.aten
NOTHING_LEFT = -1e9
"""A score that is replaced by this, or by less, has no weight beside any other."""

_SAME_ELEMENTS = (
    aten.view.default, aten._unsafe_view.default, aten.clone.default, aten.expand.default, aten.alias.default,
)  # fmt: skip


def fuse_attention(module: fx.GraphModule) -> tuple[str, ...]:
    """Rewrite every attention that is written out in a functional graph for the CPU; says what was rewritten."""
    notes = []
    for weights in module.graph.find_nodes(op="call_function", target=aten._softmax.default):
        found = _found_around(weights, module)
        if found is not None:
            notes.append(f"attention written by hand ({weights.name}) became {ATTENTION}")
            _rewrite(module.graph, found)
    if notes:
        module.graph.lint()
        module.recompile()
    return tuple(notes)


# -- what is attention -----------------------------------------------------------------------------


class _Mask(NamedTuple):
    """Which scores are replaced, and by which number."""

    condition: fx.Node
    hides: bool
    """Whether the condition says what is replaced, or what is kept."""
    filler: float


@dataclass(frozen=True, slots=True)
class _Scores:
    """What was done to ``q @ k`` before the softmax, told from the last step to the first."""

    scale: float = 1.0
    steps: tuple[_Mask | fx.Node, ...] = ()
    """Masks, and biases: tensors that are added."""
    product: fx.Node | None = None

    @property
    def masks(self) -> tuple[_Mask, ...]:
        return tuple(each for each in self.steps if isinstance(each, _Mask))

    @property
    def biases(self) -> tuple[fx.Node, ...]:
        return tuple(each for each in self.steps if isinstance(each, fx.Node))


@dataclass(frozen=True, slots=True)
class _Attention:
    """One attention: tensors of four dimensions (batch, heads, length, width), or of three."""

    query: fx.Node
    keys: fx.Node
    values: fx.Node
    scores: _Scores
    result: fx.Node


def _found_around(weights: fx.Node, module: fx.GraphModule) -> _Attention | None:
    source, dim, wider = weights.args
    ndim = _value(weights).dim()
    if dim not in (-1, ndim - 1) or wider or ndim not in (3, 4):
        return None
    scores = _scores_behind(source, module, _Scores(), _value(weights).shape)
    product = _product_after(weights)
    if scores is None or scores.product is None or product is None or not _is_clear(scores):
        return None
    result = _result_of(product, ndim)
    query, keys = (_ungrouped(each, ndim) for each in scores.product.args)
    values = _ungrouped(product.args[1], ndim)
    if result is None or query is None or keys is None or values is None:
        return None
    found = _Attention(query, keys, values, scores, result)
    grouped_alike = _value(weights).shape[:-2] == _value(query).shape[:-2]
    return found if grouped_alike and _kernel_takes(found) else None


def _scores_behind(node: object, module: fx.GraphModule, so_far: _Scores, shape: torch.Size) -> _Scores | None:
    """Follow the scores back to the product that they are, if each step is one that the kernel knows."""
    if not isinstance(node, fx.Node) or len(node.users) != 1 or _value(node).shape[-2:] != shape[-2:]:
        return None
    if node.target is aten.bmm.default:
        return replace(so_far, product=node)
    if node.target in (aten.view.default, aten._unsafe_view.default, aten.alias.default):
        return _scores_behind(node.args[0], module, so_far, shape)
    if node.target in (aten.mul.Tensor, aten.div.Tensor) and _is_number(node.args[1]) and node.args[1] != 0:
        return _scores_behind(node.args[0], module, _scaled(so_far, node), shape)
    if node.target is aten.masked_fill.Scalar:
        scores, condition, filler = node.args
        return _behind_mask(scores, (condition, True, _constant(filler, module)), module, so_far, shape)
    if node.target is aten.where.self:
        return _behind_where(node, module, so_far, shape)
    if node.target is aten.add.Tensor and not node.kwargs and so_far.scale == 1.0:
        return _behind_bias(node, module, so_far, shape)
    return None


def _scaled(scores: _Scores, node: fx.Node) -> _Scores:
    by: Any = node.args[1]
    return replace(scores, scale=scores.scale * by if node.target is aten.mul.Tensor else scores.scale / by)


def _behind_where(node: fx.Node, module: fx.GraphModule, so_far: _Scores, shape: torch.Size) -> _Scores | None:
    condition, *pair = node.args
    for scores, other, masked in ((pair[1], pair[0], True), (pair[0], pair[1], False)):
        filler = _constant(other, module)
        if filler is not None:
            return _behind_mask(scores, (condition, masked, filler), module, so_far, shape)
    return None


def _behind_mask(
    scores: object, mask: tuple[Any, bool, float | None], module: fx.GraphModule, so_far: _Scores, shape: torch.Size
) -> _Scores | None:
    condition, masked, filler = mask
    if filler is None:
        return None
    steps = (*so_far.steps, _Mask(condition, masked, filler))
    return _scores_behind(scores, module, replace(so_far, steps=steps), shape)


def _behind_bias(node: fx.Node, module: fx.GraphModule, so_far: _Scores, shape: torch.Size) -> _Scores | None:
    for scores, bias in (node.args, node.args[::-1]):
        if isinstance(bias, fx.Node) and isinstance(scores, fx.Node) and _value(scores).shape == _value(node).shape:
            with_bias = replace(so_far, steps=(*so_far.steps, bias))
            found = _scores_behind(scores, module, with_bias, shape)
            if found is not None:
                return found
    return None


def _constant(node: object, module: fx.GraphModule) -> float | None:
    """The number that a node without dimensions is."""
    if _is_number(node):
        return float(node)  # type: ignore[arg-type]
    if not isinstance(node, fx.Node):
        return None
    if node.target in (*_SAME_ELEMENTS, aten.detach.default, aten.lift_fresh_copy.default, aten.scalar_tensor.default):
        return _constant(node.args[0], module)
    if node.target is aten.full.default and not node.args[0]:
        return _constant(node.args[1], module)
    if node.op == "get_attr":
        held = getattr(module, str(node.target), None)
        return held.item() if isinstance(held, torch.Tensor) and held.dim() == 0 and held.is_floating_point() else None
    return None


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _product_after(weights: fx.Node) -> fx.Node | None:
    """The ``bmm`` that the weights go into, and nothing else."""
    node = weights
    while len(node.users) == 1:
        (user,) = node.users
        if user.target is aten.bmm.default:
            return user if user.args[0] is node and user.args[1] is not node else None
        if user.target not in _SAME_ELEMENTS or _value(user).shape[-2:] != _value(weights).shape[-2:]:
            return None
        node = user
    return None


def _result_of(product: fx.Node, ndim: int) -> fx.Node | None:
    """The product with as many dimensions as the scores have."""
    if ndim == 3:
        return product
    if len(product.users) != 1:
        return None
    (view,) = product.users
    regrouped = view.target in (aten.view.default, aten._unsafe_view.default)
    return view if regrouped and _value(view).dim() == ndim and _keeps_matrices(view, product) else None


def _ungrouped(node: object, ndim: int) -> fx.Node | None:
    """An operand of ``bmm`` before batch and heads were made one dimension."""
    while isinstance(node, fx.Node) and _value(node).dim() != ndim:
        before = node.args[0]
        if node.target not in _SAME_ELEMENTS or not isinstance(before, fx.Node) or not _keeps_matrices(node, before):
            return None
        node = before
    return node if isinstance(node, fx.Node) else None


def _keeps_matrices(one: fx.Node, other: fx.Node) -> bool:
    return _value(one).shape[-2:] == _value(other).shape[-2:]


def _is_clear(scores: _Scores) -> bool:
    """Whether masked scores have no weight, and a row without keys is either NaN or a mean."""
    fillers = [filler for *_, filler in scores.masks]
    if not 0 < scores.scale < math.inf or any(not filler <= NOTHING_LEFT for filler in fillers):
        return False
    finite = [filler for filler in fillers if filler != -math.inf]
    return not finite or (len(fillers) == 1 and not scores.biases)


def _kernel_takes(found: _Attention) -> bool:
    query, keys, values, result = (_value(each) for each in (found.query, found.keys, found.values, found.result))
    *batch, length, width = query.shape
    expected = [(*batch, width, keys.shape[-1]), (*batch, keys.shape[-1], width), (*batch, length, width)]
    same = all(tuple(each.shape) == shape for each, shape in zip((keys, values, result), expected, strict=True))
    tensors = (query, keys, values, result, *(_value(each) for each in found.scores.biases))
    return (
        same
        and query.device.type == "cpu"
        and query.is_floating_point()
        and all(each.dtype == query.dtype and each.device == query.device for each in tensors)
        and all(_value(condition).dim() <= len(query.shape) for condition, *_ in found.scores.masks)
        and all(isinstance(each, torch.SymInt) or each > 0 for each in (*query.shape, *keys.shape))
    )


# -- the rewrite -----------------------------------------------------------------------------------


def _rewrite(graph: fx.Graph, found: _Attention) -> None:
    with graph.inserting_before(found.result):
        write = _Writer(graph, found.result)
        query, keys, values = (write.four(each) for each in (found.query, found.keys, found.values))
        keys = write(aten.transpose.int, keys, -2, -1)
        query, keys, values = (write.with_close_elements(each) for each in (query, keys, values))
        bias, masked = _bias(write, found), _masked(write, found)
        filler = max((filler for *_, filler in found.scores.masks), default=-math.inf)
        out = write.first(ATTENTION, query, keys, values, bias, masked, filler, found.scores.scale)
        if _value(found.result).dim() == 3:
            out = write(aten.squeeze.dim, out, 1)
    found.result.replace_all_uses_with(out)
    _erase(graph, found.result)


def _bias(write: _Writer, found: _Attention) -> fx.Node | None:
    """What is added to the scores, in the order of the steps: biases, and minus infinity where a score is masked."""
    bias: fx.Node | None = None
    dtype = _value(found.query).dtype
    for step in reversed(found.scores.steps):
        if isinstance(step, fx.Node):
            bias = step if bias is None else write(aten.add.Tensor, bias, step)
        else:
            nothing = write(aten.scalar_tensor.default, -math.inf, dtype=dtype)
            rest = bias if bias is not None else write(aten.scalar_tensor.default, 0.0, dtype=dtype)
            bias = write(aten.where.self, step.condition, *((nothing, rest) if step.hides else (rest, nothing)))
    return None if bias is None else write.with_close_elements(write.as_scores(bias, found))


def _masked(write: _Writer, found: _Attention) -> fx.Node | None:
    """Where a score is replaced, by one of the masks."""
    masked: fx.Node | None = None
    for mask in found.scores.masks:
        hidden = mask.condition if mask.hides else write(aten.logical_not.default, mask.condition)
        masked = hidden if masked is None else write(aten.logical_or.default, masked, hidden)
    return None if masked is None else write.as_scores(masked, found)


def _erase(graph: fx.Graph, node: fx.Node) -> None:
    """A node that nobody uses any more, and what it alone used."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if not node.users and node.op == "call_function":
            before = node.all_input_nodes
            graph.erase_node(node)
            waiting += before


class _Writer:
    """Writes nodes of ATen with what FakeTensor says of them, in the place of one that was there."""

    def __init__(self, graph: fx.Graph, instead_of: fx.Node) -> None:
        self.graph, self.instead_of = graph, instead_of

    def __call__(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        node = self.graph.call_function(target, args, kwargs)
        given, named = fx.map_arg((args, kwargs), lambda argument: argument.meta["val"])
        with _value(self.instead_of).fake_mode:  # type: ignore[attr-defined]
            self.note(node, target(*given, **named))
        return node

    def first(self, target: Any, *args: Any) -> fx.Node:
        """The first of several results."""
        both = self(target, *args)
        first = self.graph.call_function(operator.getitem, (both, 0))
        self.note(first, both.meta["val"][0])
        return first

    def note(self, node: fx.Node, value: Any) -> None:
        """What is known of a node, and whose work it is."""
        node.meta["val"] = value
        for key in (ORIGIN, STACK):
            if key in self.instead_of.meta:
                node.meta[key] = self.instead_of.meta[key]

    def four(self, node: fx.Node) -> fx.Node:
        """With a dimension of heads."""
        return self(aten.unsqueeze.default, node, 1) if _value(node).dim() == 3 else node

    def as_scores(self, node: fx.Node, found: _Attention) -> fx.Node:
        """With as many dimensions as the scores have, and four."""
        while _value(node).dim() < _value(found.result).dim():
            node = self(aten.unsqueeze.default, node, 0)
        return self.four(node)

    def with_close_elements(self, node: fx.Node) -> fx.Node:
        """The kernel reads the elements of a row one beside the other."""
        value = _value(node)
        if value.stride(-1) == 1 or value.shape[-1] == 1:
            return node
        return self(aten.clone.default, node, memory_format=torch.contiguous_format)


def _value(node: fx.Node) -> torch.Tensor:
    value: torch.Tensor = node.meta["val"]
    return value
