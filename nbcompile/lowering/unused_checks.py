"""Checks of values that no kernel would make: where nothing, or only a part of a result, is needed.

    rows = embedding(w, ids); return rows[0]      buf0[i0] = checked(ids[i0]), and nothing reads buf0
    return rows * 2                               the loop over all rows checks every id

Whether a result is used as a whole is read off the graph: through operators that look at every element.

In torch: nothing. Read next: nbcompile/capture/value_errors.py
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from nbcompile.ir.expr import IndexOf
from nbcompile.ir.index import index
from nbcompile.ir.layout import contiguous
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.registry import LOWERINGS
from nbcompile.lowering.value import Value

aten = torch.ops.aten
REASON = "an operator that fails for some values is checked, although its result is not needed as a whole"
_KEEPS = aten._assert_tensor_metadata.default
"""An operator that takes a tensor and does nothing: what it reads is computed."""
_LOOKS_AT_ALL = {
    aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.permute.default, aten.unsqueeze.default,
    aten.squeeze.dim, aten.squeeze.dims, aten.squeeze.default, aten.t.default, aten.transpose.int, aten.alias.default,
    operator.getitem, aten.detach.default, aten.clone.default, aten._to_copy.default, aten.contiguous.default,
    torch.ops.prims.convert_element_type.default, aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor,
    aten.neg.default, aten.exp.default, aten.log.default, aten.relu.default, aten.tanh.default, aten.sigmoid.default,
    aten.rsqrt.default, aten.sum.default, aten.sum.dim_IntList, aten.mean.default, aten.mean.dim, aten.amax.default,
    aten.var_mean.correction, aten.var.correction, aten.copy_.default,
}  # fmt: skip
"""Lowered operators whose loops go over all elements of their operands."""


def used_whole(graph: fx.Graph) -> set[fx.Node]:
    """Nodes all of whose elements are needed by what the graph returns or writes; if in doubt, a node is not."""
    found: set[fx.Node] = set()
    for node in reversed(graph.nodes):
        if any(_uses_all_of(node, user, found) for user in node.users):
            found.add(node)
    return found


def _uses_all_of(node: fx.Node, user: fx.Node, used: set[fx.Node]) -> bool:
    if user.op == "output" or user.target is aten.copy_.default:
        return True
    if user not in used or _is_empty(user):
        return False
    return user.target in _LOOKS_AT_ALL or (
        isinstance(user.target, torch._ops.OpOverload) and user.target not in LOWERINGS
    )


def _is_empty(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and index(value.numel()) == 0


def keep(build: Builder, result: Any) -> None:
    """Have the checks made of the operator that was lowered last, whatever becomes of its result."""
    if build.index_checks:
        for check in build.index_checks:
            symbol, gather = build.gather(check.ids, check.extent, check.wraps)
            body = IndexOf(symbol, torch.int64, (gather,))
            _keep(build, Value(torch.int64, check.ids.device, check.ids.size, body, build.origin()))
        return
    first = next(
        (each for each in (result if isinstance(result, tuple) else (result,)) if isinstance(each, Value)), None
    )
    if first is not None:
        _keep(build, first)


def _keep(build: Builder, value: Value) -> None:
    view = build.view_of(build.realize(value, contiguous(value.size), copy=build.view_of(value) is None))
    if view is not None:
        build.extern_call(_KEEPS, (view,), {}, None, REASON)
