"""Fusion of attention: the pattern ``softmax(q @ k) @ v`` is replaced by the operator that has a fused ATen kernel.

    scores  = bmm(q, k transposed) / 8.0
    scores  = masked_fill(scores, mask, -inf)           bias = where(mask, -inf, 0.0)
    weights = softmax(scores, -1)                ->     out  = attention(q, k, v, bias, mask, -inf, 0.125)
    out     = bmm(weights, v)

The fused kernel never writes the scores to memory. The pattern matches exact attention only: scores with a single use,
scaled by numbers, masked with minus infinity (or with a number so low that a masked score has weight zero), with biases
that broadcast, and more scores than a few: below that, the steps are faster. Where the kernel and the separate steps
differ (rows without any key, infinities and NaNs in queries and keys), the operator runs the steps:
nbcompile/ir/attention.py.

In torch: torch/_inductor/fx_passes/fuse_attention.py. Read next: nbcompile/ir/attention.py
"""

from __future__ import annotations

import math
import operator
from typing import Any

import torch
from torch import fx

from nbcompile.aot.attention_pattern import Attention, _value, aten, match_attention
from nbcompile.capture.node_meta import ORIGIN, STACK
from nbcompile.ir.attention import ATTENTION, Decide, Sizes

SMALL_SCORES = 4096
"""Number of scores of all heads up to which the separate steps are faster: two products and a kernel cost less than one
call of the operator, which is in Python, and the scores stay in the L1 cache."""


def fuse_attention(module: fx.GraphModule, decide: Decide | None = None) -> tuple[str, ...]:
    """Replace attention patterns of a functional graph of CPU tensors; return notes for the record.

    Without ``decide``, all patterns are replaced but those with few scores, whose separate steps are faster on a CPU.
    """
    notes = []
    for weights in module.graph.find_nodes(op="call_function", target=aten._softmax.default):
        found = match_attention(weights, module)
        if found is None:
            continue
        fused, reason = (
            (not _has_few_scores(found), "")
            if decide is None
            else decide(Sizes.of(_value(found.query), _value(found.keys), len(found.scores.steps)))
        )
        if fused:
            _rewrite(module.graph, found)
            notes.append(f"the attention pattern around {weights.name} was replaced by {ATTENTION}{reason}")
        elif reason:
            notes.append(f"the attention pattern around {weights.name} was kept{reason}")
    if notes:
        module.graph.lint()
        module.recompile()
    return tuple(notes)


# -- the pattern -----------------------------------------------------------------------------------


def _has_few_scores(attention: Attention) -> bool:
    scores = (*_value(attention.query).shape[:-1], _value(attention.keys).shape[-1])
    return all(isinstance(each, int) for each in scores) and math.prod(scores) <= SMALL_SCORES


# -- the rewrite -----------------------------------------------------------------------------------


def _rewrite(graph: fx.Graph, attention: Attention) -> None:
    with graph.inserting_before(attention.result):
        write = _GraphWriter(graph, attention.result)
        query, keys, values = (
            write.with_four_dims(node) for node in (attention.query, attention.keys, attention.values)
        )
        # The second operand of the product is already transposed; the operator takes keys as rows.
        keys = write(aten.transpose.int, keys, -2, -1)
        query, keys, values = (write.with_contiguous_rows(each) for each in (query, keys, values))
        bias, masked = _emit_bias(write, attention), _emit_mask(write, attention)
        filler = max((filler for *_, filler in attention.scores.masks), default=-math.inf)
        out = write.first_result(ATTENTION, query, keys, values, bias, masked, filler, attention.scores.scale)
        if _value(attention.result).dim() == 3:
            out = write(aten.squeeze.dim, out, 1)
    attention.result.replace_all_uses_with(out)
    _erase_unused(graph, attention.result)


def _emit_bias(write: _GraphWriter, attention: Attention) -> fx.Node | None:
    """Emit the tensor that is added to the scores: biases, and minus infinity where a score is masked, in order."""
    bias: fx.Node | None = None
    dtype = _value(attention.query).dtype
    # The steps were found from the last to the first: here they are applied in their order.
    for step in reversed(attention.scores.steps):
        if isinstance(step, fx.Node):
            bias = step if bias is None else write(aten.add.Tensor, bias, step)
        else:
            minus_infinity = write(aten.scalar_tensor.default, -math.inf, dtype=dtype)
            unmasked = bias if bias is not None else write(aten.scalar_tensor.default, 0.0, dtype=dtype)
            bias = write(
                aten.where.self,
                step.condition,
                *((minus_infinity, unmasked) if step.masks_where_true else (unmasked, minus_infinity)),
            )
    return None if bias is None else write.with_contiguous_rows(write.as_scores(bias, attention))


def _emit_mask(write: _GraphWriter, attention: Attention) -> fx.Node | None:
    """Emit the tensor that is true where any mask replaces a score."""
    masked: fx.Node | None = None
    for mask in attention.scores.masks:
        condition = mask.condition if mask.masks_where_true else write(aten.logical_not.default, mask.condition)
        masked = condition if masked is None else write(aten.logical_or.default, masked, condition)
    return None if masked is None else write.as_scores(masked, attention)


def _erase_unused(graph: fx.Graph, node: fx.Node) -> None:
    """Erase a node without users, and the operands that have no other user."""
    worklist = [node]
    while worklist:
        node = worklist.pop()
        if not node.users and node.op == "call_function":
            inputs = node.all_input_nodes
            graph.erase_node(node)
            worklist += inputs


class _GraphWriter:
    """Writer of ATen nodes, with fake tensors as meta data, before the node that they replace."""

    def __init__(self, graph: fx.Graph, replaced: fx.Node) -> None:
        self.graph, self.replaced = graph, replaced

    def __call__(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        node = self.graph.call_function(target, args, kwargs)
        fake_args, fake_kwargs = fx.map_arg((args, kwargs), lambda argument: argument.meta["val"])
        with _value(self.replaced).fake_mode:  # type: ignore[attr-defined]
            self.set_meta(node, target(*fake_args, **fake_kwargs))
        return node

    def first_result(self, target: Any, *args: Any) -> fx.Node:
        """Emit an operator with several results, and return the first."""
        results = self(target, *args)
        first_result = self.graph.call_function(operator.getitem, (results, 0))
        self.set_meta(first_result, results.meta["val"][0])
        return first_result

    def set_meta(self, node: fx.Node, value: Any) -> None:
        """Set a node's value, and the origin of the node that it replaces."""
        node.meta["val"] = value
        for key in (ORIGIN, STACK):
            if key in self.replaced.meta:
                node.meta[key] = self.replaced.meta[key]

    def with_four_dims(self, node: fx.Node) -> fx.Node:
        """Insert a dimension of heads if there is none."""
        return self(aten.unsqueeze.default, node, 1) if _value(node).dim() == 3 else node

    def as_scores(self, node: fx.Node, attention: Attention) -> fx.Node:
        """Insert dimensions until the tensor broadcasts with the scores, in four dimensions."""
        while _value(node).dim() < _value(attention.result).dim():
            node = self(aten.unsqueeze.default, node, 0)
        return self.with_four_dims(node)

    def with_contiguous_rows(self, node: fx.Node) -> fx.Node:
        """Clone a tensor whose last dimension is not contiguous, which the kernel requires."""
        value = _value(node)
        if value.stride(-1) == 1 or value.shape[-1] == 1:
            return node
        return self(aten.clone.default, node, memory_format=torch.contiguous_format)
