"""Data for a page that predicts, without a kernel, which cache entry another call would hit.

    guards      each with a tree that the page evaluates            L['x'].size()[0] same 3
    readings values of the trees' names in the compiled call L['x'].size()[0] is 3
                and which of them become symbols when they differ   (automatic dynamic)

In torch: nothing. Read next: nbcompile/views/what_if.py, the page.
"""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from types import CodeType
from typing import Any

import torch

from nbcompile import config
from nbcompile.capture.frame import Frame
from nbcompile.capture.resolution import Scope, resolve
from nbcompile.capture.source import ROOTS, Source, expression
from nbcompile.guarding import explain
from nbcompile.guarding.check import FrameCheck
from nbcompile.guarding.guard_expressions import GuardExpressions
from nbcompile.options import Options
from nbcompile.record.model import Reading
from nbcompile.support.process_state import STATE, Lifetime
from nbcompile.support.weak_identity_dict import WeakIdentityDict
from nbcompile.tracing.inputs.dynamism import Dynamism

_readings: WeakIdentityDict[CodeType, GuardExpressions] = STATE.add(
    "recording.guard_explorer._readings", WeakIdentityDict(), Lifetime.OWNER
)


def describe(frame: Frame, options: Options, check: FrameCheck, compile_id: str) -> dict[str, Any]:
    """The entries ``guards``, ``readings`` and ``recompile_limit`` of the record of a frame."""
    readings, scope = readings_of(frame.code), frame.scope()
    tests = [json.dumps(readings.test(each, scope), separators=(",", ":")) for each in check.prepared]
    with torch._C.DisableTorchFunction():
        symbolic = {name for source in readings.sources.values() for name in _symbolic(source, scope, options)}
    return {
        "guards": explain.describe(check, compile_id, tests),
        "readings": tuple(Reading(name, repr(value), name in symbolic) for name, value in readings.take(scope).items()),
        "recompile_limit": options.recompile_limit or config.recompile_limit,
    }


def readings_of(code: CodeType) -> GuardExpressions:
    """All values of a call that the entries of a code object read."""
    known: GuardExpressions | None = _readings.get(code, None)  # type: ignore[arg-type]
    if known is None:
        known = GuardExpressions()
        _readings[code] = known
    return known


def _symbolic(source: Source, scope: Scope, options: Options) -> list[str]:
    """The sizes of a tensor, or the number, that would become symbols if they differed between calls."""
    if options.dynamic is False or not config.automatic_dynamic_shapes:
        return []
    name = expression(source)
    policy = Dynamism(options.dynamic, dims={}, scalars=frozenset({name}))
    # The source of an older entry may not exist in this call.
    with contextlib.suppress(Exception):
        value = resolve(source, scope)
        if isinstance(value, torch.Tensor):
            policy = replace(policy, dims={name: frozenset(range(value.dim()))})
            # Another call may have a tensor where this one has a parameter: the page reads the class.
            policy.context(value.detach() if isinstance(value, torch.nn.Parameter) else value, source)
        elif type(value) is int and not _is_of_module(source, scope):
            policy.is_symbolic_int(value, source)
        elif type(value) is float:
            policy.is_symbolic_float(value, source)
    return [each for each, why in policy.origins.items() if why == "automatic dynamic"]


def _is_of_module(source: Source, scope: Scope) -> bool:
    """True if a number is a setting of a module: those stay constants, unless a setting makes them dynamic."""
    if config.allow_unspec_int_on_nn_module:
        return False
    while not isinstance(source, ROOTS):
        source = source.base
        if isinstance(resolve(source, scope), torch.nn.Module):
            return True
    return False
