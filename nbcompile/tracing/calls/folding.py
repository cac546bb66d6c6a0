"""Constant folding: calls of pure functions whose arguments are known are computed while tracing.

    math.gcd(12, 8)            4, a constant of the trace
    "{}-{}".format(*[1, 2])    "1-2": containers of constants count, nested ones too
    torch.cuda.is_available()  a constant, which a later process asks for again (folds_of_process)
    sys.getrecursionlimit()    a constant, which each later call asks for again (folds_with_guard)

In torch: can_constant_fold_through of torch/_dynamo/variables/builtin.py and torch.py. Read next: library.py
"""

from __future__ import annotations

import collections
import functools
from collections.abc import Callable, Mapping
from typing import Any

from nbcompile.capture.guard import GuardKind
from nbcompile.capture.source import AttrSource, ModuleSource, NoArgsCallSource
from nbcompile.tracing import breaks
from nbcompile.tracing.calls import operations
from nbcompile.tracing.calls.registry import handles
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import (
    Arguments,
    Keywords,
    VariableTracker,
    realise,
)
from nbcompile.tracing.variables.deques import DequeVariable
from nbcompile.tracing.variables.mappings import DictVariable, DictViewVariable, SetVariable
from nbcompile.tracing.variables.sequences import ListVariable, TupleVariable


def whole(tracer: Tracer, value: VariableTracker) -> tuple[object] | None:
    """The real value of a container of constants (also nested ones), in a tuple; None if something is not known."""
    value = realise(tracer, value)
    if value.is_constant():
        return (value.constant(),)
    for kind, copied in _CONTAINERS.items():
        if isinstance(value, kind):
            return copied(tracer, value)
    return None


def _whole_sequence(tracer: Tracer, value: ListVariable | TupleVariable) -> tuple[object] | None:
    if isinstance(value, ListVariable) and value.cls is not list:
        return None
    parts = [whole(tracer, item) for item in value.unpack(tracer)]
    items = [part[0] for part in parts if part is not None]
    copy = value.cls(*items) if hasattr(value.cls, "_fields") else value.cls(items)
    return (copy,) if len(items) == len(parts) else None


def _whole_deque(tracer: Tracer, value: DequeVariable) -> tuple[object] | None:
    listed: Any = whole(tracer, ListVariable(value.items))
    return None if listed is None else (collections.deque(listed[0], value.maxlen),)


def _whole_dict(tracer: Tracer, value: DictVariable) -> tuple[object] | None:
    if value.cls not in (dict, collections.OrderedDict):
        return None
    pairs = [(key, whole(tracer, value.get_item(tracer, key))) for key in value.keys(tracer)]
    known = {key.constant(): part[0] for key, part in pairs if part is not None and key.is_constant()}
    return (value.cls(known),) if len(known) == len(pairs) else None


def _whole_view(tracer: Tracer, value: DictViewVariable) -> tuple[object] | None:
    owner = whole(tracer, value.owner)
    return None if owner is None else (getattr(owner[0], value.which)(),)


def _whole_set(tracer: Tracer, value: SetVariable) -> tuple[object] | None:
    items = value.unpack(tracer)
    if value.cls is not set or not all(item.is_constant() for item in items):
        return None
    return ({item.constant() for item in items},)


_CONTAINERS: Mapping[Any, Callable[[Tracer, Any], tuple[object] | None]] = {
    DequeVariable: _whole_deque,  # before lists: a deque is one of them
    ListVariable: _whole_sequence,
    TupleVariable: _whole_sequence,
    DictVariable: _whole_dict,
    DictViewVariable: _whole_view,
    SetVariable: _whole_set,
}
"""Containers by the tracker, and how a real copy is made; the first that matches."""


def fold(tracer: Tracer, function: object, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    """A pure function of constants, computed now."""
    return tracer.constant_or_wrap(_computed(tracer, function, arguments, keywords)[2])


def _computed(
    tracer: Tracer, function: object, arguments: Arguments, keywords: Keywords
) -> tuple[list[object], dict[str, object], object]:
    """The constants that a function is given, and what it returns."""
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
    """Register functions whose answer stays the same while the process lives: computed while tracing, and asked again
    by a later process. No guard compares it: what can change between two calls needs :func:`folds_with_guard`.
    """
    for function in functions:
        handles(function)(functools.partial(_answered, function))


def _answered(function: object, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    given, named, answer = _computed(tracer, function, arguments, keywords)
    tracer.assume_answer(function, given, named, answer)
    return tracer.constant_or_wrap(answer)


def folds_with_guard(*functions: Callable[[], object]) -> None:
    """Register functions without arguments whose answer can change between two calls, but not within a traced function
    (what changes it breaks the graph): computed while tracing, and compared by a guard at each call.
    """
    for function in functions:
        handles(function)(functools.partial(_guarded, function))


def _guarded(
    function: Callable[[], object], tracer: Tracer, arguments: Arguments, keywords: Keywords
) -> VariableTracker:
    _, _, answer = _computed(tracer, function, arguments, keywords)
    address = NoArgsCallSource(AttrSource(ModuleSource(function.__module__), function.__name__))
    kind = GuardKind.BOOL_MATCH if isinstance(answer, bool) else GuardKind.EQUALS_MATCH
    tracer.guard(address, kind, answer)
    return tracer.constant_or_wrap(answer)


@handles(pow)
def _pow(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return (
        operations.binary(tracer, "**", realise(tracer, arguments[0]), realise(tracer, arguments[1]))
        if len(arguments) == 2 and not keywords
        else fold(tracer, pow, arguments, keywords)
    )
