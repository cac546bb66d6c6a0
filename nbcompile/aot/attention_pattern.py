"""The pattern of attention in a graph: a softmax of scaled scores between two matrix products.

    match_attention(the node of the last product)  ->  Attention(query, key, value, scores, ...), or None

Scale, mask and bias may be written in several ways; what is not exactly attention does not match.

In torch: torch/_inductor/fx_passes/fuse_attention.py. Read next: nbcompile/aot/attention.py
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import fx

aten = torch.ops.aten


MAX_MASKED_SCORE = -1e9
"""A score of this value or less has weight zero after the softmax."""


_VIEWS_AND_COPIES = (
    aten.view.default, aten._unsafe_view.default, aten.clone.default, aten.expand.default, aten.alias.default,
)  # fmt: skip


class _Mask(NamedTuple):
    """A mask: the scores that are replaced, and by which number."""

    condition: fx.Node
    masks_where_true: bool
    """True if scores are replaced where the condition is true; False: where it is false."""
    filler: float


@dataclass(frozen=True, slots=True)
class _Scores:
    """Steps between ``q @ k`` and the softmax, from the last to the first."""

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
class Attention:
    """One attention: tensors of four dimensions (batch, heads, length, width), or of three."""

    query: fx.Node
    keys: fx.Node
    values: fx.Node
    scores: _Scores
    result: fx.Node


def match_attention(weights: fx.Node, module: fx.GraphModule) -> Attention | None:
    """The attention that a softmax belongs to, if it is one."""
    source, dim, widened = weights.args
    ndim = _value(weights).dim()
    # ``widened`` is half_to_float: then the softmax has another type than the scores.
    if dim not in (-1, ndim - 1) or widened or ndim not in (3, 4):
        return None
    scores = _match_scores(source, module, _Scores(), _value(weights).shape)
    product = _match_product(weights)
    if scores is None or scores.product is None or product is None or not _is_exact(scores):
        return None
    result = _match_result(product, ndim)
    query, keys = (_before_view(each, ndim) for each in scores.product.args)
    values = _before_view(product.args[1], ndim)
    if result is None or query is None or keys is None or values is None:
        return None
    attention = Attention(query, keys, values, scores, result)
    grouped_alike = _value(weights).shape[:-2] == _value(query).shape[:-2]
    return attention if grouped_alike and _is_supported(attention) else None


def _match_scores(node: object, module: fx.GraphModule, matched: _Scores, shape: torch.Size) -> _Scores | None:
    """Follow the scores back to their matrix product, if the kernel can do every step between."""
    # Another user (an output, such as weights for a plot) needs the scores in memory, and the kernel never writes them.
    if not isinstance(node, fx.Node) or len(node.users) != 1 or _value(node).shape[-2:] != shape[-2:]:
        return None
    if node.target is aten.bmm.default:
        return replace(matched, product=node)
    if node.target in (aten.view.default, aten._unsafe_view.default, aten.alias.default):
        return _match_scores(node.args[0], module, matched, shape)
    if node.target in (aten.mul.Tensor, aten.div.Tensor) and _is_number(node.args[1]) and node.args[1] != 0:
        return _match_scores(node.args[0], module, _add_scale(matched, node), shape)
    if node.target is aten.masked_fill.Scalar:
        scores, condition, filler = node.args
        return _match_mask(scores, (condition, True, _constant(filler, module)), module, matched, shape)
    if node.target is aten.where.self:
        return _match_where(node, module, matched, shape)
    #     softmax( where(mask, (q @ k) * scale + bias, -inf) ) @ v        matched from the softmax to the left:
    #     steps = (mask, bias), then scale, then the product
    # The search starts at the softmax. A scale found before this addition scales the bias, too: (q @ k + bias) * s.
    if node.target is aten.add.Tensor and not node.kwargs and matched.scale == 1.0:
        return _match_bias(node, module, matched, shape)
    return None


def _add_scale(scores: _Scores, node: fx.Node) -> _Scores:
    by: Any = node.args[1]
    return replace(scores, scale=scores.scale * by if node.target is aten.mul.Tensor else scores.scale / by)


def _match_where(node: fx.Node, module: fx.GraphModule, matched: _Scores, shape: torch.Size) -> _Scores | None:
    condition, *pair = node.args
    # Either branch may hold the scores: ``where(keep, scores, -inf)`` and ``where(drop, -inf, scores)``.
    for scores, other, masks_where_true in ((pair[1], pair[0], True), (pair[0], pair[1], False)):
        filler = _constant(other, module)
        if filler is not None:
            return _match_mask(scores, (condition, masks_where_true, filler), module, matched, shape)
    return None


def _match_mask(
    scores: object, mask: tuple[Any, bool, float | None], module: fx.GraphModule, matched: _Scores, shape: torch.Size
) -> _Scores | None:
    condition, masks_where_true, filler = mask
    if filler is None:
        return None
    # The search starts at the softmax: a scale found before this mask also scales the number that the mask fills in.
    steps = (*matched.steps, _Mask(condition, masks_where_true, filler * matched.scale))
    return _match_scores(scores, module, replace(matched, steps=steps), shape)


def _match_bias(node: fx.Node, module: fx.GraphModule, matched: _Scores, shape: torch.Size) -> _Scores | None:
    # Addition commutes: the operand with all the elements may be the scores. The other one may be broadcast.
    for scores, bias in (node.args, node.args[::-1]):
        if isinstance(bias, fx.Node) and isinstance(scores, fx.Node) and _value(scores).shape == _value(node).shape:
            with_bias = replace(matched, steps=(*matched.steps, bias))
            match = _match_scores(scores, module, with_bias, shape)
            if match is not None:
                return match
    return None


def _constant(node: object, module: fx.GraphModule) -> float | None:
    """The value of a constant scalar node; None if it is not constant."""
    if _is_number(node):
        return float(node)  # type: ignore[arg-type]
    if not isinstance(node, fx.Node):
        return None
    if node.target in (
        *_VIEWS_AND_COPIES,
        aten.detach.default,
        aten.lift_fresh_copy.default,
        aten.scalar_tensor.default,
    ):
        return _constant(node.args[0], module)
    if node.target is aten.full.default and not node.args[0]:
        return _constant(node.args[1], module)
    if node.op == "get_attr":
        constant = getattr(module, str(node.target), None)
        return (
            constant.item()
            if isinstance(constant, torch.Tensor) and constant.dim() == 0 and constant.is_floating_point()
            else None
        )
    return None


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _match_product(weights: fx.Node) -> fx.Node | None:
    """The ``bmm`` that is the single use of the weights."""
    node = weights
    while len(node.users) == 1:
        (user,) = node.users
        if user.target is aten.bmm.default:
            # ``users`` has a node once, however often it is an argument: bmm(weights, weights) is no attention.
            return user if user.args[0] is node and user.args[1] is not node else None
        if user.target not in _VIEWS_AND_COPIES or _value(user).shape[-2:] != _value(weights).shape[-2:]:
            return None
        node = user
    return None


def _match_result(product: fx.Node, ndim: int) -> fx.Node | None:
    """The product with as many dimensions as the scores have."""
    if ndim == 3:
        return product
    if len(product.users) != 1:
        return None
    (view,) = product.users
    regrouped = view.target in (aten.view.default, aten._unsafe_view.default)
    return view if regrouped and _value(view).dim() == ndim and _has_same_matrices(view, product) else None


def _before_view(node: object, ndim: int) -> fx.Node | None:
    """An operand of ``bmm`` before batch and heads were flattened into one dimension."""
    while isinstance(node, fx.Node) and _value(node).dim() != ndim:
        source = node.args[0]
        if (
            node.target not in _VIEWS_AND_COPIES
            or not isinstance(source, fx.Node)
            or not _has_same_matrices(node, source)
        ):
            return None
        node = source
    return node if isinstance(node, fx.Node) else None


def _has_same_matrices(one: fx.Node, other: fx.Node) -> bool:
    return _value(one).shape[-2:] == _value(other).shape[-2:]


def _is_exact(scores: _Scores) -> bool:
    """Return whether masked scores have weight zero, and a row without keys is NaN or a mean, as the kernel does it."""
    fillers = [filler for *_, filler in scores.masks]
    if not 0 < scores.scale < math.inf or any(not filler <= MAX_MASKED_SCORE for filler in fillers):
        return False
    finite = [filler for filler in fillers if filler != -math.inf]
    # A row whose every score is masked by one finite number is a row of equal scores: the mean of the values, as the
    # operator returns it. Several fillers, or a bias on them, would give the keys different weights.
    return not finite or (len(fillers) == 1 and not scores.biases)


def _is_supported(attention: Attention) -> bool:
    query, keys, values, result = (
        _value(node) for node in (attention.query, attention.keys, attention.values, attention.result)
    )
    *batch, length, width = query.shape
    expected = [(*batch, width, keys.shape[-1]), (*batch, keys.shape[-1], width), (*batch, length, width)]
    same = all(tuple(each.shape) == shape for each, shape in zip((keys, values, result), expected, strict=True))
    tensors = (query, keys, values, result, *(_value(each) for each in attention.scores.biases))
    return (
        same
        and query.device.type == "cpu"
        and query.is_floating_point()
        and all(each.dtype == query.dtype and each.device == query.device for each in tensors)
        and all(_value(condition).dim() <= len(query.shape) for condition, *_ in attention.scores.masks)
        and all(isinstance(each, torch.SymInt) or each > 0 for each in (*query.shape, *keys.shape))
    )


def _value(node: fx.Node) -> torch.Tensor:
    value: torch.Tensor = node.meta["val"]
    return value
