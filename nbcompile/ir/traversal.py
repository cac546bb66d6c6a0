"""Traversal of scalar expressions: visit the parts of one, or build another one from them.

Passes of scheduling/ are functions over expressions that these apply to each part.

    list(walk(x + 1))                      x + 1, x, 1
    transform(x + 1, without_zero)         each part, from the operands up
    substitute(load(i0), {i0: i0 + 2})     load(i0 + 2)

In torch: torch/_inductor/ops_handler.py (a handler for each walk). Read next: nbcompile/scheduling/inline.py
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import assert_never

import sympy

from nbcompile.ir.expr import OPERATIONS, Apply, Constant, Expr, Gather, IndexOf, Load, Local, Masked
from nbcompile.ir.index import Index, Symbol


def children(body: Expr) -> tuple[Expr, ...]:
    """Operands of a node, gathered indices included."""
    match body:
        case Load(gathers=gathers) | IndexOf(gathers=gathers):
            return tuple(gather.value for gather in gathers)
        case Apply(_, args):
            return args
        case Masked(condition, value, otherwise):
            return (condition, value, otherwise)
        case Constant() | Local():
            return ()
        case _:
            assert_never(body)


def walk(body: Expr) -> Iterator[Expr]:
    """Nodes in pre-order."""
    # A list instead of recursion: bodies may be nested deeper than Python's stack.
    stack = [body]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def loads(body: Expr) -> Iterator[Load]:
    """Loads of a body, those of gathered indices included."""
    return (node for node in walk(body) if isinstance(node, Load))


def cost(body: Expr) -> int:
    """Cost of computing the body once, in additions; loads are free."""
    return sum(OPERATIONS[node.op].cost for node in walk(body) if isinstance(node, Apply))


def rebuild(body: Expr, change: Callable[[Expr], Expr]) -> Expr:
    """The same node with each of its :func:`children` replaced."""
    match body:
        case Load(gathers=gathers) | IndexOf(gathers=gathers):
            if not gathers:
                return body
            return replace(body, gathers=tuple(replace(each, value=change(each.value)) for each in gathers))
        case Apply(op, args, dtype, origin):
            return Apply(op, tuple(map(change, args)), dtype, origin)
        case Masked(condition, value, otherwise, origin):
            return Masked(change(condition), change(value), change(otherwise), origin)
        case Constant() | Local():
            return body
        case _:
            assert_never(body)


def with_origin(body: Expr, nodes: tuple[str, ...]) -> Expr:
    """Set the origin of every node that has none.

    The operands of a node with an origin have one, too, and are not visited.
    """
    match body:
        case Constant() | Local():
            return body
        case _ if body.origin:
            return body
        case _:
            # Inner nodes come from earlier fx nodes, and have had their origin since these were lowered.
            rebuilt = rebuild(body, lambda part: with_origin(part, nodes))
            return replace(rebuilt, origin=nodes)  # type: ignore[arg-type]


def transform(body: Expr, replace_node: Callable[[Expr], Expr | None]) -> Expr:
    """Replace nodes from the top down: a node that ``replace_node`` returns is not visited again."""
    replacement = replace_node(body)
    return replacement if replacement is not None else rebuild(body, lambda part: transform(part, replace_node))


def substitute(
    body: Expr,
    mapping: Mapping[Symbol, Index],
    gathers: tuple[Gather, ...] = (),
    tidy: Callable[[Index], Index] = lambda index: index,
) -> Expr:
    """Reindex a body: substitute index expressions for the loop variables, simultaneously.

    ``gathers`` bind further symbols of the new indices; ``tidy`` simplifies
    each resulting index.
    """

    def bound(own: tuple[Gather, ...], symbols: set[sympy.Basic]) -> tuple[Gather, ...]:
        return own + tuple(each for each in gathers if each.symbol in symbols and each not in own)

    def rewrite(node: Expr) -> Expr:
        match node:
            case Load(buffer, index, dtype, own, origin):
                new_index = tuple(tidy(each.xreplace(mapping)) for each in index)
                # A load keeps only those gathers whose symbols are in its own index: no other is
                # checked with it.
                symbols = set().union(*(each.free_symbols for each in new_index)) if gathers else set()
                bound_gathers = bound(tuple(replace(g, value=rewrite(g.value)) for g in own), symbols)
                return Load(buffer, new_index, dtype, bound_gathers, origin)
            case IndexOf(index, dtype, own, origin):
                new_index = tidy(index.xreplace(mapping))
                bound_gathers = bound(tuple(replace(g, value=rewrite(g.value)) for g in own), new_index.free_symbols)
                return IndexOf(new_index, dtype, bound_gathers, origin)
            case Masked(condition, value, otherwise, origin):
                chosen = rewrite(condition)
                # A pad or a piece of a cat that is read at a known position: one side is left, and no
                # index out of bounds.
                holds = constant_condition(chosen)
                if holds is None:
                    return Masked(chosen, rewrite(value), rewrite(otherwise), origin)
                return rewrite(value) if holds else rewrite(otherwise)
            case _:
                return rebuild(node, rewrite)

    return rewrite(body)


def constant_condition(condition: Expr) -> bool | None:
    """Fold a comparison of two constants to a bool; None for every other condition."""
    match condition:
        case Constant(value=value):
            return bool(value)
        case Apply(op, (left, right)) if op in _COMPARISONS:
            first, second = _constant_integer(left), _constant_integer(right)
            return None if first is None or second is None else bool(_COMPARISONS[op](first, second))
    return None


def _constant_integer(value: Expr) -> int | None:
    match value:
        case Constant(value=number) if isinstance(number, int):
            return number
        case IndexOf(index) if index.is_Integer:
            return int(index)
    return None


_COMPARISONS = {"lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq}
