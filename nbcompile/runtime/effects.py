"""Functions that a compiled graph calls for its operators: those with effects, without the dispatch that orders them.

    graph      with_effects(token, aten._linalg_check_errors, info, ...)   -> (new token, None)
    here       aten._linalg_check_errors(info, ...)                        the steps of a program have an order already

A token says to a tracer which call comes first. A program's steps are in that order: a plan for C has no tokens, and in
the wrapper one, which has no elements, serves all calls.

In torch: torch/_higher_order_ops/effects.py; torch/_inductor/ir.py (EffectfulKernel). Read next:
nbcompile/runtime/program.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch._higher_order_ops.effects import with_effects

from nbcompile import torch_internals
from nbcompile.ir.emitted import AtSlot, Call, ExternResult, LaunchPlan, Step

_TOKEN = torch.empty(0)


def callee(target: Any) -> Callable[..., Any]:
    """Function that a program calls for a target: the operator with an effect itself, else the target."""
    return _IN_PLACE_OF.get(target, target)


def called_from_c(target: Any) -> Callable[..., Any]:
    """Callable of an operator for C: one that runs no Python frame, which the frame hook would see."""
    if isinstance(target, torch._ops.OpOverload) and target.namespace == "aten":
        # The function in C itself: OpOverload.__call__ is a frame of Python.
        in_c: Callable[..., Any] = target._op
        return in_c

    function = callee(target)
    if function is not target:
        return function

    def call(*arguments: Any, **keywords: Any) -> Any:
        return function(*arguments, **keywords)

    torch_internals.hide_from_hook(call.__code__)
    return call


def without_tokens(plan: LaunchPlan, targets: Mapping[str, Any]) -> tuple[tuple[Step, ...], Mapping[str, Any]]:
    """The steps of a plan, and the operator of each call: those with an effect are called themselves.

    with_effects(token, operator, info) -> (token, result)       operator(info) -> result

    A plan is left as it is where anything else than these steps takes a token, or returns one.
    """
    ordered = [step for step in plan.steps if isinstance(step, Call) and targets[step.extern] in _IN_PLACE_OF]
    if not ordered or not _are_apart(plan, ordered, targets):
        return plan.steps, targets
    operators = dict(targets)
    operators |= {step.extern: step.arguments[1] for step in ordered if targets[step.extern] is with_effects}
    steps = (_itself(step) if step in ordered else step for step in plan.steps)
    return tuple(step for step in steps if step is not None), operators


def _are_apart(plan: LaunchPlan, ordered: list[Call], targets: Mapping[str, Any]) -> bool:
    """Return whether only these calls create and consume the tokens, and only for their order."""
    tokens = {result.slot for step in ordered for result in step.results if _is_token(targets[step.extern], result)}
    taken = {output.slot for output in plan.outputs}
    given: set[int] = set()
    for step in plan.steps:
        if isinstance(step, Call) and step in ordered:
            # As the first argument a token is order, and nothing is lost with it; anywhere else it would be a value.
            given.update(_slots(step.arguments[:1]))
            taken.update(_slots((step.arguments[2:], dict(step.keywords))))
        elif isinstance(step, Call):
            taken.update(_slots((step.arguments, dict(step.keywords))))
    return given <= tokens and not tokens & taken


def _is_token(target: Any, result: ExternResult) -> bool:
    return target is not with_effects or result.path == (0,)


def _itself(step: Any) -> Call | None:
    """The call of an operator whose effect is ordered; None for what makes or ends a token."""
    # _make_token() has no argument, and _sink_tokens([token]) one.
    if len(step.arguments) < 2:
        return None
    operator = step.arguments[1]
    #     with_effects(token, op, ...) -> (token, result)          path (1,)   becomes ()
    #                                  -> (token, first, second)   path (2,)   becomes (1,)
    several = isinstance(operator, torch._ops.OpOverload) and len(operator._schema.returns) > 1
    results = tuple(
        replace(result, path=(result.path[0] - 1, *result.path[1:]) if several else result.path[1:])
        for result in step.results
        if result.path != (0,)
    )
    return Call(step.extern, step.arguments[2:], step.keywords, results)


def _slots(value: object) -> Iterable[int]:
    match value:
        case AtSlot(slot):
            yield slot
        case list() | tuple():
            for item in value:
                yield from _slots(item)
        case dict():
            yield from _slots(list(value.values()))


def does_nothing_for_zeros(target: Any, step: Call) -> int | None:
    """The slot of a tensor for whose zeros an operator does nothing; None for any other operator."""
    if target is torch.ops.aten._linalg_check_errors.default and isinstance(step.arguments[0], AtSlot):
        return step.arguments[0].slot
    return None


def _call_in_order(token: torch.Tensor, operator: Any, *arguments: Any, **keywords: Any) -> tuple[Any, ...]:
    result = getattr(operator, "_op", operator)(*arguments, **keywords)  # without a frame of Python around it
    return (_TOKEN, *result) if isinstance(result, tuple) else (_TOKEN, result)


def _first() -> torch.Tensor:
    return _TOKEN


def _last(tokens: list[torch.Tensor]) -> None:
    pass


_IN_PLACE_OF: dict[Any, Callable[..., Any]] = {
    with_effects: _call_in_order,
    torch.ops.prims._make_token.default: _first,
    torch.ops.prims._sink_tokens.default: _last,
}
for _function in _IN_PLACE_OF.values():
    torch_internals.hide_from_hook(_function.__code__)
