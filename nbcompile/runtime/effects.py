"""Operators with effects, as a compiled graph calls them: without the dispatch that orders them while tracing.

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
    return _call_in_order if target is with_effects else target


def _call_in_order(token: torch.Tensor, operator: Any, *arguments: Any, **keywords: Any) -> tuple[Any, ...]:
    result = operator(*arguments, **keywords)
    return (_TOKEN, *result) if isinstance(result, tuple) else (_TOKEN, result)


torch_internals.hide_from_hook(_call_in_order.__code__)
