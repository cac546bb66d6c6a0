"""Guard kinds, in one table: the text of each, its predicate in Python, its leaf guard in torch's C++ tree.

    EQUALS_MATCH    text  L['k'] == 3      holds  lambda v: is_same_value(v, 3)      install  add_equals_match_guard(3)

``text`` is for people, ``install`` adds what runs at every call, and ``holds``
is the slow reference, which explains failures and tests ``install``. A guard
must not keep the object that it expects alive (a superseded notebook cell
would never be freed), so classes, functions and other objects are referenced
weakly; when one of them is freed, the guard can never hold again.

In torch: GuardBuilder in torch/_dynamo/guards.py. Read next: nbcompile/guarding/check.py
"""

from __future__ import annotations

import enum
import math
import operator
import re
import reprlib
import sys
import weakref
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path
from types import CodeType, FunctionType, MappingProxyType
from typing import Any, cast

import torch

from nbcompile import torch_internals
from nbcompile.capture.guard import Guard, GuardKind, TensorFacts, TensorMarks, tensor_property
from nbcompile.capture.source import Source, keys_of, kind_of_member, remaining
from nbcompile.support.class_flags import HEAP_TYPE
from nbcompile.torch_internals import members

Predicate = Callable[[Any], bool]
Installer = Callable[[Any], None]


class ExpectedObject:
    """An expected object, compared by its address: a weak reference where that is possible, else a strong one."""

    __slots__ = ("_strong", "_weak", "address")

    def __init__(self, value: object) -> None:
        # Comparing addresses is right only while the object lives: afterwards its memory may hold another object. For
        # that case ``on_death`` expires the cache entry (check.py).
        self.address = id(value)
        self._strong: object = None
        self._weak: weakref.ReferenceType[Any] | None = None
        try:
            self._weak = weakref.ref(value)
        except TypeError:
            self._strong = value

    def get(self) -> object:
        """The object; None if it died."""
        return self._strong if self._weak is None else self._weak()

    def on_death(self, callback: Callable[[], None]) -> None:
        """Call back when the object is freed (never, for a strong reference)."""
        if self._weak is not None and (value := self._weak()) is not None:
            # At interpreter exit objects are freed in any order, also the modules that the callback needs.
            ending = sys.is_finalizing
            self._weak = weakref.ref(value, lambda _: None if ending() else callback())


class ExpectedKey(ExpectedObject):
    """A class that a dict has as a key, or has not; its referent is what such a guard expects."""

    __slots__ = ("contains",)

    def __init__(self, key: type, contains: bool) -> None:
        super().__init__(key)
        self.contains = contains

    def key(self) -> object:
        """The class; None if it died."""
        return super().get()

    def get(self) -> tuple[object, bool]:
        """The key, and whether the dict has it."""
        return super().get(), self.contains


@dataclass(frozen=True, slots=True)
class TensorTraits:
    """Expected properties of a tensor, except for sizes and strides."""

    cls: ExpectedObject
    dtype: torch.dtype
    device: torch.device
    requires_grad: bool
    keys: int
    """The dispatch key set as an integer."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """One prepared guard: its text, its predicate and its installer, all three built from the same guard."""

    guard: Guard
    """The guard, with an :class:`ExpectedObject` as ``expected`` where the object may not be kept alive."""
    text: str
    holds: Predicate
    """Predicate of the value at the guard's source."""
    install: Installer
    """Function that adds the leaf guard to the manager of the guard's source."""
    like: TensorTraits | None = None
    """Further expected properties of a TENSOR_MATCH."""
    of_class: Callable[[type], bool] | None = None
    """Predicate of the class: its members are as they were."""

    def installed(self) -> Leaf:
        """The same guard without its installer, which refers to the value that was traced."""
        return replace(self, install=_already_installed)

    def strong_guard(self) -> Guard:
        """The guard as the tracer created it (``expected`` is None if the object died)."""
        expected_object = self.guard.expected
        if not isinstance(expected_object, ExpectedObject):
            return self.guard
        return replace(self.guard, expected=expected_object.get())

    def wanted(self) -> str:
        """The expected value as text."""
        expected = self.strong_guard().expected
        return "" if isinstance(expected, TensorFacts | TensorMarks) else describe_value(expected)


