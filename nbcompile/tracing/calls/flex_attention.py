"""Flex attention: the functions that modify and mask the scores become graphs of their own.

    flex_attention(q, k, v, score_mod=f)     get_attr score_mod_0 ; get_attr mask_fn_0 ; flex_attention(l_q_, ...)

Both functions are traced with zero-dimensional tensors for a position. They may
index with such a tensor: this remains an operator.

In torch: FlexAttentionHigherOrderVariable in torch/_dynamo/variables/higher_order_ops.py.
Read next: higher_order.py
"""

from __future__ import annotations

from typing import Any

import torch
import torch.fx
import torch.utils._pytree as pytree
from torch.nn.attention import flex_attention
from torch.overrides import TorchFunctionMode

from nbcompile.tracing.calls.bodies import TracedBody, trace_body
from nbcompile.tracing.calls.higher_order import OPERATORS, captured_whole
from nbcompile.tracing.calls.registry import handles
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.tensor import TensorVariable


class _IndexingByTensors(TorchFunctionMode):
    """Let an index by a zero-dimensional tensor be an operator, which does not read its value."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> object:
        if func is torch.Tensor.__getitem__:
            indices = pytree.tree_leaves(args[1])
            if all(isinstance(each, (torch.Tensor, int)) for each in indices):
                tensors = [each if isinstance(each, torch.Tensor) else torch.tensor(each) for each in indices]
                return torch.ops.aten.index(args[0], tensors)
        return func(*args, **(kwargs or {}))


@handles(OPERATORS.flex_attention)
@captured_whole("torch.ops.higher_order.flex_attention")
def _flex_attention(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    query, key, value, score, block_mask, scale, options = arguments
    assert isinstance(query, TensorVariable)
    *blocks, mask = (realise(tracer, each) for each in block_mask.unpack(tracer))
    if mask.is_constant():
        mask = tracer.wrap(flex_attention.noop_mask, None)
    traced_score = _trace_at_position(tracer, query, score, [_number(tracer, query, None)])
    score_node = tracer.output.install("score_mod", traced_score.body)
    traced_mask = _trace_at_position(tracer, query, mask, [])
    mask_node = tracer.output.install("mask_fn", traced_mask.body)
    given = [each.proxy() for each in (query, key, value)]
    mask_arguments = (*(each.proxy() for each in blocks), mask_node)
    lifted = (tuple(traced_score.body.lifted), tuple(traced_mask.body.lifted))
    target: object = OPERATORS.flex_attention
    operands = (*given, score_node, mask_arguments, scale.proxy(), options.proxy(), *lifted)
    # Torch differentiates the function here, and has a mode for indexing by zero-dimensional tensors.
    with torch._C._EnableTorchFunction():
        return tracer.result(tracer.output.apply("call_function", target, operands, {}))  # type: ignore[arg-type]


def _number(tracer: Tracer, query: TensorVariable, dtype: torch.dtype | None) -> torch.Tensor:
    """A zero-dimensional tensor, of the query's type (a score) or of another one (a position)."""
    with tracer.output.fake_mode:
        return query.example.new_empty((), dtype=dtype, requires_grad=dtype is None and query.example.requires_grad)


def _trace_at_position(
    tracer: Tracer, query: TensorVariable, function: VariableTracker, first: list[torch.Tensor]
) -> TracedBody:
    body = tracer.output.new_body()
    numbers = [*first, *(_number(tracer, query, torch.int32) for _ in ("batch", "head", "row", "column"))]
    given = [TensorVariable(body.placeholder(f"child_{at}", each)) for at, each in enumerate(numbers)]
    with torch._C._EnableTorchFunction(), _IndexingByTensors():
        traced = trace_body(tracer, function, given, body=body)
    (returned,) = body.graph.find_nodes(op="output")
    returned.args = tuple(returned.args[0])  # the number itself
    return traced
