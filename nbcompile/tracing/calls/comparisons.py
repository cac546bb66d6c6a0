"""Comparisons while tracing: ``==``, ``<``, ``is``, of numbers, containers, objects and tensors.

    compare("<", x.shape[0], 3)       a guard, if the size varies
    equal([1, x], [1, x])             True, as the items are the same objects

In torch: torch/_dynamo/variables/builtin.py (compare_op_handlers). Read next: nbcompile/tracing/calls/operations.py
"""

from __future__ import annotations

import collections
import functools
import operator

from nbcompile.capture import arrays
from nbcompile.tracing import breaks
from nbcompile.tracing.calls.identities import SMALL, identical, is_same_constant, is_same_outside, needs_guard
from nbcompile.tracing.calls.operations import (
    GRAPH_VALUES,
    Written,
    binary,
    by_method,
    evaluated,
    in_graph,
    same_kind,
    unsupported,
)
from nbcompile.tracing.calls.operator_table import COMPARISONS, MIRRORED
from nbcompile.tracing.calls.special_methods import behind_proxy, has_torch_function, special
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import UnknownVariable, UntracedMethodVariable, VariableTracker, realise
from nbcompile.tracing.variables.classes import ClassVariable
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.dict_views import DictViewVariable
from nbcompile.tracing.variables.functions import MethodVariable
from nbcompile.tracing.variables.identity import HashVariable, IdVariable
from nbcompile.tracing.variables.known_callables import KnownCallable
from nbcompile.tracing.variables.mappings import DictVariable
from nbcompile.tracing.variables.objects import ObjectVariable, built_in_part
from nbcompile.tracing.variables.plain_values import compared
from nbcompile.tracing.variables.sequences import SequenceVariable
from nbcompile.tracing.variables.sets import SetVariable, hashed_items, items_for_set
from nbcompile.tracing.variables.slices import SliceVariable
from nbcompile.tracing.variables.strings import TextVariable
from nbcompile.tracing.variables.symbolic import SymbolicVariable
from nbcompile.tracing.variables.tensor import TensorVariable
from nbcompile.tracing.variables.type_forms import TypeFormVariable
from nbcompile.tracing.variables.weak_reference import WeakReferenceVariable


def compare(
    tracer: Tracer, symbol: str, left: VariableTracker, right: VariableTracker, written: Written | None = None
) -> VariableTracker:
    """``left < right`` and the other order comparisons; ``==`` of any values."""
    rule = COMPARISONS[symbol]
    written = written or (symbol, left, right)
    operate = functools.partial(compare, tracer, symbol, written=written)
    if (found := by_method(tracer, rule, left, right, operate)) is not None:
        return found
    if isinstance(left, GRAPH_VALUES) or isinstance(right, GRAPH_VALUES):
        return _compare_in_graph(tracer, symbol, left, right)
    if (values := compared(tracer, left, right)) is not None:
        return ConstantVariable(tracer.evaluate(rule.function, values))
    if symbol in ("==", "!="):
        return _equality(tracer, symbol, left, right)
    if left.is_constant() and right.is_constant():
        return ConstantVariable(evaluated(tracer, rule.function, left, right, written))
    if _is_like_a_set(left) and _is_like_a_set(right):
        return _compare_sets(tracer, symbol, left, right)
    if isinstance(left, SequenceVariable) and isinstance(right, SequenceVariable) and same_kind(left, right):
        return _compare_sequences(tracer, symbol, left, right)
    return unsupported(tracer, *written)


