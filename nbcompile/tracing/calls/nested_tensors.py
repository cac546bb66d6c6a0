"""torch.nested: tensors of layout ``torch.jagged`` are created by one node each.

    torch.nested.nested_tensor_from_jagged(v, o)      nested_view_from_values_offsets_lengths(l_v_, l_o_, None)

All other calls are operators that their class implements, on fake tensors while tracing and on real ones when the graph
runs. Their ragged size is a symbol, so that one graph serves all ragged sizes.

In torch: torch/nested/_internal/nested_tensor.py and torch/_dynamo/trace_rules.py. Read next:
nbcompile/tracing/variables/wrappers.py
"""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch.nested

from nbcompile import torch_internals
from nbcompile.tracing.calls.registry import handles
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker

NODES: tuple[Any, ...] = (
    torch.nested.nested_tensor,
    torch.nested.as_nested_tensor,
    torch.nested.narrow,
    torch.nested.to_padded_tensor,
    *torch_internals.jagged_constructors(),
)
"""Functions whose call is one node."""


def _node(function: Any, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return tracer.apply(function, arguments, keywords)


for _function in NODES:
    handles(_function)(functools.partial(_node, _function))
