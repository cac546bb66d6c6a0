"""Annotations of the program's functions (``disable``, ``allow_in_graph`` ...), and the meaning of a call of each.

    allow_in_graph(f)            a call is one node; f is not traced
    @nonstrict_trace             the same, for any arguments and results
    disallow_in_graph(torch.sub) a call breaks the graph
    forbid_in_graph(f)           a call is an error
    @assume_constant_result      called while tracing; the result is a constant

The marks themselves, nbcompile's and torch's, are looked up in nbcompile/annotations.py.

In torch: torch/_dynamo/decorators.py. Read next: nbcompile/tracing/wrapping/table.py
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any

from nbcompile import annotations as marks, config, errors
from nbcompile.capture import recipe as recipes
from nbcompile.tracing import breaks
from nbcompile.tracing.calls.concrete_eval import real_value
from nbcompile.tracing.calls.opaque import opaque_call, taken_apart
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.constant import ConstantVariable, is_constant_value
from nbcompile.tracing.variables.known_callables import BuiltinVariable, Handler, OperatorVariable, SkippedVariable
from nbcompile.tracing.variables.objects import ObjectVariable
from nbcompile.tracing.variables.strings import TextVariable
from nbcompile.tracing.variables.tensor import TensorVariable


def annotated(value: Callable[..., object]) -> VariableTracker | None:
    """The tracker of a callable that carries an annotation; None for any other one."""
    make = _KINDS.get(marks.mark_of(value))
    return None if make is None else make(value)


def _is_among(value: object, functions: set[Callable[..., object]]) -> bool:
    return bool(functions) and any(each is value for each in functions)


def substitute(value: object) -> FunctionType | None:
    """The Python function that the program has registered to be traced instead of a C function."""
    ours = marks.substitute_of(value)
    if ours is not None:
        return ours
    torchs = sys.modules.get("torch._dynamo.decorators")
    if torchs is None:
        return None
    # torch stores the program's function among its own handlers, inside a wrapper.
    found = torchs.variables.PolyfilledFunctionVariable._get_polyfill_handlers().get(value)
    inner = getattr(found, "__wrapped__", found)
    if not isinstance(inner, FunctionType) or inner.__module__.startswith("torch."):
        return None
    return inner


# -- one function per annotation -------------------------------------------------------------


def _allowed(value: Callable[..., object]) -> VariableTracker | None:
    # A node's target has a name, by which its code calls it: an object without one is traced.
    return OperatorVariable(value) if hasattr(value, "__name__") else None


def _disallowed(value: Callable[..., object]) -> VariableTracker:
    name = getattr(value, "__name__", str(value))
    context = f"module: {getattr(value, '__module__', None)}, qualname: {name}, skip reason: disallow_in_graph"
    return SkippedVariable(
        value, breaks.unsupported(breaks.SKIPPED_FUNCTION, context, name=name, file="(disallow_in_graph)")
    )


def _forbidden(value: Callable[..., object]) -> VariableTracker:
    def call(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        raise errors.ForbiddenCallable(value, tracer.stack())

    return BuiltinVariable(value, call)


def _nonstrict(value: Callable[..., object]) -> VariableTracker:
    inner = getattr(value, "__wrapped__", value)
    return BuiltinVariable(
        value, lambda tracer, arguments, keywords: opaque_call(tracer, inner, "flat_apply_capture", arguments, keywords)
    )


def _leaf(value: Callable[..., object]) -> VariableTracker:
    return BuiltinVariable(
        value,
        lambda tracer, arguments, keywords: opaque_call(tracer, value, "invoke_leaf_function", arguments, keywords),
    )


def _constant_result(value: Callable[..., object]) -> VariableTracker:
    def call(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        # Called now, on real values: the program guarantees that the result is a constant.
        result = tracer.evaluate(
            value,
            [_real(tracer, each) for each in arguments],
            {name: _real(tracer, each) for name, each in keywords.items()},
        )
        if is_constant_value(result):
            return tracer.constant_or_wrap(result)
        # Not a constant of the graph: the program owns the object.
        return tracer.wrap(result, tracer.keep(result, f"{value.__name__}_result"))

    return BuiltinVariable(value, call)


_KINDS: dict[str, Callable[[Any], VariableTracker | None]] = {
    "allow_in_graph": _allowed,
    "disallow_in_graph": _disallowed,
    "forbid_in_graph": _forbidden,
    "nonstrict_trace": _nonstrict,
    "leaf_function": _leaf,
    "assume_constant_result": _constant_result,
}


def _real(tracer: Tracer, argument: VariableTracker) -> object:
    tracker = realise(tracer, argument)
    if isinstance(tracker, ObjectVariable) and not tracker.is_new():
        return tracker.value
    if tracker.is_constant():
        return tracker.constant()
    leaves: list[VariableTracker] = []
    build = taken_apart(tracer, tracker, leaves)
    return build([real_value(tracer, each.proxy()) for each in leaves])


# -- functions that only log -----------------------------------------------------------------


def logging_handler(value: Callable[..., object]) -> Handler | None:
    """Handler of a function that only logs, according to the settings; None for any other function."""
    if _is_among(value, config.ignore_logging_functions):
        return _ignored
    if _is_among(value, config.reorderable_logging_functions):
        return _reordered(value)
    if isinstance(value, FunctionType) and value.__module__ == "logging" and value.__qualname__.startswith("Logger."):
        return _logger_method(value)
    return None


def _ignored(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return ConstantVariable(None)


class DeferredCall(VariableTracker):
    """A call that runs after the graph."""

    def __init__(self, function: object, arguments: Arguments, keywords: Keywords) -> None:
        self.function = function
        self.arguments = arguments
        self.keywords = keywords

    def recipe(self, reconstruction: Reconstructor) -> recipes.Recipe:
        return recipes.Call(
            recipes.Constant(self.function, getattr(self.function, "__name__", "function")),
            tuple(map(reconstruction.recipe, self.arguments)),
            tuple((name, reconstruction.recipe(each)) for name, each in self.keywords.items()),
        )


def _reordered(value: Callable[..., object]) -> Handler:
    def call(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        plain = [realise(tracer, each) for each in arguments]
        named = {name: realise(tracer, each) for name, each in keywords.items()}
        # Deferred until after the graph, so only values that the graph cannot change are allowed.
        for argument in (*plain, *named.values()):
            if not isinstance(argument, (TensorVariable, TextVariable)) and not argument.is_constant():
                raise breaks.unsupported(
                    breaks.NOT_REORDERABLE, f"{value}: {argument.describe()}", name=argument.type_name()
                )
        tracer.side_effects.deferred.append(DeferredCall(value, plain, named))
        return ConstantVariable(None)

    return call


def _logger_method(value: FunctionType) -> Handler:
    def call(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        owner = getattr(realise(tracer, arguments[0]), "value", None) if arguments else None
        for ignored in config.ignore_logging_functions:
            if isinstance(ignored, MethodType) and ignored.__func__ is value and ignored.__self__ is owner:
                return ConstantVariable(None)
        name = f"{logging.Logger.__name__}.{value.__name__}"
        raise breaks.unsupported(breaks.LOGGER, f"method: {name}, args: {len(arguments) - 1}")

    return call