def _equality(tracer: Tracer, symbol: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
    condition = _equal_sizes(tracer, left, right) if symbol == "==" else None
    return condition or ConstantVariable(equal(tracer, left, right) is (symbol == "=="))


def _equal_sizes(tracer: Tracer, left: VariableTracker, right: VariableTracker) -> VariableTracker | None:
    """``x.shape == (4, 3)`` as one condition, which is not evaluated yet; None for other values."""
    if not isinstance(left, SequenceVariable) or not isinstance(right, SequenceVariable):
        return None
    if not same_kind(left, right) or not left.items or len(left.items) != len(right.items):
        return None
    if not depend_on_sizes([*left.items, *right.items]):
        return None
    pairs = zip(left.items, right.items, strict=True)
    return functools.reduce(functools.partial(binary, tracer, "&"), (compare(tracer, "==", *pair) for pair in pairs))


def depend_on_sizes(values: list[VariableTracker]) -> bool:
    """Return whether all values are ints, and at least one is a number of the graph."""
    # Floats are left out: a NaN that is the same object is equal in a list, and not by itself.
    symbols = [isinstance(value, SymbolicVariable) for value in values]
    return any(symbols) and all(
        (is_symbol or value.is_constant()) and value.python_type() is int
        for value, is_symbol in zip(values, symbols, strict=True)
    )


def _compare_in_graph(tracer: Tracer, symbol: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
    function = COMPARISONS[symbol].function
    if _comparable_in_graph(tracer, left, right):
        if not isinstance(left, GRAPH_VALUES):  # 1 < x is x > 1
            return in_graph(tracer, MIRRORED[function], right, left)
        return in_graph(tracer, function, left, right)
    # A tensor never equals a string or a list: torch's ``__eq__`` returns NotImplemented, and Python compares by
    # identity.
    return ConstantVariable(symbol == "!=")


def _comparable_in_graph(tracer: Tracer, left: VariableTracker, right: VariableTracker) -> bool:
    other = right if isinstance(left, GRAPH_VALUES) else left
    if isinstance(other, GRAPH_VALUES) or has_torch_function(tracer, other):
        return True
    return other.is_constant() and isinstance(other.constant(), (int, float, complex, type(None)))


def _is_like_a_set(value: VariableTracker) -> bool:
    """True for sets, and for the keys and the items of a dict; its values are compared by identity."""
    return isinstance(value, SetVariable) or (isinstance(value, DictViewVariable) and value.which != "values")


def _compare_sets(tracer: Tracer, symbol: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
    if _compares_values(left) or _compares_values(right):
        mine, theirs = len(items_for_set(tracer, left)), len(items_for_set(tracer, right))
        # `a <= b` for views of items: as in CPython, each item of the smaller view is looked up in the larger one.
        smaller, larger = (right, left) if symbol in (">", ">=") else (left, right)
        holds = COMPARISONS[symbol].function(mine, theirs) and _is_subset(tracer, smaller, larger)
    else:
        # Sets compare by hash and equality, which the keys of the trackers implement.
        holds = COMPARISONS[symbol].function(
            *({key for key, _ in hashed_items(tracer, each)} for each in (left, right))
        )
    return ConstantVariable(holds)


def _compares_values(value: VariableTracker) -> bool:
    """True for the items of a dict: one is found only by its key, and its value is compared by ``==``."""
    return isinstance(value, DictViewVariable) and value.which == "items"


def _is_subset(tracer: Tracer, smaller: VariableTracker, larger: VariableTracker) -> bool:
    return all(larger.contains(tracer, item) for item in items_for_set(tracer, smaller))


def _compare_sequences(tracer: Tracer, symbol: str, left: SequenceVariable, right: SequenceVariable) -> VariableTracker:
    for mine, theirs in zip(left.unpack(tracer), right.unpack(tracer), strict=False):
        # Lexicographical order: the first pair of different items decides.
        if not equal_items(tracer, mine, theirs):
            return compare(tracer, symbol, mine, theirs)
    return ConstantVariable(COMPARISONS[symbol].function(len(left.items), len(right.items)))


def _dtype_and_class(left: VariableTracker, right: VariableTracker) -> tuple[object, object] | None:
    """A dtype of NumPy and a class to compare with it: ``np.dtype("float32") == np.float32``."""
    one, other = (side.value if isinstance(side, (ConstantVariable, ClassVariable)) else None for side in (left, right))
    pairs = arrays.is_dtype(one) and isinstance(other, type), arrays.is_dtype(other) and isinstance(one, type)
    return (one, other) if any(pairs) else None


def _forms_of_types(left: VariableTracker, right: VariableTracker) -> tuple[object, object] | None:
    """Two generic aliases, or one and a class: each subscript creates a new object, which compares by value."""
    if not any(isinstance(side, TypeFormVariable) for side in (left, right)):
        return None
    if not all(
        isinstance(side, TypeFormVariable) or _is_plain_class(side) or side.is_constant() for side in (left, right)
    ):
        return None
    one, other = (side.constant() if side.is_constant() else getattr(side, "value", None) for side in (left, right))
    return one, other


def _is_plain_class(side: VariableTracker) -> bool:
    """True for a class whose metaclass has no ``__eq__`` of the program."""
    return isinstance(side, ClassVariable) and type(side.value).__eq__ is type.__eq__


def equal(tracer: Tracer, left: VariableTracker, right: VariableTracker) -> bool:
    """``left == right`` if tracing knows the result; otherwise a break.

    The order of the cases is that of Python: the first case that supports both kinds of values decides.

        [a, b] == [a, c]        containers compare item by item, and each pair of items begins here again
        3 == 3.0                constants: Python compares them
        x == 3, obj == other    values of the graph, and objects: ``__eq__`` is traced, or the built-in part compared
        f == g                  functions, and objects with only ``object.__eq__``: identity
    """
    left, right = behind_proxy(tracer, realise(tracer, left)), behind_proxy(tracer, realise(tracer, right))
    verdict = _equal_containers(tracer, left, right)
    if verdict is None:
        verdict = _equal_constants(tracer, left, right)
    if verdict is not None:
        return verdict
    if isinstance(left, GRAPH_VALUES + (ObjectVariable,)) or isinstance(right, GRAPH_VALUES + (ObjectVariable,)):
        return _equal_objects(tracer, left, right)
    # ``obj.f`` creates a new method at each access: two methods are equal if they have the same object and function.
    if isinstance(left, MethodVariable) and isinstance(right, MethodVariable):
        return is_same(tracer, left.owner, right.owner) and is_same(tracer, left.function, right.function)
    if isinstance(left, KnownCallable) and isinstance(right, KnownCallable):
        return bool(left.value == right.value)
    if not _compares_by_identity(left, right):
        unsupported(tracer, "==", left, right)
    return is_same(tracer, left, right)


def _equal_containers(tracer: Tracer, left: VariableTracker, right: VariableTracker) -> bool | None:
    """Compare two containers of one kind by their items; None for other values."""
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
    if not same_kind(left, right) or len(left.items) != len(right.items):
        return False
    return all(equal_items(tracer, *pair) for pair in zip(left.unpack(tracer), right.unpack(tracer), strict=True))


def equal_items(tracer: Tracer, mine: VariableTracker, theirs: VariableTracker) -> bool:
    """``==`` of two items of containers: as in CPython, one that is the same object is equal, even a NaN."""
    if (identical(mine, theirs) and is_same(tracer, mine, theirs)) or equal(tracer, mine, theirs):
        return True
    # An ``__eq__`` of the program may be false for identical objects, so two objects must stay distinct: a guard.
    objects = isinstance(mine, ObjectVariable) and isinstance(theirs, ObjectVariable)
    return objects and is_same(tracer, mine, theirs)


def _equal_dicts(tracer: Tracer, left: DictVariable, right: DictVariable) -> bool:
    # Reading all keys adds guards on them: another entry would change the result.
    left.keys(tracer), right.keys(tracer)
    ordered = issubclass(left.cls, collections.OrderedDict) and issubclass(right.cls, collections.OrderedDict)
    if ordered and list(left.entries) != list(right.entries):
        return False
    return left.entries.keys() == right.entries.keys() and all(
        equal_items(tracer, left.value_at(tracer, hashed), right.value_at(tracer, hashed)) for hashed in left.entries
    )


def _equal_constants(tracer: Tracer, left: VariableTracker, right: VariableTracker) -> bool | None:
    """Compare two values that are known while tracing, in Python; None if one is not known."""
    if isinstance(left, IdVariable) and isinstance(right, IdVariable):
        return is_same(tracer, left.value, right.value)
    if isinstance(left, HashVariable) and isinstance(right, HashVariable) and left.key == right.key:
        return True  # hashes of different objects may be equal, too: those are compared after a graph break
    if left.is_constant() and right.is_constant():
        return bool(tracer.evaluate(operator.eq, (left.constant(), right.constant())))
    values = _dtype_and_class(left, right) or _forms_of_types(left, right) or compared(tracer, left, right)
    return None if values is None else bool(tracer.evaluate(operator.eq, values))


def _equal_objects(tracer: Tracer, left: VariableTracker, right: VariableTracker) -> bool:
    """Compare two values; at least one is part of the graph or an object of a user's class."""
    if not isinstance(left, ObjectVariable) and not isinstance(right, ObjectVariable):
        return identical(left, right) or compare(tracer, "==", left, right).truth(tracer)
    # The user's __eq__ is traced; otherwise the built-in parts are compared (an int's value, a tuple's items).
    found = special(tracer, COMPARISONS["=="], left, right)
    if found is not None:
        return found.truth(tracer)
    if identical(left, right):
        return is_same(tracer, left, right)
    parts = built_in_part(left), built_in_part(right)
    return equal(tracer, *parts) if parts != (left, right) else is_same(tracer, left, right)


def _compares_by_identity(left: VariableTracker, right: VariableTracker) -> bool:
    """True if ``==`` means ``is`` for two values that no function above compares."""
    if any(each.is_constant() and each.constant() is None for each in (left, right)):
        return True  # None has only ``object.__eq__``: it is equal only to itself
    if any(isinstance(each, UntracedMethodVariable) for each in (left, right)):
        return False  # each look-up creates a new object
    kinds = (left.python_type(), right.python_type())
    if kinds[0] is kinds[1] or any(isinstance(each, (UnknownVariable, TextVariable)) for each in (left, right)):
        equalities: list[object] = [each.python_type().__eq__ for each in (left, right) if not each.is_constant()]
        return all(each is object.__eq__ for each in equalities)
    return True  # values of two unrelated built-in kinds are unequal


def missing_gradient() -> breaks.Unsupported:
    """The break of a backward that checks whether a gradient exists."""
    return breaks.unsupported(breaks.AUTOGRAD_FUNCTION, "", problem="its backward distinguishes missing gradients")


def is_same(tracer: Tracer, left: VariableTracker, right: VariableTracker) -> bool:
    """``left is right``; a guard requires that two objects from outside stay distinct, or identical."""
    if any(isinstance(each, SymbolicVariable) for each in (left, right)):
        return _is_same_number(tracer, left, right)
    if any(isinstance(each, TensorVariable) and each.may_be_missing for each in (left, right)):
        raise missing_gradient()
    if isinstance(left, ConstantVariable) and isinstance(right, ConstantVariable):
        return is_same_constant(tracer, left, right)
    if isinstance(left, WeakReferenceVariable) and isinstance(right, WeakReferenceVariable):
        return _is_same_reference(tracer, left, right)
    same = identical(left, right)
    if left is right or left.source is None or right.source is None or not needs_guard(left, right, same):
        return same
    # Two trackers may represent one object, since trackers of tuples have no identity. Without a guard, the trace would
    # give the wrong result in a call with one object for both inputs, or with two.
    return is_same_outside(tracer, left.source, right.source)


def _is_same_reference(tracer: Tracer, left: WeakReferenceVariable, right: WeakReferenceVariable) -> bool:
    """``is`` of two weak references: an object has one reference without a callback."""
    if left is right:
        return True
    if left.source is not None and right.source is not None:
        return is_same_outside(tracer, left.source, right.source)
    if not (left.is_shared(tracer) and right.is_shared(tracer)):
        return False
    return is_same(tracer, realise(tracer, left.referent), realise(tracer, right.referent))


def _is_same_number(tracer: Tracer, left: VariableTracker, right: VariableTracker) -> bool:
    """``n is 3`` of a symbolic number: Python has one object for each small integer and bool."""
    kind = left.python_type()
    if left is right or kind is not right.python_type() or kind not in (int, bool, float):
        return left is right
    if kind is float:
        one, other = left.source, right.source
        return one is not None and other is not None and is_same_outside(tracer, one, other)
    if kind is bool:
        return left.truth(tracer) is right.truth(tracer)  # True and False are single objects
    if not compare(tracer, "==", left, right).truth(tracer):
        return False
    number = left if isinstance(left, ConstantVariable) else right
    value = number.specialise() if isinstance(number, SymbolicVariable) else number.constant()
    # CPython caches small integers, and creates a new object for each larger one.
    if value in SMALL or left.source is None or right.source is None:
        return value in SMALL
    return is_same_outside(tracer, left.source, right.source)
