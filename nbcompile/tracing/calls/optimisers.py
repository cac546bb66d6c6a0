"""Optimisers, whose state is created before the step is traced.

    for group in self.param_groups:
        self._init_group(group, params, grads, ...)     called once: creates exp_avg, exp_avg_sq, step;
                                                        then traced with this state

So the first step is traced as all later ones, and not compiled twice. As in torch, a
compiled optimiser is traced as ``capturable``: its step count is a tensor.

In torch: torch/_dynamo/variables/optimizer.py. Read next: nbcompile/tracing/effects/side_effects.py
"""

from __future__ import annotations

import sys
import types
from typing import Any

import torch

from nbcompile import torch_internals
from nbcompile.tracing import breaks
from nbcompile.tracing.calls.registry import handles_named
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.functions import FunctionVariable
from nbcompile.tracing.variables.mappings import DictVariable
from nbcompile.tracing.variables.objects import ObjectVariable


def _trace_after_initialisation(cls: type, function: types.FunctionType) -> None:
    @handles_named(cls.__module__, f"{cls.__qualname__}._init_group")  # a real torch.compile wraps it
    def _init_group(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        owner, group = (realise(tracer, each) for each in arguments[:2])
        if _is_as_before(tracer, owner, group):
            assert isinstance(owner, ObjectVariable) and group.source is not None
            empty: list[list[object]] = [[] for _ in (*arguments[2:], *keywords.values())]
            with torch.no_grad():
                function(owner.value, tracer.real_value(group.source), *empty)
            if owner.source is not None:
                tracer.note_initialiser(function, owner.source, group.source, len(empty))
        if isinstance(group, DictVariable):
            _be_capturable(group)
        return tracer.call(FunctionVariable(function), arguments, keywords)


def _is_as_before(tracer: Tracer, owner: VariableTracker, group: VariableTracker) -> bool:
    """True if nothing changed since the frame was called: the real optimiser has the traced one's state."""
    return (
        isinstance(owner, ObjectVariable)
        and not owner.is_new()
        and group.source is not None
        and not tracer.side_effects.any()
    )


def _be_capturable(group: DictVariable) -> None:
    name = ConstantVariable("capturable")
    if "capturable" in group.entries:
        group.entries["capturable"] = (name, ConstantVariable(True))


for _class in vars(torch.optim).values():
    _function: Any = vars(_class).get("_init_group") if isinstance(_class, type) else None
    if isinstance(_function, types.FunctionType):
        _trace_after_initialisation(_class, getattr(_function, "_torchdynamo_orig_callable", _function))


def _never_traced(function: types.FunctionType, reason: str) -> None:
    torch_internals.hide_from_hook(function.__code__)

    @handles_named(function.__module__, function.__qualname__)
    def _disabled(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        name = function.__qualname__
        raise breaks.unsupported(breaks.DISABLED_FUNCTION, str(function), name=name, reason=reason)


for _module in {sys.modules[each.__module__] for each in vars(torch.optim).values() if isinstance(each, type)}:
    # One operator for all parameters without a functional form, which a compiler cannot make faster.
    _fused: Any = vars(_module).get(f"_fused_{_module.__name__.rpartition('.')[2]}")
    if _fused is not None:
        _never_traced(getattr(_fused, "_torchdynamo_orig_callable", _fused), "don't trace into fused optimizer")
