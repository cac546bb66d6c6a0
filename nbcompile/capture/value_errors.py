"""Operators that fail for some values of their arguments, which no fake tensor knows.

    rows = x[ids]                          eager mode: IndexError for an id that is no row of x
    return x.new_ones(rows.shape)          nothing needs ``rows``; the check of the ids stays

Dead code elimination may remove what such an operator computes, but not its check. Captured nodes and nodes of ATen
graphs are marked; what an ATen graph lacks of the captured one is a reason to run it as it was captured.

In torch: nothing; what is unused is not checked there. Read next: nbcompile/lowering/unused_checks.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.fx

from nbcompile.capture.node_meta import CHECKS, ORIGIN

_INDICES = (
    "index index_put _index_put_impl_ index_select index_add index_copy index_fill index_reduce gather scatter "
    "scatter_add scatter_reduce take put embedding _embedding_bag _embedding_bag_forward_only embedding_bag one_hot "
    "embedding_renorm nll_loss_forward nll_loss2d_forward multi_margin_loss multilabel_margin_loss_forward "
    "max_unpool2d max_unpool3d repeat_interleave nonzero_static"
)
_VALUES = (
    "bincount histc histogram _histogramdd_bin_edges masked_scatter binary_cross_entropy _ctc_loss segment_reduce "
    "_pack_padded_sequence linalg_cholesky_ex cholesky linalg_inv_ex linalg_lu_factor_ex lu_unpack _linalg_eigh "
    "_linalg_eigvals linalg_eig _linalg_svd _linalg_solve_ex linalg_lstsq linalg_ldl_factor_ex linalg_pinv "
    "linalg_matrix_exp"
)
NAMES = frozenset([*_INDICES.split(), *_VALUES.split()])
"""Operators that look at values before they compute. Those that draw random numbers run in any case."""
DIVISIONS = frozenset(["floor_divide", "remainder", "fmod", "div", "divide"])
"""Operators that fail for a divisor of 0, if all operands are integers (``div`` with a rounding mode)."""


def fails_by_value(operator: Any, arguments: Sequence[Any]) -> bool:
    """Return whether an operator of ATen fails for some values of tensors of these dtypes (or fx nodes of them)."""
    if not isinstance(operator, torch._ops.OpOverload) or operator.namespace != "aten":
        return False
    name = operator.overloadpacket.__name__.removesuffix("_")
    if name in NAMES:
        return True
    if (
        name not in DIVISIONS
        or len(arguments) < 2
        or (name in ("div", "divide") and len(operator._schema.arguments) < 3)
    ):
        return False
    return all(map(_is_integral, map(_value, arguments[:2]))) and isinstance(_value(arguments[1]), torch.Tensor)


def _value(argument: Any) -> Any:
    return argument.meta.get("val") if isinstance(argument, torch.fx.Node) else argument


def _is_integral(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return not value.dtype.is_floating_point and not value.dtype.is_complex
    return isinstance(value, (int, torch.SymInt))


def mark(graph: torch.fx.Graph) -> None:
    """Mark the nodes of an ATen graph."""
    for node in graph.nodes:
        if fails_by_value(node.target, node.args):
            node.meta[CHECKS] = True


def lost(captured: torch.fx.Graph, traced: torch.fx.Graph) -> list[str]:
    """Names of captured nodes whose check the ATen graph traced from them does not make."""
    kept = {origin for node in traced.nodes if CHECKS in node.meta for origin in node.meta.get(ORIGIN, ())}
    return [node.name for node in captured.nodes if CHECKS in node.meta and node.name not in kept]
