"""Constant folding: calls of pure functions whose arguments are known are computed while tracing.

    math.gcd(12, 8)            4, a constant of the trace
    "{}-{}".format(*[1, 2])    "1-2": containers of constants count, nested ones too
    torch.cuda.is_available()  a constant, which a later process checks again (folds_of_process)
    sys.getrecursionlimit()    a constant, which a guard checks at each call (folds_with_guard)

In torch: can_constant_fold_through of torch/_dynamo/variables/builtin.py and torch.py. Read next: library.py
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from nbcompile.tracing import breaks
from nbcompile.tracing.calls import operations
from nbcompile.tracing.calls.registry import handles
from nbcompile.tracing.graph.process_results import guard_result
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import (
    Arguments,
    Keywords,
    VariableTracker,
    realise,
)
from nbcompile.tracing.variables.known_values import whole


def fold(tracer: Tracer, function: object, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    """A pure function of constants, computed now."""
    return tracer.constant_or_wrap(_computed(tracer, function, arguments, keywords)[2])


def _computed(
    tracer: Tracer, function: object, arguments: Arguments, keywords: Keywords
) -> tuple[list[object], dict[str, object], object]:
    """The constants among a function's arguments, and its result."""
    values = [realise(tracer, each) for each in arguments]
    named = {name: realise(tracer, each) for name, each in keywords.items()}
    known = [whole(tracer, each) for each in (*values, *named.values())]
    plain = [each[0] for each in known if each is not None]
    if len(plain) == len(known):
        keyed = dict(zip(named, plain[len(values) :], strict=True))
        return plain[: len(values)], keyed, tracer.evaluate(function, plain[: len(values)], keyed)
    name = getattr(function, "__name__", str(function))
    types = ", ".join(each.type_name() for each in values)
    raise breaks.unsupported(breaks.BUILTIN_OPERATOR, f"{name}({types})", name=name, types=types)


def folds(*functions: object) -> None:
    """Register pure functions: called with constants, they are computed while tracing."""
    for function in functions:
        handles(function)(functools.partial(_folded, function))


def _folded(function: object, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return fold(tracer, function, arguments, keywords)


def folds_or_traces(function: object, polyfill: Callable[..., object]) -> None:
    """Register a pure function that is computed while tracing if its arguments are known, and traced through a
    polyfill if they are not. (A row of ``add_polyfill`` would do nothing for it: handlers go first.)
    """

    def meaning(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        if all(whole(tracer, each) is not None for each in (*arguments, *keywords.values())):
            return fold(tracer, function, arguments, keywords)
        return tracer.call(tracer.wrap(polyfill, None), arguments, keywords)

    handles(function)(meaning)


def folds_of_process(*functions: object) -> None:
    """Register functions whose result never changes within a process: computed while tracing, and checked again by a
    later process. No guard compares it: a result that can change between two calls needs :func:`folds_with_guard`.
    """
    for function in functions:
        handles(function)(functools.partial(fold_of_process, function))


def fold_of_process(function: object, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    """The meaning that :func:`folds_of_process` gives a function."""
    given, named, answer = _computed(tracer, function, arguments, keywords)
    tracer.assume_constant_result(function, given, named, answer)
    return tracer.constant_or_wrap(answer)


def folds_with_guard(*functions: Callable[[], object]) -> None:
    """Register functions without arguments whose result can change between two calls, but not within a traced function
    (a change breaks the graph): computed while tracing, and compared by a guard at each call.
    """
    for function in functions:
        handles(function)(functools.partial(_guarded, function))


def _guarded(
    function: Callable[[], object], tracer: Tracer, arguments: Arguments, keywords: Keywords
) -> VariableTracker:
    _, _, answer = _computed(tracer, function, arguments, keywords)
    guard_result(tracer, function, answer)
    return tracer.constant_or_wrap(answer)


def folds_as_of_entry(*functions: Callable[[], object]) -> None:
    """Register functions without arguments whose result a traced function can change, too: computed while tracing, and
    a guard compares the result at the entry of the frame.
    """
    for function in functions:
        handles(function)(functools.partial(_guarded_as_of_entry, function))


def _guarded_as_of_entry(
    function: Callable[[], object], tracer: Tracer, arguments: Arguments, keywords: Keywords
) -> VariableTracker:
    _, _, answer = _computed(tracer, function, arguments, keywords)
    guard_result(tracer, function, tracer.output.transform_answers[function])
    return tracer.constant_or_wrap(answer)


@handles(pow)
def _pow(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    # With two arguments it is the operator, whose operands may be tensors or symbols; with three all are integers.
    return (
        operations.binary(tracer, "**", realise(tracer, arguments[0]), realise(tracer, arguments[1]))
        if len(arguments) == 2 and not keywords
        else fold(tracer, pow, arguments, keywords)
    )