def _already_installed(_: object) -> None:
    raise AssertionError("a guard is installed once")


def leaf(guard: Guard, name: str, value: object) -> Leaf:
    """Prepare a guard about one value: ``name`` is its source as an expression.

    ``value`` is what is there now: the traced value, or that of the first call of a process that loads the guard from
    the store. What a guard promises is read from ``guard.expected`` and, where it promises the class of the value (or
    dtype, device, dispatch keys), from a value that the disk cache has found to be like the traced one in these.

    Raises:
        KeyError: the kind is about several values (check.py installs those).
    """
    prepared = _KINDS[guard.kind](guard, name, value)
    return _with_members(prepared, name) if guard.members else prepared


def _with_members(leaf: Leaf, name: str) -> Leaf:
    """The same guard with a check that the class still has members of the kinds that were looked up."""
    unchanged, is_class = Members(leaf.guard.members), leaf.guard.kind is GuardKind.ID_MATCH
    names = ", ".join(name for name, _ in leaf.guard.members)
    text = f"___check_members({name if is_class else f'type({name})'}, {names:.80})"

    def holds(value: object) -> bool:
        return leaf.holds(value) and unchanged(cast("type", value) if is_class else type(value))

    def install(manager: Any) -> None:
        leaf.install(manager)
        manager.add_lambda_guard(unchanged if is_class else lambda value: unchanged(type(value)), [text], None)

    return replace(leaf, holds=holds, install=install, of_class=unchanged)


class Members:
    """Predicate that a class has members of these kinds; evaluated once per version of the class."""

    __slots__ = ("_address", "_kinds", "_now", "_seen")

    def __init__(self, kinds: tuple[tuple[str, str], ...]) -> None:
        self._kinds = kinds
        self._address = self._seen = 0
        self._now: Any = None
        """The version tag of the class at that address, read in place; valid only while the class is this one."""

    def __call__(self, cls: type) -> bool:
        """Return whether the members are of these kinds now."""
        # CPython gives a class another version tag when it or one of its bases changes.
        if id(cls) == self._address and self._now.value == self._seen:
            return True
        now = members.place_of_version(cls)
        # Read before the members: a change during the look-up leaves an old tag, and the next call looks again.
        seen = now.value
        if any(kind_of_member(cls, name) != kind for name, kind in self._kinds):
            return False
        # Tag 0 means that CPython tracks no version of this class at present, so nothing can be remembered.
        self._address, self._now, self._seen = (id(cls), now, seen) if seen else (0, None, 0)
        return True


def describe_value(value: object) -> str:
    """Describe a value as text of bounded length, without running a ``__repr__`` of the user."""
    if isinstance(value, torch.Tensor):
        return f"tensor of {tuple(value.shape)}, {value.dtype}, {value.device}"
    if isinstance(value, FunctionType):
        value = value.__code__
    if isinstance(value, CodeType):
        return f"{value.co_qualname} ({Path(value.co_filename).name}:{value.co_firstlineno})"
    if isinstance(value, type):
        return value.__qualname__
    try:
        text = re.sub(r" at 0x[0-9a-f]+", "", _safe_repr.repr(value))  # addresses differ between two equal runs
    except Exception:  # noqa: BLE001 - a subclass of a container may raise anything
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 120 else text[:117] + "..."


