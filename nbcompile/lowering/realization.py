"""Realization: which values get a buffer, and which are recomputed in the bodies of their users.

    y = x.exp()              two users, and expensive: realized
    y = x + 1                two users, and cheap: recomputed in both
    y = x.t()                a view: never realized

In torch: torch/_inductor/ir.py (``should_realize_on_reuse``, ``has_exceeded_max_reads``). Read next:
nbcompile/lowering/graph.py
"""

from __future__ import annotations

import operator

import sympy
import torch
from torch import fx

from nbcompile.capture.node_meta import CHANNELS_LAST
from nbcompile.ir.index import index
from nbcompile.ir.traversal import cost, loads, walk
from nbcompile.lowering import (
    convolution,
    products,
)
from nbcompile.lowering.builder import CHEAP_COST, CHEAP_LOADS
from nbcompile.lowering.registry import LOWERINGS
from nbcompile.lowering.value import Value, is_free

aten = torch.ops.aten

# Nodes of a body's tree, and elements that it reads.
BODY_LIMIT = 96
LOAD_LIMIT = 12


def should_realize(value: Value, node: fx.Node) -> bool:
    """Policy of realization: whether a node's value gets a buffer, or is recomputed in its users' bodies.

    Views, constants and casts are never realized. Realized are: a value with
    several users, unless it costs at most CHEAP_COST additions over CHEAP_LOADS
    loads; an output or an operand of an extern call, perhaps through views; a
    body that has grown too long; and a value that a user broadcasts, which would
    recompute it per element. (A realized value is not always stored: fusion
    holds it in a register or a scratch row where its users share its loop.)

    In torch: ``should_realize_on_reuse``, ``realize_hint``, ``has_exceeded_max_reads`` of torch/_inductor/ir.py.
    """
    if is_free(value):
        return False
    # Two loads of one element are one read.
    reads = {(each.buffer, each.index) for each in loads(value.body)}
    size = sum(1 for _ in walk(value.body))
    # A body is copied into the body of each user: without a limit, a chain of n nodes would take time n^2.
    if size > BODY_LIMIT or len(reads) > LOAD_LIMIT:
        return True
    body_cost = cost(value.body)
    if is_extern_operand_or_output(node):
        return True
    if len(node.users) > 1 and (body_cost > CHEAP_COST or len(reads) > CHEAP_LOADS):
        return True
    # A body without loads (an arange) or without operations is as cheap to recompute for each element as to load.
    return body_cost > 0 and _is_broadcast_by_user(node) and bool(reads)


def is_extern_operand_or_output(node: fx.Node) -> bool:
    """Return whether the node, or a view of it, is an output or an operand of an extern call: both need memory."""
    return any(
        user.op == "output"
        or (
            (
                (user.target not in LOWERINGS and products.TEMPLATE not in user.meta)
                or (
                    user.target is convolution.CONVOLUTION
                    and CHANNELS_LAST not in user.meta
                    and products.TEMPLATE not in user.meta
                )
            )
            and user.target is not operator.getitem
            # copy_ to an input has no lowering in the table, but is a kernel of ours (mutation.py).
            and user.target is not aten.copy_.default
        )
        or (user.target in ALIASING and is_extern_operand_or_output(user))
        for user in node.users
    )


def _is_broadcast_by_user(node: fx.Node) -> bool:
    """Return whether some user, perhaps through views, has more elements: it would recompute the value for each."""
    own_value = node.meta.get("val")
    if not isinstance(own_value, torch.Tensor):
        return False
    worklist, seen = list(node.users), set()
    while worklist:
        user = worklist.pop()
        user_value = user.meta.get("val")
        if user in seen or not isinstance(user_value, torch.Tensor) or not _is_lazy(user):
            continue
        seen.add(user)
        if (
            index_count(user_value) != index_count(own_value)
            and user_value.dim() >= own_value.dim()
            and _has_more_elements(own_value, user_value)
        ):
            return True
        # A view has as many elements, but its users may have more.
        if user.target in _VIEWS:
            worklist.extend(user.users)
    return False


_VIEWS = {
    aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.permute.default, aten.unsqueeze.default,
    aten.squeeze.dim, aten.squeeze.dims, aten.squeeze.default, aten.t.default, aten.transpose.int, aten.alias.default,
    aten.expand.default, aten.detach.default,
}  # fmt: skip


ALIASING = _VIEWS | {
    aten.slice.Tensor, aten.select.int, aten.split.Tensor, aten.split_with_sizes.default, aten.unbind.int,
    aten.diagonal.default, aten.as_strided.default, aten.unfold.default, operator.getitem,
}  # fmt: skip


def _is_lazy(node: fx.Node) -> bool:
    return node.target in LOWERINGS and (node.target is not convolution.CONVOLUTION or CHANNELS_LAST in node.meta)


def index_count(tensor: torch.Tensor) -> sympy.Expr:
    """The number of elements, as an expression."""
    return index(tensor.numel())


def _has_more_elements(small: torch.Tensor, large: torch.Tensor) -> bool:
    ratio = index_count(large) - index_count(small)
    # With symbols the sign of the difference may be unknown: it is assumed to be positive.
    return not (isinstance(ratio, sympy.Integer) and ratio <= 0)
