"""Guards on one value, prepared: the text of each, its predicate in Python, its leaf guard in torch's C++ tree.

    EQUALS_MATCH    text  L['k'] == 3      holds  lambda v: is_same_value(v, 3)      install  add_equals_match_guard(3)

In torch: GuardBuilder in torch/_dynamo/guards.py. Read next: nbcompile/guarding/encodings/container_leaves.py
"""

from __future__ import annotations

import math
import operator
from dataclasses import replace
from types import CodeType, FunctionType
from typing import Any, cast

from nbcompile import torch_internals
from nbcompile.capture.guard import Guard
from nbcompile.capture.resolution import remaining
from nbcompile.guarding.prepared import ExpectedObject, ExpectedSubclasses, Leaf
from nbcompile.guarding.values import Predicate, has_equal_lookalike, is_same_value, never_raising


def _with_expected_object(guard: Guard, value: object) -> tuple[Guard, ExpectedObject]:
    expected_object = ExpectedObject(value)
    return replace(guard, expected=expected_object), expected_object


def type_match(guard: Guard, name: str, value: object) -> Leaf:
    assert isinstance(guard.expected, type)
    text = type_text(name, guard.expected)
    weak, expected_object = _with_expected_object(guard, guard.expected)
    return Leaf(
        weak,
        text,
        lambda value: id(type(value)) == expected_object.address,
        lambda manager: manager.add_type_match_guard(expected_object.address, [text], None),
    )


def type_text(name: str, cls: type) -> str:
    return f"___check_type_id({name}, ..), type={type.__repr__(cls)}"  # not the ``__repr__`` of its metaclass


def id_match(guard: Guard, name: str, value: object) -> Leaf:
    expected = guard.expected
    shown = expected if isinstance(expected, type) else type(expected)
    text = f"___check_obj_id({name}, ..), type={type.__repr__(shown)}"
    weak, expected_object = _with_expected_object(guard, expected)
    return Leaf(
        weak,
        text,
        lambda value: id(value) == expected_object.address,
        lambda manager: manager.add_id_match_guard(expected_object.address, [text], None),
    )


def function_match(guard: Guard, name: str, value: object) -> Leaf:
    # All functions of one ``def`` share its code: a closure created anew passes. Cells and defaults that were used have
    # guards of their own.
    code = guard.expected if isinstance(guard.expected, CodeType) else getattr(guard.expected, "__code__", None)
    if not isinstance(code, CodeType):  # a builtin function has no code to compare
        return id_match(guard, name, value)
    text = f"___check_obj_id({name}.__code__, ..), type=<class 'code'>"
    weak, expected_object = _with_expected_object(guard, code)

    def install(manager: Any) -> None:
        get_code_manager = manager.code_manager if isinstance(value, FunctionType) else None
        about = (f"{name}.__code__", code, None)
        if get_code_manager is not None:
            code_manager = get_code_manager(*about)
        else:
            code_manager = manager.getattr_manager("__code__", *about)
        code_manager.add_id_match_guard(expected_object.address, [text], None)

    if isinstance(value, FunctionType):
        address = expected_object.address
        return Leaf(weak, text, lambda v: isinstance(v, FunctionType) and id(v.__code__) == address, install)
    return Leaf(weak, text, lambda v: id(getattr(v, "__code__", None)) == expected_object.address, install)


def none_match(guard: Guard, name: str, value: object) -> Leaf:
    text = f"{name} is None"
    return Leaf(guard, text, lambda value: value is None, lambda m: m.add_none_match_guard([text], None))


def bool_match(guard: Guard, name: str, value: object) -> Leaf:
    text, expected = f"{name} == {guard.expected!r}", guard.expected
    return Leaf(
        guard,
        text,
        lambda value: value is expected,
        lambda m: (m.add_true_match_guard if expected else m.add_false_match_guard)([text], None),
    )