class _SafeRepr(reprlib.Repr):
    """Bounded ``repr`` of nested values; an object with a ``__repr__`` of the user's is shown by its class."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = self.maxfrozenset = self.maxdeque = 20
        self.maxstring = self.maxother = self.maxlong = 120

    def repr_instance(self, x: Any, level: int) -> str:
        if isinstance(x, enum.Enum):
            return f"{type(x).__qualname__}.{x._name_}"
        if isinstance(type(x).__repr__, FunctionType):
            return f"<{type(x).__qualname__}>"
        return super().repr_instance(x, level)


_safe_repr = _SafeRepr()


def _are_same_values(values: tuple[object, ...], expected: tuple[object, ...]) -> bool:
    if set(map(type, expected)) == {str} == set(map(type, values)):
        return values == expected  # the fast path: keys of a dict, most often
    return len(values) == len(expected) and all(map(is_same_value, values, expected))


def is_same_value(value: object, expected: object) -> bool:
    """Return whether two values are identical: ``1``, ``True``, ``1.0`` differ, so do ``0.0``, ``-0.0``; NaN is NaN."""
    if type(value) is not type(expected):
        return False
    if isinstance(expected, tuple):
        return _are_same_values(cast("tuple[object, ...]", value), expected)
    if isinstance(expected, slice):
        return is_same_value(_parts(value), _parts(expected))
    if isinstance(expected, frozenset):
        return value == expected and {type(item) for item in cast("frozenset[object]", value)} == {
            type(item) for item in expected
        }
    if isinstance(expected, float):
        number = cast("float", value)
        if math.isnan(expected):
            return math.isnan(number)
        return number == expected and math.copysign(1.0, number) == math.copysign(1.0, expected)
    if isinstance(expected, complex):
        other = cast("complex", value)
        return is_same_value(other.real, expected.real) and is_same_value(other.imag, expected.imag)
    return bool(value == expected)


def _parts(value: object) -> tuple[object, object, object]:
    part = cast("slice", value)
    return part.start, part.stop, part.step


def _with_expected_object(guard: Guard, value: object) -> tuple[Guard, ExpectedObject]:
    expected_object = ExpectedObject(value)
    return replace(guard, expected=expected_object), expected_object


# -- one function per kind -------------------------------------------------------------------------------------------


def _type_match(guard: Guard, name: str, value: object) -> Leaf:
    assert isinstance(guard.expected, type)
    text = _type_text(name, guard.expected)
    weak, expected_object = _with_expected_object(guard, guard.expected)
    return Leaf(
        weak,
        text,
        lambda value: id(type(value)) == expected_object.address,
        lambda manager: manager.add_type_match_guard(expected_object.address, [text], None),
    )


def _type_text(name: str, cls: type) -> str:
    return f"___check_type_id({name}, ..), type={type.__repr__(cls)}"  # whatever its metaclass says


def _id_match(guard: Guard, name: str, value: object) -> Leaf:
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


def _function_match(guard: Guard, name: str, value: object) -> Leaf:
    # All functions of one ``def`` share its code: a closure made anew passes. Cells and defaults that were used have
    # guards of their own.
    code = guard.expected if isinstance(guard.expected, CodeType) else getattr(guard.expected, "__code__", None)
    if not isinstance(code, CodeType):  # a builtin function has no code to compare
        return _id_match(guard, name, value)
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


def _none_match(guard: Guard, name: str, value: object) -> Leaf:
    text = f"{name} is None"
    return Leaf(guard, text, lambda value: value is None, lambda m: m.add_none_match_guard([text], None))


def _bool_match(guard: Guard, name: str, value: object) -> Leaf:
    text, expected = f"{name} == {guard.expected!r}", guard.expected
    return Leaf(
        guard,
        text,
        lambda value: value is expected,
        lambda m: (m.add_true_match_guard if expected else m.add_false_match_guard)([text], None),
    )


def _equals_match(guard: Guard, name: str, value: object) -> Leaf:
    text, expected = f"{name} == {guard.expected!r}", guard.expected

    def install(manager: Any) -> None:
        manager.add_equals_match_guard(expected, [text], None)  # same type and ==
        # ``==`` of the tree takes ``0.0`` for ``-0.0`` and ``(1,)`` for ``(True,)``, which compute other results.
        if _has_equal_lookalike(expected):
            manager.add_lambda_guard(lambda value: is_same_value(value, expected), [text], None)

    return Leaf(guard, text, lambda value: is_same_value(value, expected), install)


def _has_equal_lookalike(expected: object) -> bool:
    """Return whether some value of the same type is ``==`` but not identical (``0.0``, ``(1,)``)."""
    if isinstance(expected, float):
        return expected == 0.0
    if isinstance(expected, tuple | frozenset):
        return any(isinstance(item, int | float | complex | tuple | frozenset | slice) for item in expected)
    return isinstance(expected, complex | slice)


def has_lookalikes(member: object) -> bool:
    """Return whether a set may have a member that is equal but not identical: ``{True}`` has the member 1."""
    return isinstance(member, int | float | complex | tuple | frozenset)


def has_member(members: Collection[object], member: object) -> bool:
    """Return whether the value itself is in a set, not only one that is equal."""
    if isinstance(members, set | frozenset):  # what is in it, whatever methods its class has
        base: Any = set if isinstance(members, set) else frozenset
        is_there, items = base.__contains__(members, member), base.__iter__(members)
    else:
        is_there, items = member in members, iter(members)
    return is_there and (
        not has_lookalikes(member) or any(found is member or is_same_value(found, member) for found in items)
    )


def _set_members(guard: Guard, name: str, value: object) -> Leaf:
    expected = cast("frozenset[object]", guard.expected)
    cls, kinds = ExpectedObject(type(value)), set(map(type, expected))
    text = f"{name} == {describe_value(expected)}"
    # One equal member for each, and 1 is equal to True: their types are compared with them where there are several.
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


def _set_order(guard: Guard, name: str, value: object) -> Leaf:
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


def _nan_match(guard: Guard, name: str, value: object) -> Leaf:
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


def _sequence_length(guard: Guard, name: str, value: object) -> Leaf:
    if isinstance(value, dict):
        return _dict_length(guard, name, value)
    length, cls = cast("int", guard.expected), ExpectedObject(type(value))
    text = f"len({name}) == {length}" if length else f"not {name}"
    of_type = _type_text(name, type(value))
    sized_in_c = isinstance(value, list | tuple | str | range)

    def holds(value: object) -> bool:
        return id(type(value)) == cls.address and len(cast("list[object]", value)) == length

    def install(manager: Any) -> None:
        manager.add_type_match_guard(cls.address, [of_type], None)  # the length of no sequence at all would raise
        if sized_in_c:
            manager.add_length_check_guard(length, [text], None)
        else:
            manager.add_lambda_guard(lambda value: len(value) == length, [text], None)

    return Leaf(guard, text, holds, install)


def _dict_length(guard: Guard, name: str, value: object) -> Leaf:
    length = cast("int", guard.expected)
    text = f"len({name}) == {length}" if length else f"not {name}"
    return Leaf(
        guard,
        text,
        lambda value: isinstance(value, dict) and dict.__len__(value) == length,
        lambda manager: manager.add_dict_length_check_guard(length, [text], None),
    )


def _dict_keys(guard: Guard, name: str, value: object) -> Leaf:
    keys = cast("tuple[object, ...]", guard.expected)
    text = f"list(dict.keys({name})) == {list(keys)!r}"

    def holds(value: object) -> bool:
        if isinstance(value, MappingProxyType):
            return is_same_value(tuple(value), keys)
        return isinstance(value, dict) and is_same_value(tuple(dict.keys(value)), keys)

    def install(manager: Any) -> None:
        if isinstance(value, MappingProxyType):
            manager.add_lambda_guard(holds, [text], None)
            return
        # The length guard fails for what is no dict; the key guard would dereference a null pointer.
        manager.add_dict_length_check_guard(len(keys), [text], None)
        # Strings have no lookalikes, so that the C++ guard's comparison by ``==`` is enough.
        if type(value) is dict and all(type(key) is str for key in keys):
            manager.add_mapping_keys_guard(dict.fromkeys(keys), [text], None)
        else:
            manager.add_lambda_guard(holds, [text], None)

    return Leaf(guard, text, holds, install)


def _dict_contains(guard: Guard, name: str, value: object) -> Leaf:
    key, contains = cast("tuple[object, bool]", guard.expected)
    text = f"___dict_contains({type.__repr__(key) if isinstance(key, type) else repr(key)}, {name})"
    text = text if contains else f"not {text}"
    is_dict, cls, of_type = isinstance(value, dict), ExpectedObject(type(value)), _type_text(name, type(value))
    if isinstance(key, type) and not is_immortal(key):
        return _contains_mortal(guard, text, cls, ExpectedKey(key, contains))

    def holds(value: object) -> bool:
        return id(type(value)) == cls.address and ((key in cast("dict[object, object]", value)) is contains)

    def install(manager: Any) -> None:
        manager.add_type_match_guard(cls.address, [of_type], None)  # what is no dict would lack every key
        if is_dict:
            manager.add_dict_contains_guard(contains, key, [text], None)
        else:
            manager.add_lambda_guard(_never_raising(holds), [text], None)

    return Leaf(guard, text, holds, install)


def is_immortal(cls: type) -> bool:
    """Return whether a class lives as long as the process: one in C, or one that an imported module holds."""
    if not cls.__flags__ & HEAP_TYPE:
        return True
    module = None if cls.__module__ == "__main__" else sys.modules.get(str(cls.__module__))
    return module is not None and vars(module).get(cls.__qualname__) is cls


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
    return Leaf(weak, text, holds, lambda manager: manager.add_lambda_guard(_never_raising(holds), [text], None))


def _set_contains(guard: Guard, name: str, value: object) -> Leaf:
    item, contains = cast("tuple[object, bool]", guard.expected)
    text = f"set.__contains__({name}, {item!r})"
    text = text if contains else f"not {text}"
    cls, of_type = ExpectedObject(type(value)), _type_text(name, type(value))

    def holds(value: object) -> bool:
        return id(type(value)) == cls.address and (has_member(cast("set[object]", value), item) is contains)

    def install(manager: Any) -> None:
        manager.add_type_match_guard(cls.address, [of_type], None)
        manager.add_set_contains_guard(contains, item, [text], None)
        if contains and has_lookalikes(item):
            manager.add_lambda_guard(holds, [text], None)

    return Leaf(guard, text, holds, install)


def _hasattr(guard: Guard, name: str, value: object) -> Leaf:
    attribute, has = cast("tuple[str, bool]", guard.expected)
    text = f"hasattr({name}, {attribute!r})"
    text = text if has else f"not {text}"

    def holds(value: object) -> bool:
        return hasattr(value, attribute) is has

    def install(manager: Any) -> None:
        if has:
            manager.add_lambda_guard(_never_raising(holds), [text], None)
        else:
            manager.add_no_hasattr_guard(attribute, [text], None)

    return Leaf(guard, text, holds, install)


def _not_in_generic_dict(guard: Guard, name: str, value: object) -> Leaf:
    attribute = cast("str", guard.expected)
    text = f"not ___dict_contains({attribute!r}, {name}.__dict__)"

    def install(manager: Any) -> None:
        dict_manager = manager.get_generic_dict_manager(f"{name}.__dict__", object(), None)
        dict_manager.add_dict_contains_guard(False, attribute, [text], None)

    return Leaf(guard, text, lambda value: attribute not in vars(value), install)


def _tuple_iterator_length(guard: Guard, name: str, value: object) -> Leaf:
    length, cls = cast("int", guard.expected), type(value)
    text = f"___tuple_iterator_len({name}) == {length}"
    return Leaf(
        guard,
        text,
        lambda value: type(value) is cls and operator.length_hint(value) == length,
        lambda manager: manager.add_tuple_iterator_length_guard(length, id(cls), [text], None),
    )


def _range_iterator(guard: Guard, name: str, value: object) -> Leaf:
    start, stop, step = cast("tuple[int, int, int]", guard.expected)
    text = f"___normalize_range_iter({name}) == {guard.expected!r}"
    cls, expected = type(value), range(start, stop, step)

    def holds(value: object) -> bool:
        return type(value) is cls and remaining(value) == expected

    return Leaf(guard, text, holds, lambda m: m.add_lambda_guard(holds, [text], None))


def _tensor_match(guard: Guard, name: str, value: object) -> Leaf:
    assert isinstance(guard.expected, TensorFacts) and isinstance(value, torch.Tensor)
    metadata, cls, keys = guard.expected, ExpectedObject(type(value)), torch._C._dispatch_keys(value)
    # A size that is a symbol is None here: conditions on it are in the SHAPE_ENV guard.
    sizes = list(metadata.sizes)
    strides: list[int | None] = [None] * len(sizes) if metadata.strides is None else list(metadata.strides)
    traits = (value.dtype, value.device.type, value.device.index, value.requires_grad, keys.raw_repr())
    text = (
        f"check_tensor({name}, {type(value).__qualname__}, {keys}, {value.dtype}, device={value.device.index}, "
        f"requires_grad={value.requires_grad}, size={sizes}, stride={strides})"
    )

    def holds(value: object) -> bool:
        if id(type(value)) != cls.address:
            return False
        tensor = cast("torch.Tensor", value)
        current = (tensor.dtype, tensor.device.type, tensor.device.index, tensor.requires_grad)
        return (
            (*current, torch._C._dispatch_keys(tensor).raw_repr()) == traits
            and tensor.dim() == len(sizes)
            and all(expected is None or expected == size for expected, size in zip(sizes, tensor.shape, strict=True))
            and (set(strides) <= {None} or _strides_match(strides, tensor.stride()))
        )

    def install(manager: Any) -> None:
        if value.dim() != len(sizes):
            # The value need not be the traced one (it may be loaded), and torch reads no sizes as this value's sizes.
            manager.add_lambda_guard(_never_raising(holds), [text], None)
            return
        manager.add_tensor_match_guard(value, sizes, strides, name, [text], None, type(value), keys)

    expected_traits = TensorTraits(cls, value.dtype, value.device, value.requires_grad, keys.raw_repr())
    return Leaf(guard, text, holds, install, expected_traits)


def _strides_match(expected: list[int | None], found: tuple[int, ...]) -> bool:
    return all(stride is None or stride == actual for stride, actual in zip(expected, found, strict=True))


_MARKS = (
    "_dynamo_dynamic_indices",
    "_dynamo_weak_dynamic_indices",
    "_dynamo_unbacked_indices",
    "_dynamo_strict_unbacked_indices",
    "_dynamo_static_indices",
)


def marks_of(tensor: torch.Tensor) -> TensorMarks:
    """Dynamic and static marks of a tensor, as the DIMENSION_MARKING guard expects them."""
    present = tuple((name, frozenset(getattr(tensor, name))) for name in _MARKS if hasattr(tensor, name))
    return TensorMarks(present, tuple(name for name in _MARKS if not hasattr(tensor, name)))


def _dimension_marking(guard: Guard, name: str, value: object) -> Leaf:
    assert isinstance(guard.expected, TensorMarks)
    present, absent = dict(guard.expected.present), guard.expected.absent
    parts = [f"hasattr({name}, {mark!r}) == False" for mark in absent] + [
        f"getattr({name}, {mark!r}, set()) <= {set(dims)!r}" for mark, dims in present.items()
    ]

    def holds(value: object) -> bool:
        return not any(hasattr(value, mark) for mark in absent) and all(
            set(getattr(value, mark, ())) <= dims for mark, dims in present.items()
        )

    def install(manager: Any) -> None:
        expected = {mark: set(dims) for mark, dims in present.items()}
        if hasattr(manager, "add_dimension_marking_guard"):
            manager.add_dimension_marking_guard(expected, list(absent), {}, [text], None)
        else:  # before torch 2.13
            manager.add_lambda_guard(holds, [text], None)

    text = " and ".join(parts)
    return Leaf(guard, text, holds, install)


def _tensor_property(guard: Guard, name: str, value: object) -> Leaf:
    property_name, expected = cast("tuple[str, bool]", guard.expected)
    text = f"{name}.{spelled_property(property_name)} is {expected}"
    holds = _never_raising(lambda value: tensor_property(cast("torch.Tensor", value), property_name) is expected)
    return Leaf(guard, text, holds, lambda manager: manager.add_lambda_guard(holds, [text], None))


def spelled_property(name: str) -> str:
    """A property of a tensor as a program spells it: ``is_leaf``, ``is_shared()``."""
    return f"{name}()" if callable(getattr(torch.Tensor, name)) else name


def _metadata_match(guard: Guard, name: str, value: object) -> Leaf:
    expected, text = guard.expected, f"{name}.__tensor_flatten__()[1] == {guard.expected!r}"
    compare: Callable[[object, object], bool] = getattr(type(value), "__metadata_guard__", operator.eq)

    def holds(value: Any) -> bool:
        return bool(compare(expected, value.__tensor_flatten__()[1]))

    return Leaf(guard, text, holds, lambda manager: manager.add_lambda_guard(_never_raising(holds), [text], None))


def _never_raising(predicate: Predicate) -> Predicate:
    """Wrap a predicate to return False where it raises: a check never raises into the user's call."""

    def safe_predicate(value: object) -> bool:
        try:
            return predicate(value)
        except Exception:  # noqa: BLE001 - user code runs here (__contains__, __getattr__)
            return False

    return safe_predicate


