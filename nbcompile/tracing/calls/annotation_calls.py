"""Calls of annotations (torch's and nbcompile's) in a compiled function.

    torch._dynamo.graph_break()      a graph break
    torch._dynamo.skip_frame()       the whole function runs as Python
    mark_static(x, 0)                the size is a constant from now on

In torch: torch/_dynamo/decorators.py, torch/_dynamo/variables/torch.py. Read next: annotations.py
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from nbcompile import annotations as marks
from nbcompile.tracing import breaks
from nbcompile.tracing.calls.registry import handles, handles_named
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables import context_table, contexts
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.functions import BaseFunctionVariable, FunctionVariable
from nbcompile.tracing.variables.symbolic import SymbolicVariable
from nbcompile.tracing.variables.tensor import TensorVariable

DYNAMO = "torch._dynamo.decorators"
OURS = "nbcompile.annotations"


def _text(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> str:
    values = [realise(tracer, each) for each in (*arguments, *keywords.values())]
    return (
        f"with args `{[each.constant() for each in values[: len(arguments)] if each.is_constant()]}`, kwargs `{ {} }`"
    )


@handles_named(DYNAMO, "graph_break")
@handles_named(OURS, "graph_break")
def _graph_break(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    context = f"Called `torch._dynamo.graph_break()` {_text(tracer, arguments, keywords)}"
    raise breaks.unsupported(breaks.GRAPH_BREAK, context, message=None)


@handles_named(DYNAMO, "skip_frame")
@handles_named(OURS, "skip_frame")
def _skip_frame(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    code = tracer.output.frame.code
    context = (
        f"Called `torch._dynamo.skip_frame()` {_text(tracer, arguments, keywords)}. "
        f"Skipping frame {code.co_name} ({code.co_filename} line {code.co_firstlineno})."
    )
    error = breaks.unsupported(breaks.SKIP_FRAME, context, message=None)
    # The whole function runs as Python: ``skip_frame`` means more than a break at this point.
    error.needs_frame = True
    raise error


@handles_named(DYNAMO, "step_unsupported")
@handles_named(OURS, "step_unsupported")
def _step_unsupported(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    context = f"Called `torch._dynamo.step_unsupported()` {_text(tracer, arguments, keywords)}"
    raise breaks.unsupported(breaks.STEP_UNSUPPORTED, context, message=None)


def _setting(module: str, name: str) -> None:
    @handles_named(module, name)
    def _make(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        """Create the context now, as it decides how the rest is traced."""
        values = [realise(tracer, each) for each in arguments]
        named = {key: realise(tracer, each) for key, each in keywords.items()}
        make = getattr(sys.modules[module], name)
        if len(values) == 1 and isinstance(values[0], BaseFunctionVariable):  # the bare name as a decorator
            region = context_table.from_object(make(), None)
            assert region is not None
            return contexts.DecoratedVariable(region, values[0])
        if not all(each.is_constant() for each in (*values, *named.values())):
            raise breaks.unsupported(breaks.UNSUPPORTED_CONTEXT, name, name=name)
        given = {key: each.constant() for key, each in named.items()}
        return tracer.wrap(tracer.evaluate(make, [each.constant() for each in values], given), None)


for _name in ("error_on_graph_break", "patch_dynamo_config", "dont_skip_tracing", "disable_nested_graph_breaks"):
    _setting(DYNAMO, _name)
    _setting(OURS, _name)


@handles_named(DYNAMO, "nonstrict_trace")
@handles_named(OURS, "nonstrict_trace")
def _nonstrict_trace(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    function = realise(tracer, (*arguments, *keywords.values())[0])
    if not isinstance(function, FunctionVariable):
        raise breaks.unsupported(breaks.NONSTRICT_NESTED, function.describe(), name=getattr(function, "name", "it"))
    marked = marks.nonstrict_trace(function.function)
    return tracer.wrap(marked, tracer.keep(marked, function.name))


def _annotating(value: Callable[..., object]) -> None:
    @handles(value)
    def _annotate(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        """Break the graph, so that Python sets a mark, which holds for the process."""
        name, file = value.__name__, value.__code__.co_filename
        context = f"module: {value.__module__}, qualname: {name}, skip reason: it annotates a function"
        raise breaks.unsupported(breaks.SKIPPED_FUNCTION, context, name=name, file=file)


for _function in (
    marks.allow_in_graph, marks.disallow_in_graph, marks.forbid_in_graph, marks.assume_constant_result,
    marks.substitute_in_graph, marks.leaf_function,
):  # fmt: skip
    _annotating(_function)


@handles_named(DYNAMO, "mark_static")
def _mark_static(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    """Make sizes constants from now on, inside of a compiled function."""
    tensor = realise(tracer, arguments[0])
    if isinstance(tensor, TensorVariable):
        dims = arguments[1:] or list(keywords.values())
        sizes = tensor.call_method(tracer, "size", dims, {})
        for size in [sizes] if dims else sizes.unpack(tracer):
            if isinstance(size, SymbolicVariable):
                size.specialise()
    return ConstantVariable(None)
