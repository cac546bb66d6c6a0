"""Python's arithmetic, bitwise and set operators on trackers; comparisons and ``is`` are in comparisons.py.

    left + right     both constants: computed now; a tensor among them: a node;
                     two lists: a new list; an object: its __add__ / __radd__

In torch: torch/_dynamo/variables/builtin.py (binop handlers). Read next:
nbcompile/tracing/frame/handlers/operators.py
"""

from __future__ import annotations

import collections
import functools
import operator
from collections.abc import Callable
from typing import Any

import torch

from nbcompile.tracing import breaks
from nbcompile.tracing.calls import deque_copies, dict_union, numbers
from nbcompile.tracing.calls.built_in_operands import accepts
from nbcompile.tracing.calls.operator_table import BINARY, COMPARISONS, UNARY, Operator
from nbcompile.tracing.calls.percent_format import filled
from nbcompile.tracing.calls.sequence_errors import check_sequences
from nbcompile.tracing.calls.special_methods import TYPES, behind_proxy, has_method, has_torch_function, special
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables import ndarray
from nbcompile.tracing.variables.base import VariableTracker, is_deferred, realise
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.containers import ContainerVariable
from nbcompile.tracing.variables.deques import DequeVariable
from nbcompile.tracing.variables.dict_views import DictViewVariable
from nbcompile.tracing.variables.known_values import whole
from nbcompile.tracing.variables.mapping_proxy import MappingProxyVariable
from nbcompile.tracing.variables.mappings import DictVariable
from nbcompile.tracing.variables.ndarray import NdarrayVariable
from nbcompile.tracing.variables.objects import ObjectVariable, built_in_part
from nbcompile.tracing.variables.observed import ObservedException
from nbcompile.tracing.variables.sequences import ListVariable, SequenceVariable, TupleVariable
from nbcompile.tracing.variables.sets import SetVariable, set_from
from nbcompile.tracing.variables.slices import SliceVariable, index_of
from nbcompile.tracing.variables.strings import TextVariable, join
from nbcompile.tracing.variables.symbolic import SymbolicVariable
from nbcompile.tracing.variables.tensor import TensorVariable

WHOLE = (ConstantVariable, ObjectVariable, SequenceVariable, DictVariable, SetVariable, SliceVariable)
"""Values whose operators are all implemented here: for other operands Python raises, too."""
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
        return tracer.constant_or_wrap(evaluated(tracer, function, left, right, written))
    written = written or (f"{symbol}=" if in_place else symbol, left, right)
    if in_place and rule.in_place is not None:  # the object itself changes
        # None: there is no `__iadd__`, or it returned NotImplemented; then `x += y` is `x = x + y`.
        changed = _in_place(tracer, symbol, rule, left, right)
        if changed is not None:
            return changed
    operate = functools.partial(binary, tracer, symbol, written=written)
    if (found := by_method(tracer, rule, left, right, operate)) is not None:
        return found
    if (text := _text_operation(tracer, symbol, left, right)) is not None:
        return text
    return _binary_of_values(tracer, symbol, left, right, written)


def _text_operation(
    tracer: Tracer, symbol: str, left: VariableTracker, right: VariableTracker
) -> VariableTracker | None:
    """``text + text`` and ``template % values``; None for anything else."""
    # Two constants are computed before: here at least one of the texts has a slot for a tensor.
    if symbol == "+" and all(isinstance(part, TEXTS) and part.python_type() is str for part in (left, right)):
        return join([left, right])
    if symbol == "%" and isinstance(left, ConstantVariable) and isinstance(left.value, (str, bytes)):
        return _text(tracer, left, right)
    return None


