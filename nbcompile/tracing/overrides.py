"""Functions of torch that ask their arguments: ``__torch_function__``.

    torch.add(w, x)      type(w).__torch_function__(torch.add, (W,), (w, x), {})

Asked are the classes of all arguments that override, a subclass before its base
class, else from left to right, until one does not answer NotImplemented.

In torch: torch/_dynamo/variables/torch_function.py (dispatch_torch_function).
Read next: nbcompile/tracing/variables/subclasses.py
"""

from __future__ import annotations

import contextlib
import functools
import operator
import types
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from nbcompile.capture.source import TypeSource
from nbcompile.tracing.functions.registry import handles
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.classes import ClassVariable
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.mappings import DictVariable
from nbcompile.tracing.variables.objects import ObjectVariable
from nbcompile.tracing.variables.sequences import SequenceVariable, TupleVariable
from nbcompile.tracing.variables.subclasses import DEFAULT, SubclassVariable, converted, overrides


def overriding(tracer: Tracer, arguments: Sequence[VariableTracker]) -> Iterator[VariableTracker]:
    """The arguments, also in lists and tuples, whose classes override."""
    for each in arguments:
        tracker = realise(tracer, each)
        if isinstance(tracker, SubclassVariable):
            if overrides(tracker.cls):
                yield tracker
        elif isinstance(tracker, SequenceVariable):
            yield from overriding(tracer, tracker.items)
        elif isinstance(tracker, ObjectVariable) and tracker.has_special("__torch_function__"):
            yield tracker


def dispatch(
    tracer: Tracer,
    function: VariableTracker,
    asked: Sequence[VariableTracker],
    arguments: Arguments,
    keywords: Keywords,
) -> VariableTracker:
    """Ask the classes for the result."""
    owners: list[VariableTracker] = []
    for each in asked:
        if any(each.python_type() is other.python_type() for other in owners):
            continue
        bases = (index for index, other in enumerate(owners) if issubclass(each.python_type(), other.python_type()))
        owners.insert(next(bases, len(owners)), each)
    classes = [_class_of(tracer, each) for each in owners]
    given = [function, TupleVariable(classes), TupleVariable(list(arguments))]
    named = DictVariable(tracer, [(ConstantVariable(name), value) for name, value in keywords.items()])
    for cls in classes:
        method = cls.get_attribute(tracer, "__torch_function__")
        result = realise(tracer, tracer.call(method, [*given, named]))
        if not (result.is_constant() and result.constant() is NotImplemented):
            return result
    names = [each.python_type().__name__ for each in owners]
    tracer.raise_exception(TypeError, f"no implementation found for {function.describe()} on types {names}")


def _class_of(tracer: Tracer, owner: VariableTracker) -> VariableTracker:
    return tracer.wrap(owner.python_type(), None if owner.source is None else TypeSource(owner.source))


@handles(DEFAULT.__func__)
def _default(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    """``torch.Tensor.__torch_function__``: the function itself, its result as one of the class."""
    cls, function, kinds, *rest = (realise(tracer, each) for each in (*arguments, *keywords.values()))
    assert isinstance(cls, ClassVariable)
    for each in kinds.unpack(tracer):
        if not issubclass(cls.value, getattr(realise(tracer, each), "value", object)):
            return ConstantVariable(NotImplemented)
    given = rest[0].unpack(tracer) if rest else []
    named: dict[str, VariableTracker] = {}
    if len(rest) > 1 and isinstance(rest[1], DictVariable):
        named = {str(key.constant()): value for key, value in rest[1].entries.values()}
    with tracer.output.without_overrides():
        result = tracer.call(function, given, named)
    return converted(tracer, result, cls.value)


class _Probe(torch.Tensor):
    """Tells which function an operator is for ``__torch_function__``."""

    seen: Any = None

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.seen = cls.seen or func
        return torch.Tensor()


@functools.cache
def function_of(target: Any, position: int, count: int) -> Any:
    """What ``x + 1`` (position 0 of 2) or ``1 + x`` calls: ``torch.Tensor.add``, ``torch.Tensor.__radd__``..."""
    if getattr(target, "__module__", "") != "_operator" or not isinstance(target, types.BuiltinFunctionType):
        return target
    _Probe.seen = None
    probe = torch.zeros(1).as_subclass(_Probe)
    _Probe.seen = None
    arguments: list[Any] = [1] * count
    arguments[position] = probe
    if target in (operator.getitem, operator.setitem):
        arguments[1:] = [0, 0.0][: count - 1]
    if target in (operator.matmul, operator.imatmul):
        arguments[1 - position] = torch.ones(1)
    with contextlib.suppress(TypeError), torch._C._EnableTorchFunction():
        target(*arguments)
    return _Probe.seen or target


@handles(torch._C._is_torch_function_enabled)
def _is_enabled(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return ConstantVariable(tracer.output.overridable)


@handles(torch.overrides.has_torch_function)
def _has_in(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return _has(tracer, realise(tracer, arguments[0]).unpack(tracer), keywords)


@handles(torch.overrides.has_torch_function_unary, torch.overrides.has_torch_function_variadic)
def _has(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return ConstantVariable(tracer.output.overridable and any(overriding(tracer, arguments)))