def evaluate_leaf(leaf: Leaf, fetch: Callable[[Source], object]) -> bool:
    """Evaluate a guard's predicate; if its source cannot be resolved, it does not hold."""
    assert leaf.guard.source is not None
    try:
        return bool(leaf.holds(fetch(leaf.guard.source)))
    except Exception:  # noqa: BLE001 - as the C++ tree: what raises does not hold
        return False


_KINDS: dict[GuardKind, Callable[[Guard, str, object], Leaf]] = {
    GuardKind.TYPE_MATCH: _type_match,
    GuardKind.ID_MATCH: _id_match,
    GuardKind.FUNCTION_MATCH: _function_match,
    GuardKind.NONE_MATCH: _none_match,
    GuardKind.BOOL_MATCH: _bool_match,
    GuardKind.EQUALS_MATCH: _equals_match,
    GuardKind.NAN_MATCH: _nan_match,
    GuardKind.SEQUENCE_LENGTH: _sequence_length,
    GuardKind.DICT_LENGTH: _dict_length,
    GuardKind.DICT_KEYS: _dict_keys,
    GuardKind.DICT_CONTAINS: _dict_contains,
    GuardKind.SET_CONTAINS: _set_contains,
    GuardKind.SET_MEMBERS: _set_members,
    GuardKind.SET_ORDER: _set_order,
    GuardKind.HASATTR: _hasattr,
    GuardKind.NOT_IN_GENERIC_DICT: _not_in_generic_dict,
    GuardKind.TUPLE_ITERATOR_LEN: _tuple_iterator_length,
    GuardKind.RANGE_ITERATOR_MATCH: _range_iterator,
    GuardKind.TENSOR_MATCH: _tensor_match,
    GuardKind.TENSOR_SUBCLASS_METADATA_MATCH: _metadata_match,
    GuardKind.TENSOR_PROPERTY: _tensor_property,
    GuardKind.DIMENSION_MARKING: _dimension_marking,
}