def _binary_of_values(
    tracer: Tracer, symbol: str, left: VariableTracker, right: VariableTracker, written: Written
) -> VariableTracker:
    """An operation that no method of the operands implements: on tensors, containers and types."""
    # A tensor, and an operand without a method for it: the operator becomes a node, for which torch itself raises.
    if isinstance(left, GRAPH_VALUES) or isinstance(right, GRAPH_VALUES):
        result = in_graph(tracer, BINARY[symbol].function, left, right)
        repeated = next((part for part in (left, right) if isinstance(part, SequenceVariable)), None)
        # In a graph a deque is a list, and a size a tuple.
        return repeated.like(result.items) if repeated and isinstance(result, SequenceVariable) else result
    combined = _containers(tracer, symbol, left, right, written)
    if combined is not None:
        return combined
    if symbol == "|" and isinstance(left, TYPES) and isinstance(right, TYPES):
        return tracer.wrap(tracer.evaluate(operator.or_, (left.value, right.value)), None)
    return unsupported(tracer, *written)


def evaluated(
    tracer: Tracer, function: Callable[..., object], left: VariableTracker, right: VariableTracker,
    written: Written | None,
) -> Any:  # fmt: skip
    """Python's result for two constants; its TypeError names the operands that the program wrote."""
    try:
        return tracer.evaluate(function, (left.constant(), right.constant()))
    except ObservedException as error:
        # Errors of ``%`` are about the template, and those of tuples about items.
        is_own = written is None or written[0] in ("%", "%=") or written[1:] == (left, right)
        if written is None or is_own or error.value.python_type() is not TypeError:
            raise
        return unsupported(tracer, *written)


def _base_implements(symbol: str, left: VariableTracker, right: VariableTracker) -> bool:
    """True if a built-in base class in C implements an operator that no tracker implements."""
    if not isinstance(left, ObjectVariable) and not isinstance(right, ObjectVariable):
        return False
    rule = COMPARISONS.get(symbol) or BINARY[symbol.removesuffix("=")]
    return accepts(left, rule.method, right) or accepts(right, rule.reflected, left)


