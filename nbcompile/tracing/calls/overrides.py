"""Overrides of torch's functions by modes and classes of arguments: ``__torch_function__``.

    torch.add(w, x)      mode.__torch_function__(torch.add, (W,), (w, x)), the innermost mode
                         type(w).__torch_function__(torch.add, (W,), (w, x))

The innermost mode is called, then the classes of all arguments with an override, a
subclass before its base class, else from left to right, until one does not
return NotImplemented.

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
from torch.utils._device import DeviceContext

from nbcompile import torch_internals
from nbcompile.capture.source import TypeSource
from nbcompile.tracing.calls.registry import handles, handles_named
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.classes import ClassVariable
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.function_modes import pop, push
from nbcompile.tracing.variables.mappings import DictVariable
from nbcompile.tracing.variables.objects import ObjectVariable
from nbcompile.tracing.variables.sequences import SequenceVariable, TupleVariable
from nbcompile.tracing.variables.subclasses import DEFAULT, SubclassVariable, converted, overrides
from nbcompile.tracing.variables.tensor import TensorVariable

SILENT = frozenset(
    (getattr, torch._C._log_api_usage_once, torch._check, torch._assert_async, torch.ops.aten.alias.default)
)
"""Targets of nodes that call no function with an override."""


def call_override(tracer: Tracer, function: object, arguments: Arguments, keywords: Keywords) -> VariableTracker | None:
    """Result of a function that a mode or the classes of the arguments override; None without an override."""
    state = tracer.overrides
    owners = list(overriding(tracer, (*arguments, *keywords.values()))) if state.classes_enabled else []
    if not owners and not state.in_mode():
        return None
    return _dispatch(tracer, tracer.wrap(function, None), owners, arguments, keywords)


def override_of_node(
    tracer: Tracer, op: str, target: Any, arguments: Arguments, keywords: Keywords
) -> VariableTracker | None:
    """Result of a call that would become a node, by the override of a mode or of the arguments' classes; or None."""
    state = tracer.overrides
    owners = list(overriding(tracer, (*arguments, *keywords.values()))) if state.classes_enabled else []
    if not owners and not state.in_mode():
        return None
    if op == "call_method":
        function = getattr(torch.Tensor, target)
    elif target in SILENT:
        return None
    else:
        # ``x - 1`` as a node has the target ``operator.sub``; ``__torch_function__`` is called with
        # ``torch.Tensor.sub``, and for ``1 - x`` with ``__rsub__`` and swapped operands, depending on the position of
        # the overriding operand.
        tensors = tuple(isinstance(realise(tracer, each), TensorVariable) for each in arguments)
        takes = tensors
        if owners:
            takes = tuple(realise(tracer, each) is owners[0] for each in arguments)
        elif getattr(target, "__module__", "") == "_operator" and not any(takes):
            return None  # numbers
        function, swapped = function_of(target, takes.index(True) if True in takes else 0, tensors)
        arguments = arguments[::-1] if swapped else arguments
    return _dispatch(tracer, tracer.wrap(function, None), owners, arguments, keywords)


def overriding(tracer: Tracer, arguments: Sequence[VariableTracker]) -> Iterator[VariableTracker]:
    """The arguments, also in lists and tuples, whose classes override."""
    for argument in arguments:
        tracker = realise(tracer, argument)
        if isinstance(tracker, SubclassVariable):
            if overrides(tracker.cls):
                yield tracker
        elif isinstance(tracker, SequenceVariable):
            yield from overriding(tracer, tracker.items)
        elif isinstance(tracker, ObjectVariable) and tracker.has_special(tracer, "__torch_function__"):
            yield tracker


def _dispatch(
    tracer: Tracer,
    function: VariableTracker,
    overriding_arguments: Sequence[VariableTracker],
    arguments: Arguments,
    keywords: Keywords,
) -> VariableTracker:
    """Call the override of the innermost mode, then those of the classes."""
    owners: list[VariableTracker] = []
    # Python's order for operands: as written, but a subclass before the class that it derives from; a class once.
    for owner in overriding_arguments:
        if any(owner.python_type() is other.python_type() for other in owners):
            continue
        bases = (index for index, other in enumerate(owners) if issubclass(owner.python_type(), other.python_type()))
        # Insert before the first base class that is already listed.
        owners.insert(next(bases, len(owners)), owner)
    classes = [_class_of(tracer, each) for each in owners]
    given: list[VariableTracker] = [function, TupleVariable(classes), TupleVariable(list(arguments))]
    if keywords:
        given.append(DictVariable(tracer, [(ConstantVariable(name), value) for name, value in keywords.items()]))
    state = tracer.overrides
    if state.in_mode():
        # A mode is disabled during its override: functions of torch that it calls must not call it again.
        with state.below_mode() as mode:
            returned = _call_one(tracer, realise(tracer, mode), given)
        if returned is not None:
            return returned
    for cls in classes:
        returned = _call_one(tracer, cls, given)
        if returned is not None:
            return returned
    names = [each.python_type().__name__ for each in owners]
    tracer.raise_exception(TypeError, f"no implementation found for {function.describe()} on types {names}")


def _call_one(tracer: Tracer, owner: VariableTracker, given: list[VariableTracker]) -> VariableTracker | None:
    """Result of one override; None if it returns NotImplemented."""
    method = owner.get_attribute(tracer, "__torch_function__")
    result = realise(tracer, tracer.call(method, given))
    return None if result.is_constant() and result.constant() is NotImplemented else result


