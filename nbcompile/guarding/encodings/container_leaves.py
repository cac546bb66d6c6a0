"""Guards on what a container has: lengths, keys and members; text, predicate and leaf guard of each.

    DICT_KEYS    text  list(dict.keys(L['d'])) == ['a']     install  add_mapping_keys_guard

The class of the container is checked first: the length or the look-up of another class may run the user's code.

In torch: GuardBuilder in torch/_dynamo/guards.py. Read next: nbcompile/guarding/encodings/tensor_leaves.py
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any, cast

from nbcompile.capture.guard import Guard
from nbcompile.capture.resolution import keys_of
from nbcompile.guarding.encodings.leaves import type_text
from nbcompile.guarding.prepared import ExpectedKey, ExpectedObject, Leaf
from nbcompile.guarding.values import (
    describe_value,
    has_lookalikes,
    has_member,
    is_immortal,
    is_same_value,
    never_raising,
)
from nbcompile.support.real_class import is_instance


def sequence_length(guard: Guard, name: str, value: object) -> Leaf:
    if is_instance(value, dict):
        return dict_length(guard, name, value)
    length, cls = cast("int", guard.expected), ExpectedObject(type(value))
    text = f"len({name}) == {length}" if length else f"not {name}"
    of_type = type_text(name, type(value))
    sized_in_c = is_instance(value, list | tuple | str | range)

    def holds(value: object) -> bool:
        return id(type(value)) == cls.address and len(cast("list[object]", value)) == length

    def install(manager: Any) -> None:
        manager.add_type_match_guard(cls.address, [of_type], None)  # C++ would raise for a value without a length
        if sized_in_c:
            manager.add_length_check_guard(length, [text], None)
        else:
            manager.add_lambda_guard(lambda value: len(value) == length, [text], None)

    return Leaf(guard, text, holds, install)


def dict_length(guard: Guard, name: str, value: object) -> Leaf:
    length = cast("int", guard.expected)
    text = f"len({name}) == {length}" if length else f"not {name}"
    return Leaf(
        guard,
        text,
        lambda value: is_instance(value, dict) and dict.__len__(value) == length,
        lambda manager: manager.add_dict_length_check_guard(length, [text], None),
    )


def dict_keys(guard: Guard, name: str, value: object) -> Leaf:
    keys = cast("tuple[object, ...]", guard.expected)
    text = f"list(dict.keys({name})) == {list(keys)!r}"

    def holds(value: object) -> bool:
        # In the order of an OrderedDict, which ``dict.keys`` ignores.
        return is_instance(value, dict | MappingProxyType) and is_same_value(tuple(keys_of(value)), keys)

    def install(manager: Any) -> None:
        if is_instance(value, MappingProxyType):
            manager.add_lambda_guard(holds, [text], None)
            return
        # The length guard fails for a value that is no dict; the key guard would dereference a null pointer.
        manager.add_dict_length_check_guard(len(keys), [text], None)
        # Strings have no lookalikes, so that the C++ guard's comparison by ``==`` is enough.
        if type(value) is dict and all(type(key) is str for key in keys):
            manager.add_mapping_keys_guard(dict.fromkeys(keys), [text], None)
        else:
            manager.add_lambda_guard(holds, [text], None)

    return Leaf(guard, text, holds, install)


def dict_contains(guard: Guard, name: str, value: object) -> Leaf:
    key, contains = cast("tuple[object, bool]", guard.expected)
    text = f"___dict_contains({type.__repr__(key) if isinstance(key, type) else repr(key)}, {name})"
    text = text if contains else f"not {text}"
    is_dict, cls, of_type = is_instance(value, dict), ExpectedObject(type(value)), type_text(name, type(value))
    if isinstance(key, type) and not is_immortal(key):
        return _contains_mortal(guard, text, cls, ExpectedKey(key, contains))

    def holds(value: object) -> bool:
        return id(type(value)) == cls.address and ((key in cast("dict[object, object]", value)) is contains)

    def install(manager: Any) -> None:
        manager.add_type_match_guard(cls.address, [of_type], None)  # a value that is no dict would lack every key
        if is_dict:
            manager.add_dict_contains_guard(contains, key, [text], None)
        else:
            manager.add_lambda_guard(never_raising(holds), [text], None)

    return Leaf(guard, text, holds, install)


def _contains_mortal(guard: Guard, text: str, cls: ExpectedObject, expected: ExpectedKey) -> Leaf:
    """A guard on a key that the guard does not keep alive: a class of a notebook cell, say."""

    def holds(value: object) -> bool:
        key = expected.key()
        return (
            key is not None
            and id(type(value)) == cls.address
            and ((key in cast("dict[object, object]", value)) is expected.contains)
        )

    weak = replace(guard, expected=expected)
    return Leaf(weak, text, holds, lambda manager: manager.add_lambda_guard(never_raising(holds), [text], None))


def set_contains(guard: Guard, name: str, value: object) -> Leaf:
    item, contains = cast("tuple[object, bool]", guard.expected)
    text = f"set.__contains__({name}, {item!r})"
    text = text if contains else f"not {text}"
    cls, of_type = ExpectedObject(type(value)), type_text(name, type(value))

    def holds(value: object) -> bool:
        return id(type(value)) == cls.address and (has_member(cast("set[object]", value), item) is contains)

    def install(manager: Any) -> None:
        manager.add_type_match_guard(cls.address, [of_type], None)
        manager.add_set_contains_guard(contains, item, [text], None)
        if contains and has_lookalikes(item):
            manager.add_lambda_guard(holds, [text], None)

    return Leaf(guard, text, holds, install)


def set_members(guard: Guard, name: str, value: object) -> Leaf:
    expected = cast("frozenset[object]", guard.expected)
    cls, kinds = ExpectedObject(type(value)), set(map(type, expected))
    text = f"{name} == {describe_value(expected)}"
    # 1 == True: where the members have several types, each member is compared together with its type.
    typed = None if len(kinds) == 1 else frozenset(zip(map(type, expected), expected, strict=True))
    plain = type(value) in (set, frozenset)

    def holds(value: object) -> bool:
        if id(type(value)) != cls.address:
            return False
        # A class may have an ``__iter__`` and a ``__len__`` of its own.
        members = cast("set[object]", value) if plain else frozenset(keys_of(value))
        if len(members) != len(expected) or not kinds.issuperset(map(type, members)):
            return False  # first, so that no ``==`` of the user's runs
        return members == expected if typed is None else typed.issuperset(zip(map(type, members), members, strict=True))

    return Leaf(guard, text, holds, lambda manager: manager.add_lambda_guard(holds, [text], None))


def set_order(guard: Guard, name: str, value: object) -> Leaf:
    expected = cast("tuple[object, ...]", guard.expected)
    cls, kinds, text = (
        ExpectedObject(type(value)),
        tuple(map(type, expected)),
        f"list({name}) == {list(expected)!r:.200}",
    )

    def holds(value: object) -> bool:
        if id(type(value)) != cls.address:
            return False
        items = tuple(keys_of(value))
        return tuple(map(type, items)) == kinds and items == expected  # types first: no ``==`` of the user's runs

    return Leaf(guard, text, holds, lambda manager: manager.add_lambda_guard(holds, [text], None))
