"""Context variables: the value that ``get`` reads is guarded, and ``set`` and ``reset`` run after the graph.

    scale = ContextVar("scale", default=1)

    token = scale.set(2)     no node: later reads find 2, and the residual program calls scale.set(2)
    y = x * scale.get()      x * 2
    scale.reset(token)       removes the recorded call, so that the residual program has nothing to call

In torch: ContextVarVariable of torch/_dynamo/variables/misc.py from 2.15 on, where ``set`` and ``reset`` break the
graph; in earlier versions ``get`` does, too. Read next: nbcompile/tracing/effects/side_effects.py
"""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Sequence
from types import FunctionType
from typing import Any

import torch

from nbcompile.capture.guard import GuardKind
from nbcompile.capture.recipe import Attribute, Call, Constant, Recipe
from nbcompile.capture.source import AttrSource, ConstantSource, NoArgsCallSource, Source, expression
from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.containers import BuiltinMethodVariable

UNSET = contextvars.Token.MISSING
"""Value of a variable that has none, as in ``Token.old_value``."""


class _SetVariable(VariableTracker):
    """A call of ``set`` that runs after the graph."""

    def __init__(self, variable: ContextVarVariable, value: VariableTracker) -> None:
        self.variable = variable
        self.value = value

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        return reconstruction.shared(self, lambda: self._make(reconstruction))

    def _make(self, reconstruction: Reconstructor) -> Recipe:
        setter = Attribute(reconstruction.recipe(self.variable), "set")
        call = Call(setter, (reconstruction.recipe(self.value),))
        # A token that is returned is created with the other values, before the recorded calls run: earlier ones first.
        recorded = self.variable.recorded(reconstruction.tracer)
        before = recorded[recorded.index(self) - 1 : recorded.index(self)]
        if not before:
            return call
        return Call(Constant(_second, "second"), (reconstruction.recipe(before[0]), call))


class TokenVariable(VariableTracker):
    """Result of a recorded ``set``, which ``reset`` needs. A token from outside may be a used one: Python resets it."""

    def __init__(self, call: _SetVariable) -> None:
        self.call_of_set = call

    def python_type(self) -> type:
        return contextvars.Token

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        call = self.call_of_set
        # It was reset already; or the residual program would read what the variable holds after it is set.
        if call not in reconstruction.tracer.side_effects.deferred or call.variable.is_read_later:
            raise breaks.unsupported(breaks.UNSUPPORTED_VALUE, self.describe(), name="token")
        return call.recipe(reconstruction)


def _second(_first: object, second: object) -> object:
    """The second of two values that are computed in this order."""
    return second


class ContextVarVariable(VariableTracker):
    """A ``contextvars.ContextVar`` from outside."""

    def __init__(self, value: contextvars.ContextVar[Any], source: Source) -> None:
        self.value = value
        self.source: Source = source
        self.is_read_later = False
        """True if the residual program reads the variable, too: for a tensor or another object that it holds."""

    def python_type(self) -> type:
        return contextvars.ContextVar

    def hash_key(self, tracer: Tracer) -> contextvars.ContextVar[Any]:
        return self.value

    def truth(self, tracer: Tracer) -> bool:
        return True

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        if name in ("get", "set", "reset"):
            return BuiltinMethodVariable(self, name)
        return ConstantVariable(self.value.name) if name == "name" else super().get_attribute(tracer, name)

    def call_method(self, tracer: Tracer, name: str, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        match name, [realise(tracer, argument) for argument in arguments]:
            case "get", ([] | [_]) as given if not keywords:
                return self._get(tracer, given)
            case "set", [value] if not keywords:
                self._expect_no_body(tracer)
                call = _SetVariable(self, value)
                tracer.side_effects.deferred.append(call)
                return TokenVariable(call)
            case "reset", [TokenVariable() as token] if not keywords:
                self._expect_no_body(tracer)
                self._reset(tracer, token)
                return ConstantVariable(None)
        self.no_method(name)

    def _get(self, tracer: Tracer, default: Sequence[VariableTracker]) -> VariableTracker:
        value = self._current(tracer, bool(default))
        if value is not None:
            return value
        if default:
            return default[0]
        tracer.raise_exception(LookupError, self)

    def _current(self, tracer: Tracer, has_default: bool) -> VariableTracker | None:
        """The value at this point of the trace, guarded if it is that of the call; None if there is none."""
        recorded = self.recorded(tracer)
        return recorded[-1].value if recorded else self._of_the_call(tracer, has_default)

    def _of_the_call(self, tracer: Tracer, has_default: bool) -> VariableTracker | None:
        # An argument of ``get`` replaces the variable's own default. The variable is guarded, so that the call with an
        # argument can be a constant of the guard.
        value = self.value.get(UNSET) if has_default else _value_or_unset(self.value)
        read: Source = AttrSource(self.source, "get")
        if has_default or value is UNSET:
            name = f"partial({expression(self.source)}.get, {UNSET!r})"
            read = ConstantSource(name, functools.partial(self.value.get, UNSET))
        if value is UNSET:
            tracer.guard(NoArgsCallSource(read), GuardKind.ID_MATCH, UNSET)
            return None
        found = tracer.wrap(value, NoArgsCallSource(read))
        self.is_read_later = self.is_read_later or not found.is_constant()
        return found

    def recorded(self, tracer: Tracer) -> list[_SetVariable]:
        """The calls of ``set`` that the trace recorded for this variable, without those that were reset."""
        return [
            call
            for call in tracer.side_effects.deferred
            if isinstance(call, _SetVariable) and call.variable.value is self.value
        ]

    def _reset(self, tracer: Tracer, token: TokenVariable) -> None:
        recorded = self.recorded(tracer)
        # Other orders, a token that was used, one of another variable: Python does it, or raises its error.
        if not recorded or recorded[-1] is not token.call_of_set:
            self.no_method("reset")
        tracer.side_effects.deferred.remove(recorded[-1])

    def _expect_no_body(self, tracer: Tracer) -> None:
        # The body of an operator may run any number of times, and the recorded call runs once.
        if tracer.output.body is not tracer.output.root:
            name = f"the context variable {self.value.name}"
            raise breaks.unsupported(breaks.BODY_EFFECT, self.describe(), name="an operator", changed=name)


def expect_no_reader(tracer: Tracer, target: object) -> None:
    """Break at an operator of the program while a variable is set: it may read the variable, which is set later."""
    if not any(isinstance(call, _SetVariable) for call in tracer.side_effects.deferred):
        return
    if isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        is_of_torch = str(target).partition(".")[0] in ("aten", "prim", "prims")
    else:
        is_of_torch = not isinstance(target, FunctionType) or target.__module__.partition(".")[0] == "torch"
    if not is_of_torch:
        what = f"{target}, which may read a context variable that the traced code set"
        raise breaks.unsupported(breaks.UNSUPPORTED_CALL, what, name=what)


def _value_or_unset(variable: contextvars.ContextVar[Any]) -> object:
    try:
        return variable.get()
    except LookupError:
        return UNSET