def unsupported(tracer: Tracer, symbol: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
    """The TypeError of an operator that no operand has, or a graph break."""
    # Trackers of WHOLE implement all operators of their values, so Python raises a TypeError for any other one. For
    # other trackers an implementation may be missing: the graph breaks, and Python runs the operator.
    if isinstance(left, WHOLE) and isinstance(right, WHOLE) and not _base_implements(symbol, left, right):
        names = f"'{left.error_name()}' and '{right.error_name()}'"
        check_sequences(tracer, symbol, left, right)
        if symbol in COMPARISONS:
            tracer.raise_exception(TypeError, f"'{symbol}' not supported between instances of {names}")
        shown = {"**": "** or pow()", "**=": "**="}.get(symbol, symbol)
        tracer.raise_exception(TypeError, f"unsupported operand type(s) for {shown}: {names}")
    types = f"{left.type_name()}, {right.type_name()}"
    raise breaks.unsupported(
        breaks.UNSUPPORTED_OPERATOR, f"{left.describe()} {symbol} {right.describe()}", symbol=symbol, types=types
    )


TEXTS = (ConstantVariable, TextVariable)


def _text(tracer: Tracer, template: ConstantVariable, right: VariableTracker) -> VariableTracker:
    """``"%d of %s" % values``: what Python writes, or a text of numbers of the graph."""
    parts = right.unpack_keeping_deferred(tracer) if isinstance(right, TupleVariable) else [right]
    if any(isinstance(part, SymbolicVariable) or is_deferred(part) for part in parts):
        if (written := filled(tracer, template.value, right)) is not None:
            return written
        parts = list(map(_specialised, parts))
        right = TupleVariable(parts) if isinstance(right, TupleVariable) else parts[0]
    known = whole(tracer, right)
    if known is None and (written := filled(tracer, template.value, right)) is not None:
        return written
    if known is None:  # the text of an unknown value: Python computes it after a break
        types = f"{template.type_name()}, {right.type_name()}"
        context = f"{template.describe()} % {right.describe()}"
        raise breaks.unsupported(breaks.UNSUPPORTED_OPERATOR, context, symbol="%", types=types)
    return ConstantVariable(tracer.evaluate(operator.mod, (template.value, known[0])))


def _specialised(value: VariableTracker) -> VariableTracker:
    return ConstantVariable(value.specialise()) if isinstance(value, SymbolicVariable) else value


def by_method(
    tracer: Tracer,
    rule: Operator,
    left: VariableTracker,
    right: VariableTracker,
    operate: Callable[[VariableTracker, VariableTracker], VariableTracker],
) -> VariableTracker | None:
    """Call special methods of the operands' classes; if none applies, the operator on their built-in parts."""
    if not isinstance(left, WITH_METHODS) and not isinstance(right, WITH_METHODS):
        return None
    found = special(tracer, rule, left, right)
    if found is not None:
        return found
    if rule.method == "__or__" and all(isinstance(built_in_part(part), DictVariable) for part in (left, right)):
        return dict_union.union(tracer, left, right)
    if (copied := deque_copies.operate(tracer, rule.method, left, right)) is not None:
        return copied
    parts = built_in_part(left), built_in_part(right)
    if rule.method == "__mod__" and (text := _text_operation(tracer, "%", parts[0], right)) is not None:
        return text  # a conversion calls methods of the object, such as __str__
    return None if parts == (left, right) else operate(*parts)


def in_graph(
    tracer: Tracer, function: Callable[..., object], left: VariableTracker, right: VariableTracker
) -> VariableTracker:
    """A node for an operator whose operands are values of the graph, or numbers."""
    operands = numbers.operands_of(function, left, right)
    of_numbers = all(isinstance(each, (SymbolicVariable, ConstantVariable)) for each in operands)
    # For some numbers a graph computes other results than Python (calls/numbers.py): these become constants.
    if of_numbers and not numbers.is_as_in_python(tracer, function, *operands):
        known = [each.specialise() if isinstance(each, SymbolicVariable) else each.constant() for each in operands]
        return ConstantVariable(tracer.evaluate(function, known))
    if ndarray.has_array(operands) and not any(isinstance(each, TensorVariable) for each in operands):
        return ndarray.operate(tracer, function, operands)
    return tracer.apply(function, operands)


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
            return in_graph(tracer, rule.in_place, left, right) if _may_change(tracer, left, rule, right) else None
        case ListVariable(), "*":
            left.repeat(tracer, index_of(tracer, right, functools.partial(operator.imul, [])))
            return left
        case ListVariable(), "+":
            method = "extend"
        case DictVariable(), "|":
            method = "update"
        # Only another set: for a view of a dict Python creates a new set, for a list it raises (methods accept both).
        case SetVariable(), "|" | "&" | "-" | "^" if issubclass(left.cls, set) and _is_any_set(right):
            method, right = _SET_UPDATES[symbol], built_in_part(right)
        case ObjectVariable(base_items=DictVariable(cls=collections.OrderedDict)), "|" if left.is_built_in("__ior__"):
            return realise(tracer, left.call_method(tracer, "__ior__", [right], {}))
        case ObjectVariable(base_items=ContainerVariable() as items), _ if left.is_built_in(rule.in_place_method):
            return left if _changed(tracer, symbol, rule, items, right) is items else None
        case ObjectVariable(), _ if left.has_special(tracer, rule.in_place_method):
            # Also the built-in part's own method: the object itself changes.
            result = realise(tracer, tracer.call_special(left, rule.in_place_method, [right]))
            return None if result.is_constant() and result.constant() is NotImplemented else result
        case _:
            return None
    left.call_method(tracer, method, [right], {})
    return left


def _before_a_sequence(
    tracer: Tracer, symbol: str, rule: Operator, left: VariableTracker, right: VariableTracker
) -> VariableTracker | None:
    """Result of the program's own ``+`` or ``*``, which Python calls before a list or deque changes in place."""
    if symbol not in ("+", "*") or not isinstance(built_in_part(left), ListVariable):
        return None
    if isinstance(left, ObjectVariable):
        # A class that is defined in Python has its base's ``+=``, but not its ``*=``, among the operators of numbers.
        if symbol == "+" or not left.is_built_in(rule.in_place_method):
            return None
        # A class with a method for one side has those of both: the base's method is used for the other.
        if left.is_built_in(rule.method) and has_method(tracer, left, rule.reflected):
            return binary(tracer, symbol, left, ConstantVariable(index_of(tracer, right)))
    return (
        special(tracer, rule, left, right)
        if isinstance(left, ObjectVariable) or isinstance(right, WITH_METHODS)
        else None
    )


_SET_UPDATES = {"|": "update", "&": "intersection_update", "-": "difference_update", "^": "symmetric_difference_update"}


def _may_change(tracer: Tracer, left: TensorVariable | NdarrayVariable, rule: Operator, right: VariableTracker) -> bool:
    """Return whether the tensor's own in-place method accepts this operand, or a ``__torch_function__`` decides."""
    if not isinstance(left, TensorVariable) or not isinstance(right, WITH_METHODS):
        return True
    return has_torch_function(tracer, right) or accepts(left, rule.in_place_method, right)


def _repeats(value: VariableTracker) -> bool:
    """True for a sequence that ``*`` repeats: a str or bytes, or one that the program created."""
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
        case "+", SequenceVariable(), SequenceVariable() if same_kind(left, right):
            if left.cls is right.cls is tuple and not (left.items and right.items):
                return left if left.items else right
            # The sum of a size and a tuple of any class is a size, in either order.
            kind = right if right.cls is torch.Size else left
            return kind.like([*left.items, *right.items])
        case "+", SequenceVariable(), _:
            check_sequences(tracer, *written)
        case "*", SequenceVariable(), ConstantVariable() if not hasattr(right.value, "__index__"):
            check_sequences(tracer, *written)
        case "*", SequenceVariable(), ConstantVariable() | SymbolicVariable():
            return left.like(left.repeated(tracer, _times(tracer, right)))
        case "*", ConstantVariable() | SymbolicVariable(), SequenceVariable():
            return right.like(right.repeated(tracer, _times(tracer, left)))
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
    """Set operators (``&``, ...) on a view of a dict's keys or items: a new set for any other operand."""
    if symbol != "&":
        given: VariableTracker = left
        if isinstance(left, DictViewVariable) and left.which == "keys" and left.owner.cls is dict:
            given = left.owner  # CPython creates the set from the dict, with its capacity
        result = set_from(tracer, set, given)
        updates = {"|": "update", "-": "difference_update", "^": "symmetric_difference_update"}
        result.call_method(tracer, updates[symbol], [right], {})
        return result
    # Of equal items CPython keeps those of the operand that it iterates over. It iterates over the view only if the
    # other operand is a larger set or view. This matters, since equal items may differ: 1 and True.
    view, other = (left, right) if isinstance(left, DictViewVariable) else (right, left)
    mine, theirs = (SetVariable(tracer, side.unpack(tracer)).members for side in (view, other))
    through_view = len(mine) <= len(theirs) if _is_set(other) else _is_view(other) and len(mine) < len(theirs)
    iterated, searched = (mine, theirs) if through_view else (theirs, mine)
    return SetVariable(tracer, [item for key, item in iterated.items() if key in searched])


def _is_set(value: VariableTracker) -> bool:
    return isinstance(value, SetVariable) and value.cls is set


def _is_view(value: VariableTracker) -> bool:
    return isinstance(value, DictViewVariable)


def _times(tracer: Tracer, count: VariableTracker) -> Any:
    return index_of(tracer, count, functools.partial(operator.mul, []))


def same_kind(left: SequenceVariable, right: SequenceVariable) -> bool:
    """Return whether two sequences are both lists, both tuples or both deques."""
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


def _united(
    tracer: Tracer, symbol: str, left: VariableTracker, right: VariableTracker, in_place: bool
) -> tuple[VariableTracker, VariableTracker]:
    """The operands; in a union a mapping proxy is replaced by its dict."""
    if symbol != "|":
        return left, right
    if in_place and isinstance(left, MappingProxyVariable):
        tracer.raise_exception(TypeError, "'|=' is not supported by mappingproxy; use '|' instead")
    return behind_proxy(tracer, left), behind_proxy(tracer, right)
