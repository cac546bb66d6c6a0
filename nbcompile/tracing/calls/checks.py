"""Checks and assertions of torch: decided while tracing, or an operator if only the run can decide.

    torch._check(x.shape[0] > 3)      a guard, if the size is a symbol
    torch._check(False, lambda: m)    raises here, with eager mode's class and text
    torch._assert(x.min() > 0, "m")   _assert_async

In torch: torch/_dynamo/variables/torch.py. Read next: factories.py
"""

from __future__ import annotations

import functools
from types import CodeType
from typing import Any

import torch

from nbcompile.tracing.calls import comparisons
from nbcompile.tracing.calls.registry import handles
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.symbolic import SymbolicVariable
from nbcompile.tracing.variables.tensor import TensorVariable


@handles(torch._check_is_size)
def _check_is_size(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    size = realise(tracer, arguments[0])
    if isinstance(size, SymbolicVariable):
        return tracer.apply(torch._check_is_size, [size])
    return _check(torch._check, tracer, [comparisons.compare(tracer, ">=", size, ConstantVariable(0))], {})


@handles(torch._constrain_as_size)
def _constrain_as_size(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    size = realise(tracer, arguments[0])
    bounds = {**dict(zip(("min", "max"), arguments[1:], strict=False)), **keywords}
    return tracer.apply(
        torch.sym_constrain_range_for_size, [size], {key: realise(tracer, bounds[key]) for key in bounds}
    )


def _constant_message(tracer: Tracer, messages: Arguments) -> list[VariableTracker]:
    """The text of ``lambda: "too large"``, for the error at run time; [] for one that is computed."""
    for message in messages:
        code = getattr(realise(tracer, message), "code", None)
        if isinstance(code, CodeType) and not (code.co_freevars or code.co_names or code.co_argcount):
            text = realise(tracer, tracer.call(message, []))
            return [text] if text.is_constant() and isinstance(text.constant(), str) else []
    return []


CHECKS: dict[Any, type[Exception]] = {
    torch._check: RuntimeError,
    torch._check_value: ValueError,
    torch._check_index: IndexError,
    torch._check_type: TypeError,
    torch._check_not_implemented: NotImplementedError,
}
"""Exception that each check raises if its condition does not hold."""


def _check(check: Any, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    condition = realise(tracer, arguments[0])
    messages = [*arguments[1:], *keywords.values()]
    if isinstance(condition, SymbolicVariable) and _is_operator(tracer, condition):
        # A condition on symbols is a guard, or an assertion at run time if only the run can decide it.
        if text := _constant_message(tracer, messages):  # the same operator as of torch._check, with the user's message
            return tracer.apply(torch._assert_scalar, [condition, *text])
        return tracer.apply(torch._check, [condition])
    # The condition is known, or is a tensor, which no check accepts: the program raises here, and may catch the error.
    holds = _known(tracer, condition)
    if holds is not True:
        texts = [realise(tracer, tracer.call(each, [])) for each in messages] if holds is False else []
        known = [str(each.constant()) for each in texts if each.is_constant()]
        raised = _raised_by(check, holds)
        tracer.raise_exception(type(raised), *(known or raised.args))
    return ConstantVariable(None)


def _is_operator(tracer: Tracer, condition: SymbolicVariable) -> bool:
    # With one graph for the whole function, a check that fails is the operator's error, as in torch.compile.
    return condition.is_unbacked() or bool(condition.example.node.hint) or tracer.output.options.fullgraph


def _known(tracer: Tracer, condition: VariableTracker) -> object:
    """A condition's value in this call; for a tensor any tensor, because every check raises for one."""
    match condition:
        case TensorVariable():
            return torch.empty(0)
        case SymbolicVariable():
            return condition.truth(tracer)
    return condition.constant() if condition.is_constant() else True


def _raised_by(check: Any, condition: object) -> Exception:
    """The exception of a check without a message."""
    try:
        check(condition)
    except Exception as error:  # noqa: BLE001 - of a class that depends on the check and the condition
        return error
    raise AssertionError(check)


for _function in CHECKS:
    handles(_function)(functools.partial(_check, _function))


@handles(torch._assert)
def _assert(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    condition = realise(tracer, arguments[0])
    if isinstance(condition, TensorVariable):
        return tracer.apply(torch._assert_async, arguments)
    if not condition.truth(tracer):
        message = realise(tracer, arguments[1]) if len(arguments) > 1 else ConstantVariable("")
        tracer.raise_exception(AssertionError, message.constant() if message.is_constant() else "")
    return ConstantVariable(None)