def _class_of(tracer: Tracer, owner: VariableTracker) -> VariableTracker:
    return tracer.wrap(owner.python_type(), None if owner.source is None else TypeSource(owner.source))


@handles(DEFAULT.__func__)
def _default(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    """``torch.Tensor.__torch_function__``: the function itself, its result as one of the class."""
    cls, function, kinds, *rest = (realise(tracer, each) for each in (*arguments, *keywords.values()))
    assert isinstance(cls, ClassVariable)
    for kind in kinds.unpack(tracer):
        # A class that is no base of this one may handle its tensors differently: its override runs next.
        if not issubclass(cls.value, getattr(realise(tracer, kind), "value", object)):
            return ConstantVariable(NotImplemented)
    given = rest[0].unpack(tracer) if rest else []
    named = _keywords(tracer, rest[1]) if len(rest) > 1 else {}
    # The default implementation calls the function as if no class overrode anything, and converts the result.
    with tracer.overrides.without_classes():
        result = tracer.call(function, given, named)
    return converted(tracer, result, cls.value)


def _keywords(tracer: Tracer, given: VariableTracker) -> dict[str, VariableTracker]:
    """Keywords that are passed as a dict, or None."""
    return (
        {str(key.constant()): value for key, value in given.entries.values()} if isinstance(given, DictVariable) else {}
    )


class _Probe:
    """Mode that records an operator's function for ``__torch_function__``, and whether its operands are swapped."""

    seen: Any = None

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        _Probe.seen = _Probe.seen or (func, args)
        return torch.Tensor()


class _TensorProbe(_Probe, torch.Tensor):
    """A probe that is a tensor."""


@functools.cache
def function_of(target: Any, position: int, tensors: tuple[bool, ...]) -> tuple[Any, bool]:
    """Function that ``x - 1`` (position 0 of 2) or ``1 - x`` calls, and True if its operands are swapped.

    ``tensors``: which of the operands are tensors. In ``y - x`` the method of ``y`` is called first, unlike ``1 - x``,
    and a subclass of tensors comes before its base class.
    """
    if getattr(target, "__module__", "") != "_operator" or not isinstance(target, types.BuiltinFunctionType):
        return target, False
    # Torch's rules are observed instead of listed: the operator runs on a probe, which records the function.
    _Probe.seen = None
    probe = torch.zeros(1).as_subclass(_TensorProbe) if tensors[position] else _Probe()
    _Probe.seen = None  # the creation of the probe may have been recorded
    arguments: list[Any] = [torch.ones(1) if each else 1 for each in tensors]
    arguments[position] = probe
    if target in (operator.getitem, operator.setitem):
        # An index that no tensor of one element rejects.
        arguments[1:] = [0, 0.0][: len(tensors) - 1]
    if target in (operator.matmul, operator.imatmul):
        # A matrix product accepts no number: it raises before any override is called.
        arguments[1 - position] = torch.ones(1)
    contexts = (torch_internals.without_function_modes(), torch._C._EnableTorchFunction())
    with contextlib.suppress(TypeError), contexts[0], contexts[1]:
        target(*arguments)
    if _Probe.seen is None:
        return target, False
    function, given = _Probe.seen
    return function, position == 1 and given[0] is probe


@handles(torch.overrides.handle_torch_function)
def _handle(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    """Call of a function of torch written in Python that handles overrides itself: they are called before its body is
    traced.
    """
    function, relevant, *given = arguments
    owners = list(overriding(tracer, realise(tracer, relevant).unpack(tracer)))
    return _dispatch(tracer, function, owners, given, keywords)


@handles(torch._C._is_torch_function_enabled)
def _is_enabled(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    state = tracer.overrides
    return ConstantVariable(state.classes_enabled and state.modes_enabled)


@handles(torch._C._is_torch_function_mode_enabled)
def _is_mode_enabled(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return ConstantVariable(tracer.overrides.in_mode())


@handles(torch.overrides.has_torch_function)
def _has_in(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return _has(tracer, realise(tracer, arguments[0]).unpack(tracer), keywords)


@handles(torch.overrides.has_torch_function_unary, torch.overrides.has_torch_function_variadic)
def _has(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    state = tracer.overrides
    return ConstantVariable(state.in_mode() or (state.classes_enabled and any(overriding(tracer, arguments))))


# -- the stack of modes ------------------------------------------------------------------------


@handles(torch._C._push_on_torch_function_stack)
def _push(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    push(tracer, arguments[0])
    return ConstantVariable(None)


@handles(torch._C._pop_torch_function_stack)
def _pop(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return pop(tracer)


@handles(torch._C._len_torch_function_stack)
def _depth(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    return ConstantVariable(len(tracer.overrides.modes))


@handles(torch._C._get_function_stack_at)
def _mode_at(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    position = realise(tracer, arguments[0]).constant()
    assert isinstance(position, int)
    return tracer.overrides.modes[position]


@handles_named(DeviceContext.__module__, "DeviceContext.__torch_function__")
def _with_device(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    """``with torch.device(...)``: factory functions create tensors there, unless another device is passed."""
    mode, function, _, *given = (realise(tracer, each) for each in arguments)
    named = _keywords(tracer, given[1]) if len(given) > 1 else {}
    device = realise(tracer, named.get("device", ConstantVariable(None)))
    makes = getattr(function, "value", None) in torch_internals.device_constructors()
    if makes and device.is_constant() and device.constant() is None:
        named["device"] = mode.get_attribute(tracer, "device")
    return tracer.call(function, given[0].unpack(tracer), named)
