"""torch's annotations on functions: what torch.compile's users told it about them.

    torch.compiler.allow_in_graph(f)            a call is one node; f is not looked into
    torch._dynamo.disallow_in_graph(torch.sub)  a call breaks the graph
    torch._dynamo.forbid_in_graph(f)            a call is an error
    @torch._dynamo.assume_constant_result       called while tracing; the result is a constant

torch keeps them as attributes and in tables of ``torch._dynamo.trace_rules``,
which is looked up among the imported modules: whoever annotated has imported it.

In torch: torch/_dynamo/decorators.py. Read next: nbcompile/tracing/wrapping.py
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from nbcompile import errors
from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.constant import is_constant_value
from nbcompile.tracing.variables.functions import BuiltinVariable, OperatorVariable, SkippedVariable
from nbcompile.tracing.variables.objects import ObjectVariable

_TABLES = "torch._dynamo.trace_rules"


def annotated(value: Callable[..., object]) -> VariableTracker | None:
    """The tracker of a callable that carries an annotation; None for any other one."""
    if getattr(value, "_dynamo_forbidden", False) is True:
        return BuiltinVariable(value, _forbidden(value))
    if getattr(value, "_dynamo_marked_constant", False) is True:
        return BuiltinVariable(value, _constant_result(value))
    if _is_in_table("_disallowed_callable_ids", value):
        name = getattr(value, "__name__", str(value))
        context = f"module: {getattr(value, '__module__', None)}, qualname: {name}, skip reason: disallow_in_graph"
        return SkippedVariable(
            value, breaks.unsupported(breaks.SKIPPED_FUNCTION, context, name=name, file="(disallow_in_graph)")
        )
    if _is_in_table("_allowed_callable_ids", value):
        return OperatorVariable(value)
    return None


def _is_in_table(table: str, value: object) -> bool:
    tables = sys.modules.get(_TABLES)
    return tables is not None and id(value) in getattr(tables, table)


def _forbidden(value: Callable[..., object]) -> Callable[[Tracer, Arguments, Keywords], VariableTracker]:
    def call(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        raise errors.ForbiddenCallable(value, tracer.stack())

    return call


def _constant_result(value: Callable[..., object]) -> Callable[[Tracer, Arguments, Keywords], VariableTracker]:
    def call(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        result = tracer.evaluate(
            value,
            [_real(tracer, each) for each in arguments],
            {name: _real(tracer, each) for name, each in keywords.items()},
        )
        if is_constant_value(result):
            return tracer.constant_or_wrap(result)
        return tracer.wrap(result, tracer.keep(result, f"{value.__name__}_result"))

    return call


def _real(tracer: Tracer, argument: VariableTracker) -> object:
    tracker = realise(tracer, argument)
    if isinstance(tracker, ObjectVariable) and not tracker.is_new():
        return tracker.value
    if tracker.is_constant():
        return tracker.constant()
    raise breaks.unsupported(
        breaks.UNSUPPORTED_CALL,
        f"assume_constant_result with {tracker.describe()}",
        name="a function of assume_constant_result",
    )
