"""Python's operators on trackers: arithmetic, comparison, identity, truth.

    left + right     both constants: computed now; a tensor among them: a node;
                     two lists: a new list; an object: its __add__ / __radd__

In torch: torch/_dynamo/variables/builtin.py (binop handlers). Read next:
nbcompile/tracing/frame/handlers/operators.py
"""

from __future__ import annotations

import collections
import functools
import operator
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from nbcompile.capture import arrays
from nbcompile.capture.guard import GuardKind
from nbcompile.capture.source import Source
from nbcompile.tracing import breaks
from nbcompile.tracing.calls import deque_copies, dict_union, numbers
from nbcompile.tracing.calls.built_in_answers import takes
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables import ndarray
from nbcompile.tracing.variables.base import UnknownVariable, UntracedMethodVariable, VariableTracker, realise
from nbcompile.tracing.variables.classes import ClassVariable
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.containers import ContainerVariable
from nbcompile.tracing.variables.deques import DequeVariable
from nbcompile.tracing.variables.functions import KnownCallable, MethodVariable
from nbcompile.tracing.variables.identity import IdVariable
from nbcompile.tracing.variables.instance_dict import InstanceDictVariable
from nbcompile.tracing.variables.known_values import whole
from nbcompile.tracing.variables.mapping_proxy import MappingProxyVariable
from nbcompile.tracing.variables.mappings import DictVariable, DictViewVariable, SetVariable, items_for_set, set_made_of
from nbcompile.tracing.variables.ndarray import NdarrayVariable
from nbcompile.tracing.variables.objects import ObjectVariable, built_in_part
from nbcompile.tracing.variables.observed import ObservedException
from nbcompile.tracing.variables.plain_values import compared
from nbcompile.tracing.variables.sequences import ListVariable, SequenceVariable, TupleVariable
from nbcompile.tracing.variables.slices import SliceVariable, index_of
from nbcompile.tracing.variables.strings import TextVariable
from nbcompile.tracing.variables.tensor import SymbolicVariable, TensorVariable
from nbcompile.tracing.variables.type_forms import TypeFormVariable


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator: what computes it, and the special methods behind it."""

    function: Callable[..., object]
    method: str
    reflected: str
    in_place: Callable[..., object] | None = None
    in_place_method: str = ""


def _arithmetic(name: str, function: Callable[..., object]) -> Operator:
    in_place = getattr(operator, f"i{name}")
    return Operator(function, f"__{name}__", f"__r{name}__", in_place, f"__i{name}__")


BINARY: dict[str, Operator] = {
    "+": _arithmetic("add", operator.add),
    "-": _arithmetic("sub", operator.sub),
    "*": _arithmetic("mul", operator.mul),
    "/": _arithmetic("truediv", operator.truediv),
    "//": _arithmetic("floordiv", operator.floordiv),
    "%": _arithmetic("mod", operator.mod),
    "**": _arithmetic("pow", operator.pow),
    "@": _arithmetic("matmul", operator.matmul),
    "<<": _arithmetic("lshift", operator.lshift),
    ">>": _arithmetic("rshift", operator.rshift),
    "&": Operator(operator.and_, "__and__", "__rand__", operator.iand, "__iand__"),
    "|": Operator(operator.or_, "__or__", "__ror__", operator.ior, "__ior__"),
    "^": Operator(operator.xor, "__xor__", "__rxor__", operator.ixor, "__ixor__"),
}
COMPARISONS: dict[str, Operator] = {
    "<": Operator(operator.lt, "__lt__", "__gt__"),
    "<=": Operator(operator.le, "__le__", "__ge__"),
    ">": Operator(operator.gt, "__gt__", "__lt__"),
    ">=": Operator(operator.ge, "__ge__", "__le__"),
    "==": Operator(operator.eq, "__eq__", "__eq__"),
    "!=": Operator(operator.ne, "__ne__", "__ne__"),
}
_MIRRORED = {
    operator.lt: operator.gt, operator.le: operator.ge, operator.gt: operator.lt, operator.ge: operator.le,
    operator.eq: operator.eq, operator.ne: operator.ne,
}  # fmt: skip
UNARY: dict[str, tuple[Callable[..., object], str]] = {
    "-": (operator.neg, "__neg__"),
    "+": (operator.pos, "__pos__"),
    "~": (operator.invert, "__invert__"),
}
TYPES = (ClassVariable, TypeFormVariable, ConstantVariable)
WHOLE = (ConstantVariable, ObjectVariable, SequenceVariable, DictVariable, SetVariable, SliceVariable)
"""Values whose operators are all known here: what none of them takes, Python refuses as well."""
GRAPH_VALUES = (TensorVariable, SymbolicVariable, NdarrayVariable)
WITH_METHODS = (ObjectVariable, TupleVariable)
"""Trackers whose value may be of a class of the program, which defines its operators."""


Written = tuple[str, VariableTracker, VariableTracker]
"""An operator and its operands as the program wrote them, which errors name."""


def binary(
    tracer: Tracer,
    symbol: str,
    left: VariableTracker,
    right: VariableTracker,
    in_place: bool = False,
    written: Written | None = None,
) -> VariableTracker:
    """``left symbol right`` or ``left symbol= right``; ``written``: how the program wrote it, where that differs."""
    left, right = _united(tracer, symbol, left, right, in_place)
    rule = BINARY[symbol]
    # The order follows Python: constants, then ``__iadd__``, then the operands' own methods, then built-in values.
    if left.is_constant() and right.is_constant() and not isinstance(left, SequenceVariable):
        function = rule.in_place if in_place and rule.in_place is not None else rule.function  # the error names it
        return tracer.constant_or_wrap(_evaluated(tracer, function, left, right, written))
    written = written or (f"{symbol}=" if in_place else symbol, left, right)
    if in_place and rule.in_place is not None:  # the object itself changes
        # None: there is no `__iadd__`, or it gave NotImplemented; then `x += y` is `x = x + y`.
        changed = _in_place(tracer, symbol, rule, left, right)
        if changed is not None:
            return changed
    if (
        found := _by_method(tracer, rule, left, right, functools.partial(binary, tracer, symbol, written=written))
    ) is not None:
        return found
    if isinstance(left, ConstantVariable) and isinstance(left.value, (str, bytes)) and symbol == "%":
        return _text(tracer, left, right)
    return _binary_of_values(tracer, symbol, left, right, written)


def _binary_of_values(
    tracer: Tracer, symbol: str, left: VariableTracker, right: VariableTracker, written: Written
) -> VariableTracker:
    """An operation that no method of the operands answered: on tensors, containers and types."""
    # A tensor beside anything else that has not answered yet: the operator becomes a node, and torch itself refuses.
    if isinstance(left, GRAPH_VALUES) or isinstance(right, GRAPH_VALUES):
        result = _in_graph(tracer, BINARY[symbol].function, left, right)
        repeated = next((part for part in (left, right) if isinstance(part, SequenceVariable)), None)
        # To the graph a deque is a list, and a size a tuple.
        return repeated.like(result.items) if repeated and isinstance(result, SequenceVariable) else result
    combined = _containers(tracer, symbol, left, right, written)
    if combined is not None:
        return combined
    if symbol == "|" and isinstance(left, TYPES) and isinstance(right, TYPES):
        return tracer.wrap(tracer.evaluate(operator.or_, (left.value, right.value)), None)
    return _unsupported(tracer, *written)


def _evaluated(
    tracer: Tracer,
    function: Callable[..., object],
    left: VariableTracker,
    right: VariableTracker,
    written: Written | None,
) -> Any:
    """Python's answer for two constants; its TypeError names the operands that the program wrote."""
    try:
        return tracer.evaluate(function, (left.constant(), right.constant()))
    except ObservedException as error:
        formats = written is not None and written[0] in ("%", "%=")  # whose errors are about the template
        if written is None or formats or error.value.python_type() is not TypeError:
            raise
        return _unsupported(tracer, *written)