def equals_match(guard: Guard, name: str, value: object) -> Leaf:
    text, expected = f"{name} == {shown(guard.expected)}", guard.expected

    def install(manager: Any) -> None:
        manager.add_equals_match_guard(expected, [text], None)  # same type and ==
        # ``==`` of the tree takes ``0.0`` for ``-0.0`` and ``(1,)`` for ``(True,)``, which compute other results.
        if has_equal_lookalike(expected):
            manager.add_lambda_guard(lambda value: is_same_value(value, expected), [text], None)

    return Leaf(guard, text, lambda value: is_same_value(value, expected), install)


def shown(value: object) -> str:
    """Text of a value; Python does not write an int of thousands of digits."""
    try:
        return repr(value)
    except ValueError:
        return "..."


def nan_match(guard: Guard, name: str, value: object) -> Leaf:
    expected = guard.expected
    if isinstance(
        expected, complex
    ):  # torch takes all complex NaN for one; their other part is a constant of the graph
        text = f"__numpy_isnan({name})"
        holds: Predicate = lambda value: is_same_value(value, expected)
        return Leaf(guard, text, holds, lambda manager: manager.add_lambda_guard(holds, [text], None))
    text = f"__math_isnan({name})"
    return Leaf(guard, text, _is_nan, lambda manager: torch_internals.add_nan_guard(manager, text, _is_nan))


def _is_nan(value: object) -> bool:
    return type(value) is float and math.isnan(value)


def subclasses(guard: Guard, name: str, value: object) -> Leaf:
    """Guard on results of ``issubclass`` for abstract classes; the value is a token that a registration changes."""
    expected = ExpectedSubclasses(cast("tuple[tuple[type, type, bool], ...]", guard.expected))
    text = f"___subclass_answers({name})"
    # ``issubclass`` runs at the first check, and again only after a class was registered anywhere.
    known: list[object] = [None]

    def holds(token: object) -> bool:
        if token == known[0]:
            return True
        if not all(issubclass(subject, cls) is answer for subject, cls, answer in expected.get()):
            return False
        known[0] = token
        return True

    safe = never_raising(holds)
    return Leaf(replace(guard, expected=expected), text, safe, lambda m: m.add_lambda_guard(safe, [text], None))


def has_attribute(guard: Guard, name: str, value: object) -> Leaf:
    attribute, has = cast("tuple[str, bool]", guard.expected)
    text = f"hasattr({name}, {attribute!r})"
    text = text if has else f"not {text}"

    def holds(value: object) -> bool:
        return hasattr(value, attribute) is has

    def install(manager: Any) -> None:
        if has:
            manager.add_lambda_guard(never_raising(holds), [text], None)
        else:
            manager.add_no_hasattr_guard(attribute, [text], None)

    return Leaf(guard, text, holds, install)


def not_in_generic_dict(guard: Guard, name: str, value: object) -> Leaf:
    attribute = cast("str", guard.expected)
    text = f"not ___dict_contains({attribute!r}, {name}.__dict__)"

    def install(manager: Any) -> None:
        dict_manager = manager.get_generic_dict_manager(f"{name}.__dict__", object(), None)
        dict_manager.add_dict_contains_guard(False, attribute, [text], None)

    return Leaf(guard, text, lambda value: attribute not in vars(value), install)


def tuple_iterator_length(guard: Guard, name: str, value: object) -> Leaf:
    length, cls = cast("int", guard.expected), type(value)
    text = f"___tuple_iterator_len({name}) == {length}"
    return Leaf(
        guard,
        text,
        lambda value: type(value) is cls and operator.length_hint(value) == length,
        lambda manager: manager.add_tuple_iterator_length_guard(length, id(cls), [text], None),
    )


def range_iterator(guard: Guard, name: str, value: object) -> Leaf:
    start, stop, step = cast("tuple[int, int, int]", guard.expected)
    text = f"___normalize_range_iter({name}) == {guard.expected!r}"
    cls, expected = type(value), range(start, stop, step)

    def holds(value: object) -> bool:
        return type(value) is cls and remaining(value) == expected

    return Leaf(guard, text, holds, lambda m: m.add_lambda_guard(holds, [text], None))
