"""Functions that a compiled graph calls for its operators: those with effects, without the dispatch that orders them.

    graph      with_effects(token, aten._linalg_check_errors, info, ...)   -> (new token, None)
    here       aten._linalg_check_errors(info, ...)                        the steps of a program have an order already

A token says to a tracer which call comes first. A program's steps are in that order, so that one token, which has no
elements, serves all calls.

In torch: torch/_higher_order_ops/effects.py; torch/_inductor/ir.py (EffectfulKernel). Read next:
nbcompile/runtime/program.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._higher_order_ops.effects import with_effects

from nbcompile import torch_internals

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