def _is_answered(symbol: str, left: VariableTracker, right: VariableTracker) -> bool:
    """True if a built-in class in C, which an operand's class derives from, has an answer that no tracker gives."""
    if not isinstance(left, ObjectVariable) and not isinstance(right, ObjectVariable):
        return False
    rule = COMPARISONS.get(symbol) or BINARY[symbol.removesuffix("=")]
    return takes(left, rule.method, right) or takes(right, rule.reflected, left)


def _unsupported(tracer: Tracer, symbol: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
    # Trackers of WHOLE implement all operators of their values, so what is left over is Python's TypeError. For others
    # the compiler may be at fault, and Python runs the operator.
    if isinstance(left, WHOLE) and isinstance(right, WHOLE) and not _is_answered(symbol, left, right):
        names = f"'{left.error_name()}' and '{right.error_name()}'"
        _refuse_sequences(tracer, symbol, left, right)
        if symbol in COMPARISONS:
            tracer.raise_exception(TypeError, f"'{symbol}' not supported between instances of {names}")
        shown = {"**": "** or pow()", "**=": "**="}.get(symbol, symbol)
        tracer.raise_exception(TypeError, f"unsupported operand type(s) for {shown}: {names}")
    types = f"{left.type_name()}, {right.type_name()}"
    raise breaks.unsupported(
        breaks.UNSUPPORTED_OPERATOR, f"{left.describe()} {symbol} {right.describe()}", symbol=symbol, types=types
    )


_REPEATED = (str, bytes, list, tuple, collections.deque)


def _refuse_sequences(tracer: Tracer, symbol: str, left: VariableTracker, right: VariableTracker) -> None:
    """Raise the TypeErrors of ``+`` and ``*`` of sequences, which Python asks last."""
    kinds = left.python_type(), right.python_type()
    own = next((kind for kind in _REPEATED if issubclass(kinds[0], kind)), None)
    if symbol in ("+", "+=") and own is not None:
        name = own.__name__
        other = right.error_name()
        message = (
            f"can't concat {other} to bytes"
            if own is bytes
            else f'can only concatenate {name} (not "{other}") to {name}'
        )
        tracer.raise_exception(TypeError, message)
    if symbol not in ("*", "*="):
        return
    if own is not None:
        tracer.raise_exception(TypeError, f"can't multiply sequence by non-int of type '{right.error_name()}'")
    # In place, the right operand is not asked where the left one's class has any method of a sequence.
    asked = symbol == "*" or not (isinstance(left, ObjectVariable) or hasattr(kinds[0], "__len__"))
    if asked and issubclass(kinds[1], _REPEATED):
        tracer.raise_exception(TypeError, f"can't multiply sequence by non-int of type '{left.error_name()}'")


def _text(tracer: Tracer, template: ConstantVariable, right: VariableTracker) -> VariableTracker:
    """``"%d of %s" % values``, where all of them are known (symbolic numbers are specialised)."""
    if isinstance(right, TupleVariable):
        right = TupleVariable([_specialised(value) for value in right.unpack(tracer)])
    known = whole(tracer, _specialised(right))
    if known is None:  # what ``str`` or a format makes of a value that is not known, Python finds out
        raise breaks.unsupported(
            breaks.UNSUPPORTED_OPERATOR,
            f"{template.describe()} % {right.describe()}",
            symbol="%",
            types=f"{template.type_name()}, {right.type_name()}",
        )
    return ConstantVariable(tracer.evaluate(operator.mod, (template.value, known[0])))


def _specialised(value: VariableTracker) -> VariableTracker:
    return ConstantVariable(value.specialise()) if isinstance(value, SymbolicVariable) else value


def _by_method(
    tracer: Tracer,
    rule: Operator,
    left: VariableTracker,
    right: VariableTracker,
    operate: Callable[[VariableTracker, VariableTracker], VariableTracker],
) -> VariableTracker | None:
    """Call special methods of the operands' classes; if none answers, the operator on the built-in values inside."""
    if not isinstance(left, WITH_METHODS) and not isinstance(right, WITH_METHODS):
        return None
    found = _special(tracer, rule, left, right)
    if found is not None:
        return found
    if rule.method == "__or__" and all(isinstance(built_in_part(part), DictVariable) for part in (left, right)):
        return dict_union.union(tracer, left, right)
    if (copied := deque_copies.operate(tracer, rule.method, left, right)) is not None:
        return copied
    parts = built_in_part(left), built_in_part(right)
    return None if parts == (left, right) else operate(*parts)


def _in_graph(
    tracer: Tracer, function: Callable[..., object], left: VariableTracker, right: VariableTracker
) -> VariableTracker:
    operands = (_as_number(left, right), _as_number(right, left))
    of_numbers = all(isinstance(each, (SymbolicVariable, ConstantVariable)) for each in operands)
    # A graph computes other results than Python for some numbers (calls/numbers.py): these become constants.
    if of_numbers and not numbers.is_as_in_python(tracer, function, *operands):
        known = [each.specialise() if isinstance(each, SymbolicVariable) else each.constant() for each in operands]
        return ConstantVariable(tracer.evaluate(function, known))
    if ndarray.has_array(operands) and not any(isinstance(each, TensorVariable) for each in operands):
        return ndarray.operate(tracer, function, operands)
    return tracer.apply(function, operands)


def _as_number(value: VariableTracker, other: VariableTracker) -> VariableTracker:
    """True is 1 beside a symbolic number (sympy's truth values are no numbers)."""
    if isinstance(other, SymbolicVariable) and value.is_constant() and isinstance(value.constant(), bool):
        return ConstantVariable(int(value.constant()))  # type: ignore[call-overload]
    return value


def _special(tracer: Tracer, rule: Operator, left: VariableTracker, right: VariableTracker) -> VariableTracker | None:
    """The special methods of user classes, the subclass's reflected one first."""
    # Python asks the left operand first, unless the right one's class derives from the left one's and has a reflected
    # method of its own: then that comes first. A comparison asks the derived class first in any case.
    attempts = [(left, rule.method, right), (right, rule.reflected, left)]
    kinds = left.python_type(), right.python_type()
    if kinds[0] is not kinds[1] and issubclass(kinds[1], kinds[0]) and _overrides(kinds[1], kinds[0], rule):
        attempts.reverse()
    for owner, name, other in attempts:
        if _has_method(tracer, owner, name):
            result = realise(tracer, tracer.call_special(owner, name, [other]))  # NotImplemented passes the question on
            if not (result.is_constant() and result.constant() is NotImplemented):
                return result
        elif takes(owner, name, other):
            return None
    return None


def _overrides(derived: type, base: type, rule: Operator) -> bool:
    return rule in COMPARISONS.values() or getattr(derived, rule.reflected, None) is not getattr(
        base, rule.reflected, None
    )


def _has_method(tracer: Tracer, owner: VariableTracker, name: str) -> bool:
    """True if the program says what an operator does: in a class of its own, named tuples included."""
    if isinstance(owner, ObjectVariable):
        return owner.has_special(tracer, name) and not owner.is_built_in(name)
    return isinstance(owner, TupleVariable) and isinstance(getattr(owner.cls, name, None), types.FunctionType)


def _in_place(
    tracer: Tracer, symbol: str, rule: Operator, left: VariableTracker, right: VariableTracker
) -> VariableTracker | None:
    found = _before_a_sequence(tracer, symbol, rule, left, right)
    return _changed(tracer, symbol, rule, left, right) if found is None else found


def _changed(
    tracer: Tracer, symbol: str, rule: Operator, left: VariableTracker, right: VariableTracker
) -> VariableTracker | None:
    match left, symbol:
        case TensorVariable() | NdarrayVariable(), _:
            assert rule.in_place is not None
            return _in_graph(tracer, rule.in_place, left, right) if _may_change(tracer, left, rule, right) else None
        case ListVariable(), "*":
            left.repeat(tracer, index_of(tracer, right, functools.partial(operator.imul, [])))
            return left
        case ListVariable(), "+":
            method = "extend"
        case DictVariable(), "|":
            method = "update"
        # Only another set: of a view of a dict Python makes a new set, and of a list nothing (its methods take both).
        case SetVariable(), "|" | "&" | "-" | "^" if issubclass(left.cls, set) and _is_any_set(right):
            method, right = _SET_UPDATES[symbol], built_in_part(right)
        case ObjectVariable(base_items=DictVariable(cls=collections.OrderedDict)), "|" if left.is_built_in("__ior__"):
            return realise(tracer, left.call_method(tracer, "__ior__", [right], {}))
        case ObjectVariable(base_items=ContainerVariable() as items), _ if left.is_built_in(rule.in_place_method):
            return left if _changed(tracer, symbol, rule, items, right) is items else None
        case ObjectVariable(), _ if left.has_special(tracer, rule.in_place_method):
            # Also where it is the built-in part's own: the object changes, and stays what it is.
            result = realise(tracer, tracer.call_special(left, rule.in_place_method, [right]))
            return None if result.is_constant() and result.constant() is NotImplemented else result
        case _:
            return None
    left.call_method(tracer, method, [right], {})
    return left


def _before_a_sequence(
    tracer: Tracer, symbol: str, rule: Operator, left: VariableTracker, right: VariableTracker
) -> VariableTracker | None:
    """Result of the program's own ``+`` or ``*``, which Python asks before a list or deque changes in place."""
    if symbol not in ("+", "*") or not isinstance(built_in_part(left), ListVariable):
        return None
    if isinstance(left, ObjectVariable):
        # A class that is made in Python has its base's ``+=``, but not its ``*=``, among the operators of numbers.
        if symbol == "+" or not left.is_built_in(rule.in_place_method):
            return None
        # With a method for one side it has those of both, where the base's own answers for the other.
        if left.is_built_in(rule.method) and _has_method(tracer, left, rule.reflected):
            return binary(tracer, symbol, left, ConstantVariable(index_of(tracer, right)))
    return (
        _special(tracer, rule, left, right)
        if isinstance(left, ObjectVariable) or isinstance(right, WITH_METHODS)
        else None
    )


_SET_UPDATES = {"|": "update", "&": "intersection_update", "-": "difference_update", "^": "symmetric_difference_update"}


def _may_change(tracer: Tracer, left: TensorVariable | NdarrayVariable, rule: Operator, right: VariableTracker) -> bool:
    """Return whether the tensor's own in-place method accepts this operand, or a ``__torch_function__`` decides."""
    if not isinstance(left, TensorVariable) or not isinstance(right, WITH_METHODS):
        return True
    return _has_torch_function(tracer, right) or takes(left, rule.in_place_method, right)


def _has_torch_function(tracer: Tracer, value: VariableTracker) -> bool:
    """True if its class has a ``__torch_function__``, which operators of tensors ask."""
    return isinstance(value, ObjectVariable) and value.has_special(tracer, "__torch_function__")


def _repeats(value: VariableTracker) -> bool:
    """True for a sequence that ``*`` repeats: a str or bytes, or one that the program made."""
    if isinstance(value, ConstantVariable):
        return isinstance(value.value, (str, bytes))
    return isinstance(value, SequenceVariable)


def _is_any_set(value: VariableTracker) -> bool:
    return isinstance(built_in_part(value), SetVariable)


def _containers(
    tracer: Tracer, symbol: str, left: VariableTracker, right: VariableTracker, written: Written
) -> VariableTracker | None:
    left, right = built_in_part(left), built_in_part(right)
    match symbol, left, right:
        # One operand empty: CPython returns the other tuple itself, and ``is`` can see that.
        case "+", SequenceVariable(), SequenceVariable() if _same_kind(left, right):
            if left.cls is right.cls is tuple and not (left.items and right.items):
                return left if left.items else right
            # A tuple of any class and a size make a size, whichever comes first.
            kind = right if right.cls is torch.Size else left
            return kind.like([*left.items, *right.items])
        case "+", SequenceVariable(), _:
            _refuse_sequences(tracer, *written)
        case "*", SequenceVariable(), ConstantVariable() if not hasattr(right.value, "__index__"):
            _refuse_sequences(tracer, *written)
        case "*", SequenceVariable(), ConstantVariable() | SymbolicVariable():
            return left.like(left.items * _times(tracer, right))
        case "*", ConstantVariable() | SymbolicVariable(), SequenceVariable():
            return right.like(right.items * _times(tracer, left))
        case "*", _, ObjectVariable() if _repeats(left):
            return binary(tracer, symbol, left, ConstantVariable(index_of(tracer, right)))
        case "*", ObjectVariable(), _ if _repeats(right):
            return binary(tracer, symbol, ConstantVariable(index_of(tracer, left)), right)
        case "|", DictVariable(), DictVariable():
            return dict_union.union(tracer, left, right)
    names = {"|": "union", "&": "intersection", "-": "difference", "^": "symmetric_difference"}
    if symbol not in names or not isinstance(left, (SetVariable, DictViewVariable)):
        return None
    if isinstance(left, DictViewVariable) or isinstance(right, DictViewVariable):
        return _with_view(tracer, symbol, left, right)
    return left.combine(tracer, names[symbol], [right]) if isinstance(right, SetVariable) else None


def _with_view(
    tracer: Tracer, symbol: str, left: SetVariable | DictViewVariable, right: VariableTracker
) -> VariableTracker:
    """``&`` and its like where one side is a view of a dict's keys or items: a new set, whatever the other side is."""
    if symbol != "&":
        given: VariableTracker = left
        if isinstance(left, DictViewVariable) and left.which == "keys" and left.owner.cls is dict:
            given = left.owner  # CPython makes the set from the dict, with room for as many
        result = set_made_of(tracer, set, given)
        updates = {"|": "update", "-": "difference_update", "^": "symmetric_difference_update"}
        result.call_method(tracer, updates[symbol], [right], {})
        return result
    # Of equal items those are kept that CPython meets: it goes through one side and asks the other.
    # It iterates over the view only where the other side is a larger set or view, and items may be equal and yet
    # differ: 1 and True.
    view, other = (left, right) if isinstance(left, DictViewVariable) else (right, left)
    mine, theirs = (SetVariable(tracer, side.unpack(tracer)).members for side in (view, other))
    through_view = len(mine) <= len(theirs) if _is_set(other) else _is_view(other) and len(mine) < len(theirs)
    met, asked = (mine, theirs) if through_view else (theirs, mine)
    return SetVariable(tracer, [item for key, item in met.items() if key in asked])


def _is_set(value: VariableTracker) -> bool:
    return isinstance(value, SetVariable) and value.cls is set


def _is_view(value: VariableTracker) -> bool:
    return isinstance(value, DictViewVariable)


def _times(tracer: Tracer, count: VariableTracker) -> Any:
    return index_of(tracer, count, functools.partial(operator.mul, []))


def _same_kind(left: SequenceVariable, right: SequenceVariable) -> bool:
    kinds: tuple[type, ...] = (DequeVariable, TupleVariable, ListVariable)
    kind = next(each for each in kinds if isinstance(left, each))
    return isinstance(right, kind) and isinstance(right, DequeVariable) == isinstance(left, DequeVariable)


def unary(tracer: Tracer, symbol: str, operand: VariableTracker) -> VariableTracker:
    """``-x``, ``+x``, ``~x``."""
    function, method = UNARY[symbol]
    if operand.is_constant():
        return ConstantVariable(tracer.evaluate(function, (operand.constant(),)))
    if isinstance(operand, NdarrayVariable):
        return ndarray.operate(tracer, function, [operand])
    if isinstance(operand, GRAPH_VALUES):
        return tracer.apply(function, (operand,))
    if built_in_part(operand) is not operand and operand.is_built_in(method):  # type: ignore[attr-defined]
        return unary(tracer, symbol, built_in_part(operand))
    if isinstance(operand, ObjectVariable) and operand.has_special(tracer, method):
        return tracer.call_special(operand, method, [])
    if isinstance(operand, WHOLE):
        tracer.raise_exception(TypeError, f"bad operand type for unary {symbol}: '{operand.type_name()}'")
    raise breaks.unsupported(breaks.UNSUPPORTED_OPERATOR, operand.describe(), symbol=symbol, types=operand.type_name())


def compare(
    tracer: Tracer, symbol: str, left: VariableTracker, right: VariableTracker, written: Written | None = None
) -> VariableTracker:
    """``left < right`` and its like; ``==`` of anything."""
    rule = COMPARISONS[symbol]
    written = written or (symbol, left, right)
    operate = functools.partial(compare, tracer, symbol, written=written)
    if (found := _by_method(tracer, rule, left, right, operate)) is not None:
        return found
    if isinstance(left, GRAPH_VALUES) or isinstance(right, GRAPH_VALUES):
        return _compare_in_graph(tracer, symbol, left, right)
    if (values := compared(tracer, left, right)) is not None:
        return ConstantVariable(tracer.evaluate(rule.function, values))
    if symbol in ("==", "!="):
        return ConstantVariable(equal(tracer, left, right) is (symbol == "=="))
    if left.is_constant() and right.is_constant():
        return ConstantVariable(_evaluated(tracer, rule.function, left, right, written))
    if _is_like_a_set(left) and _is_like_a_set(right):
        return _compare_sets(tracer, symbol, left, right)
    if isinstance(left, SequenceVariable) and isinstance(right, SequenceVariable) and _same_kind(left, right):
        return _compare_sequences(tracer, symbol, left, right)
    return _unsupported(tracer, *written)


def _compare_in_graph(tracer: Tracer, symbol: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
    function = COMPARISONS[symbol].function
    if _comparable_in_graph(tracer, left, right):
        if not isinstance(left, GRAPH_VALUES):  # 1 < x is x > 1
            return _in_graph(tracer, _MIRRORED[function], right, left)
        return _in_graph(tracer, function, left, right)
    # A tensor never equals a string or a list: torch's ``__eq__`` gives up, and Python falls back to identity.
    return ConstantVariable(symbol == "!=")


def _comparable_in_graph(tracer: Tracer, left: VariableTracker, right: VariableTracker) -> bool:
    other = right if isinstance(left, GRAPH_VALUES) else left
    if isinstance(other, GRAPH_VALUES) or _has_torch_function(tracer, other):
        return True
    return other.is_constant() and isinstance(other.constant(), (int, float, complex, type(None)))


def _is_like_a_set(value: VariableTracker) -> bool:
    """True for sets, and for the keys and the items of a dict; its values are compared by identity."""
    return isinstance(value, SetVariable) or (isinstance(value, DictViewVariable) and value.which != "values")


def _compare_sets(tracer: Tracer, symbol: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
    if _compares_values(left) or _compares_values(right):
        mine, theirs = len(items_for_set(tracer, left)), len(items_for_set(tracer, right))
        # `a <= b` for views of items: each item of the smaller one is looked up in the larger one, as CPython does.
        smaller, larger = (right, left) if symbol in (">", ">=") else (left, right)
        holds = COMPARISONS[symbol].function(mine, theirs) and _is_subset(tracer, smaller, larger)
    else:
        # Sets compare by hash and equality, and the keys of the trackers have both.
        holds = COMPARISONS[symbol].function(
            *({item.hash_key(tracer) for item in items_for_set(tracer, each)} for each in (left, right))
        )
    return ConstantVariable(holds)


def _compares_values(value: VariableTracker) -> bool:
    """True for the items of a dict: one is found by its key alone, and its value is compared by ``==``."""
    return isinstance(value, DictViewVariable) and value.which == "items"


def _is_subset(tracer: Tracer, smaller: VariableTracker, larger: VariableTracker) -> bool:
    return all(larger.contains(tracer, item) for item in items_for_set(tracer, smaller))


def _compare_sequences(tracer: Tracer, symbol: str, left: SequenceVariable, right: SequenceVariable) -> VariableTracker:
    for mine, theirs in zip(left.unpack(tracer), right.unpack(tracer), strict=False):
        # The first pair of items that differ decides, as for words in a dictionary.
        if not equal_items(tracer, mine, theirs):
            return compare(tracer, symbol, mine, theirs)
    return ConstantVariable(COMPARISONS[symbol].function(len(left.items), len(right.items)))


def _dtype_and_class(left: VariableTracker, right: VariableTracker) -> tuple[object, object] | None:
    """A dtype of NumPy's and the class that it is equal to, or not: ``np.dtype("float32") == np.float32``."""
    one, other = (side.value if isinstance(side, (ConstantVariable, ClassVariable)) else None for side in (left, right))
    pairs = arrays.is_dtype(one) and isinstance(other, type), arrays.is_dtype(other) and isinstance(one, type)
    return (one, other) if any(pairs) else None


def equal(tracer: Tracer, left: VariableTracker, right: VariableTracker) -> bool:
    """``left == right`` where tracing can tell; a break where it cannot.

    The order of the cases is that of Python: the first that knows both kinds of values decides.

        [a, b] == [a, c]        containers compare item by item, and each pair of items begins here again
        3 == 3.0                constants: Python itself is asked
        x == 3, obj == other    values of the graph, and objects: ``__eq__`` is traced, or the built-in part compared
        f == g                  functions, and whatever has only ``object.__eq__``: identity
    """
    left, right = _behind_proxy(tracer, realise(tracer, left)), _behind_proxy(tracer, realise(tracer, right))
    verdict = _equal_containers(tracer, left, right)
    if verdict is None:
        verdict = _equal_constants(tracer, left, right)
    if verdict is not None:
        return verdict
    if isinstance(left, GRAPH_VALUES + (ObjectVariable,)) or isinstance(right, GRAPH_VALUES + (ObjectVariable,)):
        return _equal_objects(tracer, left, right)
    # ``obj.f`` makes a new method at each access: two methods are equal if they have the same object and function.
    if isinstance(left, MethodVariable) and isinstance(right, MethodVariable):
        return identical(left.owner, right.owner) and identical(left.function, right.function)
    if isinstance(left, KnownCallable) and isinstance(right, KnownCallable):
        return bool(left.value == right.value)
    if not _compares_by_identity(left, right):
        _unsupported(tracer, "==", left, right)
    return identical(left, right)


def _equal_containers(tracer: Tracer, left: VariableTracker, right: VariableTracker) -> bool | None:
    """Compare two containers of one kind by their items; None if they are none."""
    if isinstance(left, SequenceVariable) and isinstance(right, SequenceVariable):
        return _equal_sequences(tracer, left, right)
    if isinstance(left, DictVariable) and isinstance(right, DictVariable):
        return _equal_dicts(tracer, left, right)
    if _is_like_a_set(left) and _is_like_a_set(right):
        return bool(_compare_sets(tracer, "==", left, right).constant())
    if isinstance(left, SliceVariable) and isinstance(right, SliceVariable):
        return all(equal_items(tracer, *pair) for pair in zip(left.parts(), right.parts(), strict=True))
    return None


def _equal_sequences(tracer: Tracer, left: SequenceVariable, right: SequenceVariable) -> bool:
    if not _same_kind(left, right) or len(left.items) != len(right.items):
        return False
    return all(equal_items(tracer, *pair) for pair in zip(left.unpack(tracer), right.unpack(tracer), strict=True))


def equal_items(tracer: Tracer, mine: VariableTracker, theirs: VariableTracker) -> bool:
    """``==`` of two items of containers: as in CPython, one that is the same object is equal, even a NaN."""
    return identical(mine, theirs) or equal(tracer, mine, theirs)


def _equal_dicts(tracer: Tracer, left: DictVariable, right: DictVariable) -> bool:
    # To look at all keys guards them: another entry would be another answer.
    left.keys(tracer), right.keys(tracer)
    ordered = issubclass(left.cls, collections.OrderedDict) and issubclass(right.cls, collections.OrderedDict)
    if ordered and list(left.entries) != list(right.entries):
        return False
    return left.entries.keys() == right.entries.keys() and all(
        equal_items(tracer, left.get_item(tracer, key), right.get_item(tracer, key)) for key, _ in left.entries.values()
    )


def _equal_constants(tracer: Tracer, left: VariableTracker, right: VariableTracker) -> bool | None:
    """Compare two values that are known while tracing by asking Python; None if one is not known."""
    if isinstance(left, IdVariable) and isinstance(right, IdVariable):
        return is_same(tracer, left.value, right.value)
    if left.is_constant() and right.is_constant():
        return bool(tracer.evaluate(operator.eq, (left.constant(), right.constant())))
    values = _dtype_and_class(left, right) or compared(tracer, left, right)
    return None if values is None else bool(tracer.evaluate(operator.eq, values))


def _equal_objects(tracer: Tracer, left: VariableTracker, right: VariableTracker) -> bool:
    """Compare values of which one is part of the graph, or an object with a class of the user's."""
    if identical(left, right):
        return True
    if not isinstance(left, ObjectVariable) and not isinstance(right, ObjectVariable):
        return compare(tracer, "==", left, right).truth(tracer)
    # The user's __eq__, traced; else the builtin that the class extends (an int's value, a tuple's items).
    found = _special(tracer, COMPARISONS["=="], left, right)
    if found is not None:
        return found.truth(tracer)
    parts = built_in_part(left), built_in_part(right)
    return equal(tracer, *parts) if parts != (left, right) else False


def _united(
    tracer: Tracer, symbol: str, left: VariableTracker, right: VariableTracker, in_place: bool
) -> tuple[VariableTracker, VariableTracker]:
    """The operands; in a union a mapping proxy is taken for its dict."""
    if symbol != "|":
        return left, right
    if in_place and isinstance(left, MappingProxyVariable):
        tracer.raise_exception(TypeError, "'|=' is not supported by mappingproxy; use '|' instead")
    return _behind_proxy(tracer, left), _behind_proxy(tracer, right)


def _behind_proxy(tracer: Tracer, value: VariableTracker) -> VariableTracker:
    return value.mapping if isinstance(value, MappingProxyVariable) else value


def _compares_by_identity(left: VariableTracker, right: VariableTracker) -> bool:
    """True if ``==`` is ``is`` for two values that nothing above compares."""
    if any(each.is_constant() and each.constant() is None for each in (left, right)):
        return True  # None has no ``__eq__`` of its own: nothing is equal to it but itself
    if any(isinstance(each, UntracedMethodVariable) for each in (left, right)):
        return False  # another object at each look-up
    kinds = (left.python_type(), right.python_type())
    if kinds[0] is kinds[1] or any(isinstance(each, (UnknownVariable, TextVariable)) for each in (left, right)):
        equalities: list[object] = [each.python_type().__eq__ for each in (left, right) if not each.is_constant()]
        return all(each is object.__eq__ for each in equalities)
    return True  # what two kinds of Python's own do not know of each other is unequal


def missing_gradient() -> breaks.Unsupported:
    """The break of a backward that asks whether a gradient is there."""
    return breaks.unsupported(breaks.AUTOGRAD_FUNCTION, "", problem="its backward tells missing gradients from others")


def is_same(tracer: Tracer, left: VariableTracker, right: VariableTracker) -> bool:
    """``left is right``, and that two inputs that are different objects stay so."""
    if any(isinstance(each, SymbolicVariable) for each in (left, right)):
        return _is_same_number(tracer, left, right)
    same = identical(left, right)
    if any(isinstance(each, TensorVariable) and each.may_be_missing for each in (left, right)):
        raise missing_gradient()
    if isinstance(left, ConstantVariable) and isinstance(right, ConstantVariable):
        return _is_same_constant(tracer, left, right)
    plain = (ConstantVariable, *GRAPH_VALUES)
    # Results of the graph get no guard.
    values = isinstance(left, plain) or isinstance(right, plain)
    if same or values or left.source is None or right.source is None:
        return same
    # Two trackers may stand for one object: tuples have no identity of theirs. If tracing took the two inputs for two
    # objects, ``is`` would answer True in a call with one object for both.
    return _is_same_outside(tracer, left.source, right.source)


def _is_same_constant(tracer: Tracer, left: ConstantVariable, right: ConstantVariable) -> bool:
    """``is`` of two constants: those from outside may be equal and one object in this call, and two in the next."""
    same = left.value is right.value
    if left.source is None or right.source is None or left.source == right.source:
        return same  # whether equal constants of the program are one object is up to CPython
    # Python keeps one object for each small integer, truth value, empty text, ...: nothing to guard.
    if type(left.value) is not type(right.value) or type(left.value) not in (int, float, complex, str, bytes):
        return same
    if (type(left.value) is int and left.value in SMALL) or left.value != right.value:
        return same  # NaNs have guards already: containers compare them by identity, too
    return _is_same_outside(tracer, left.source, right.source)


def _is_same_outside(tracer: Tracer, left: Source, right: Source) -> bool:
    """``is`` of two values from outside, which stay one object, or two."""
    if tracer.real_value(left) is tracer.real_value(right):
        tracer.guard(left, GuardKind.OBJECT_ALIASING, right)
        return True
    tracer.guard(None, GuardKind.NO_OBJECT_ALIASING, (left, right))
    return False


def _is_same_number(tracer: Tracer, left: VariableTracker, right: VariableTracker) -> bool:
    """``n is 3`` of a symbolic number: Python keeps one object for each small integer and truth value."""
    kind = left.python_type()
    if left is right or kind is not right.python_type() or kind not in (int, bool, float):
        return left is right
    if kind is float:
        one, other = left.source, right.source
        return one is not None and other is not None and _is_same_outside(tracer, one, other)
    if kind is bool:
        return left.truth(tracer) is right.truth(tracer)  # True and False are one object each
    if not compare(tracer, "==", left, right).truth(tracer):
        return False
    number = left if isinstance(left, ConstantVariable) else right
    value = number.specialise() if isinstance(number, SymbolicVariable) else number.constant()
    # Small integers are cached by CPython, and larger ones are new objects at each computation.
    if value in SMALL or left.source is None or right.source is None:
        return value in SMALL
    return _is_same_outside(tracer, left.source, right.source)


SMALL = range(-5, 257)
"""Integers of which CPython has one object each."""


def identical(left: VariableTracker, right: VariableTracker) -> bool:
    """``left is right``."""
    match left, right:
        case _ if left is right:
            return True
        case TensorVariable(), TensorVariable():
            return left.node is right.node or left.example is right.example
        case ConstantVariable(), ConstantVariable():
            return left.value is right.value
        case (MethodVariable(), _) | (_, MethodVariable()):
            return False  # a bound method is made anew by each access
        case InstanceDictVariable(), InstanceDictVariable():
            return identical(left.owner, right.owner)
        case TupleVariable(), TupleVariable() if left.cls is right.cls is tuple:
            return not left.items and not right.items  # there is one empty tuple
        case (ObjectVariable(), _) if left.is_new():
            return False  # an object that the program made is one tracker, which the first case would have found
        case (_, ObjectVariable()) if right.is_new():
            return False
    # Both may represent one object that existed before: its trackers hold it under one of two names.
    names = ("value", "function")
    real = [getattr(operand, name) for operand in (left, right) for name in names if hasattr(operand, name)]
    # A None there is no object: the tracker of a tuple has one only for a class with attributes.
    known = len(real) == 2 and real[0] is not None and real[0] is real[1]
    return known and not isinstance(left, (ConstantVariable, SymbolicVariable))
