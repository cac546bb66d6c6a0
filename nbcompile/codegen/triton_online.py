"""Online reductions: two looped reductions of a row in one loop, although the second needs the first's result.

    for r0 < 50257: m = max(m, x[r0])             for r0 < 50257: x1 = x[r0]
    for r0 < 50257: s += exp(x[r0] - m)       ->      each of the 4096 elements of a block has a largest number of its
                                                      own so far, and a sum of exp(x - that), scaled when it grows
                                                  m = the largest of them; s = the sum of theirs, scaled to m

    for r0 < n: t += x[r0];  m = t / n            each element has its own mean so far, and a sum of squared
    for r0 < n: q += (x[r0] - m)**2           ->  distances from it (Welford); these are moved to the mean of all
                e += x[r0] - m                    e, which corrects m and q, is summed over their means, too

A row that is too long for registers is read once fewer.

In torch: online_softmax_combine and welford_reduce (torch/_inductor/runtime/triton_helpers.py). Read next:
nbcompile/codegen/triton_rows.py
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from nbcompile.codegen.triton_reductions import accumulator_name
from nbcompile.codegen.triton_values import TYPES, TritonEmitter, index_text
from nbcompile.ir import index as indexing
from nbcompile.ir.expr import Apply, Constant, Expr, IndexOf, Local, cast
from nbcompile.ir.kernel import Accumulate, Let, Nest, Statement
from nbcompile.ir.traversal import rebuild


@dataclass(frozen=True, slots=True)
class Second:
    """The second reduction, which the loop of the first one computes, too."""

    nest: Nest
    part: Accumulate
    error: Accumulate | None
    """The sum of the distances, in the same loop as that of their squares."""
    kind: str
    """``exponentials`` or ``squares``."""
    center: str
    """Local variable that is subtracted."""
    length: indexing.Index


def find(body: Sequence[Statement], at: int) -> Second | None:
    """The reduction that can be done in the loop of the nest at a position; None if there is none."""
    first, following = body[at], _next_nest(body, at)
    if not isinstance(first, Nest) or following is None or following.loops != first.loops:
        return None
    one, others = _reductions(first), _reductions(following)
    if len(one) != 1 or not one[0].value.dtype.is_floating_point or any(part.kind != "sum" for part in others):
        return None
    between = [part for part in body[at + 1 : body.index(following)] if isinstance(part, Let)]
    found = (_pair(first, following, one[0], part, error, between) for part, error in _pairs(others))
    return next((second for second in found if second is not None), None)


def _pairs(sums: Sequence[Accumulate]) -> list[tuple[Accumulate, Accumulate | None]]:
    """Return both orders of two sums: either may be of the squares, the other one of the distances."""
    if len(sums) == 1:
        return [(sums[0], None)]
    return [(sums[0], sums[1]), (sums[1], sums[0])] if len(sums) == 2 else []


def _pair(
    first: Nest, following: Nest, one: Accumulate, other: Accumulate, error: Accumulate | None, between: Sequence[Let]
) -> Second | None:
    """The reduction of a following nest and the sum of the distances in it, if they fit the first reduction."""
    length = indexing.product([loop.size for loop in first.loops])
    x = _expanded(first, one)
    kind, center = _relation(one, x, _expanded(following, other))
    if kind == "exponentials":
        fits = error is None and _is(Local(center, one.value.dtype), Local(one.name, one.value.dtype), between)
    else:
        fits = kind == "squares" and _is_mean(center, one, between, length)
    if fits and error is not None:
        fits = _expanded(following, error) == Apply("sub", (x, Local(center, x.dtype)), x.dtype)
    return Second(following, other, error, kind, center, length) if fits else None


def _relation(one: Accumulate, x: Expr, y: Expr) -> tuple[str, str]:
    """Relation of the operand of a sum, ``y``, to the operand of the reduction before it; and the subtracted value."""
    match y:
        #     exp(x - m)                  after m = max(x)               softmax, logsumexp
        #     (x - m) * (x - m)           after t = sum(x), m = t / n    variance, layer norm
        case Apply("exp", (Apply("sub", (inside, Local(center))),)) if one.kind == "max" and inside == x:
            return "exponentials", center
        case Apply("mul", (Apply("sub", (inside, Local(center))) as apart, factor)) if one.kind == "sum":
            return ("squares" if inside == x and apart == factor else ""), center
    return "", ""


def _next_nest(body: Sequence[Statement], at: int) -> Nest | None:
    return next((part for part in body[at + 1 :] if isinstance(part, Nest)), None)


def _reductions(nest: Nest) -> list[Accumulate]:
    """The reductions of a nest that has no other statements."""
    # A nest that stores, too, is not changed.
    others = [part for part in nest.body if not isinstance(part, (Accumulate, Let))]
    return [] if others else [part for part in nest.body if isinstance(part, Accumulate)]


def _expanded(nest: Nest, part: Accumulate) -> Expr:
    """Expand the operand of a reduction: without the variables of the loop."""
    values: dict[str, Expr] = {}
    for statement in nest.body:
        if isinstance(statement, Let):
            values[statement.name] = _inlined(statement.value, values)
    return _inlined(part.value, values)


def _inlined(body: Expr, values: Mapping[str, Expr]) -> Expr:
    if isinstance(body, Local):
        return values.get(body.name, body)
    return rebuild(body, lambda part: _inlined(part, values))


def _is(body: Expr, expected: Expr, between: Sequence[Let]) -> bool:
    """Return whether an expression is another one, by the variables that are set in between."""
    values: dict[str, Expr] = {}
    for statement in between:
        values[statement.name] = _inlined(statement.value, values)
    return _inlined(body, values) == expected


def _is_mean(center: str, total: Accumulate, between: Sequence[Let], length: indexing.Index) -> bool:
    dtype, known = total.value.dtype, indexing.constant(length)
    count = cast(IndexOf(length, torch.int64), dtype) if known is None else Constant(float(known), dtype)
    return _is(Local(center, dtype), Apply("div", (Local(total.name, dtype), count), dtype), between)


def declare(emitter: TritonEmitter, second: Second, block: int) -> None:
    """Declare the accumulators of the second reduction, before the loop."""
    emitter.origin = emitter.origins.get(second.part.name, ())
    kind = TYPES[second.part.value.dtype]
    emitter.line(f"{accumulator_name(second.part)} = tl.full([{block}], 0, {kind})")
    if second.kind == "squares":
        emitter.line(f"{second.part.name}_mean = tl.full([{block}], 0, {kind})")


def combine(emitter: TritonEmitter, first: Accumulate, second: Second, value: str, block: int) -> None:
    """Combine one more block of values, in the loop, instead of in the first reduction alone."""
    emitter.origin = emitter.origins.get(second.part.name, ())
    total, largest, mask = accumulator_name(second.part), accumulator_name(first), emitter.mask
    valid = mask or f"tl.full([{block}], 1, tl.int1)"
    if second.kind == "exponentials":
        emitter.line(f"{largest}, {total} = next_exponentials({largest}, {total}, {value}, {valid})")
        return
    emitter.line(f"{largest} = tl.where({valid}, {largest} + {value}, {largest})")
    mean, kind = f"{second.part.name}_mean", TYPES[second.part.value.dtype]
    # Each element of the block has one number from every iteration so far: that is their count.
    share = f"reciprocal(tl.full([1], 1, {kind}) + begin // {block})"
    emitter.line(f"{mean}, {total} = next_squares({mean}, {total}, {value}, {share}, {valid})")


def finish(emitter: TritonEmitter, first: str, second: Second, block: int) -> None:
    """Store the result of the second nest in a variable, after the loop."""
    part = second.part
    emitter.origin = emitter.origins.get(part.name, ())
    # Each element has its own largest number or mean. Moved to a common one they add up:
    #     exponentials    sum of exp(x - a) = sum of exp(x - b) * exp(b - a)
    #     squares         sum of (x - a)^2  = sum of (x - b)^2 + count * (b - a)^2    b: their mean
    total, center = accumulator_name(part), emitter.locals[second.center]
    if second.kind == "exponentials":
        emitter.line(f"{part.name} = tl.sum({total} * tl.exp({first} - {center}), 0)")
    else:
        # The last block is not full: elements that exist in it have one number more than the others.
        mean, count = f"{part.name}_mean", f"{part.name}_count"
        length = index_text(second.length)
        emitter.line(
            f"{count} = (({length} + {block - 1} - tl.arange(0, {block})) // {block}).to({TYPES[part.value.dtype]})"
        )
        emitter.line(f"{part.name} = tl.sum({total} + {count} * ({mean} - {center}) * ({mean} - {center}), 0)")
        if second.error is not None:
            error = second.error.name
            emitter.line(f"{error} = tl.sum({count} * ({mean} - {center}), 0)")
            emitter.locals[error] = error
    emitter.locals[part.name] = part.name
