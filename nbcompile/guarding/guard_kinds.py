"""What each kind of guard checks, in one table: its text, its meaning in Python, its form in torch's C++ tree.

    EQUALS_MATCH    text  L['k'] == 3      holds  lambda v: same(v, 3)      install  add_equals_match_guard(3)

``text`` is what people read, ``install`` is what runs at every call, ``holds``
is the slow and obvious meaning, used to explain a refusal and to test
``install``. A guard must not keep what it recognises alive (a superseded
notebook cell would never go away), so classes, functions and other objects are
held weakly; when one of them dies, the guard can never hold again.

In torch: GuardBuilder in torch/_dynamo/guards.py. Read next: nbcompile/guarding/check.py
"""

from __future__ import annotations

import copy
import enum
import math
import operator
import re
import reprlib
import sys
import weakref
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import CodeType, FunctionType, MappingProxyType
from typing import Any, cast

import torch

from nbcompile import torch_internals
from nbcompile.capture.guard import Guard, GuardKind, TensorFacts, TensorMarks
from nbcompile.capture.source import Source, kind_of_member
from nbcompile.torch_internals import members

Predicate = Callable[[Any], bool]
Installer = Callable[[Any], None]


class Kept:
    """An expected object: weakly where that is possible, else strongly; recognised by its address."""

    __slots__ = ("_strong", "_weak", "address")

    def __init__(self, value: object) -> None:
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
        """Call back when the object dies (an object that is held strongly never does)."""
        if self._weak is not None and (value := self._weak()) is not None:
            # When Python ends, objects die in any order, the modules behind the callback among them.
            ending = sys.is_finalizing
            self._weak = weakref.ref(value, lambda _: None if ending() else callback())


@dataclass(frozen=True, slots=True)
class Like:
    """What a tensor has to be, whatever its sizes."""

    cls: Kept
    dtype: torch.dtype
    device: torch.device
    requires_grad: bool
    keys: int
    """The dispatch keys, as one number."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """One guard, ready: its text, its meaning and its installer (all three built from the same guard)."""

    guard: Guard
    """With ``expected`` a :class:`Kept` where the object may not be kept alive."""
    text: str
    holds: Predicate
    """Given the value at the guard's source."""
    install: Installer
    """Given the manager of the guard's source."""
    like: Like | None = None
    """What a TENSOR_MATCH asks beside sizes and strides."""
    of_class: Callable[[type], bool] | None = None
    """What is asked of the members of the class, beside which class it is."""

    def installed(self) -> Leaf:
        """The same without its installer, which still holds the value that was traced."""
        return replace(self, install=_spent)

    def strong_guard(self) -> Guard:
        """The guard as the tracer made it (``expected`` is None if it died)."""
        kept = self.guard.expected
        if not isinstance(kept, Kept):
            return self.guard
        return replace(self.guard, expected=kept.get())

    def wanted(self) -> str:
        """The expected value as text."""
        expected = self.strong_guard().expected
        return "" if isinstance(expected, TensorFacts | TensorMarks) else short(expected)


def _spent(_: object) -> None:
    raise AssertionError("a guard is installed once")


def leaf(guard: Guard, name: str, value: object) -> Leaf:
    """Prepare a guard about one value: ``name`` is its source as an expression.

    ``value`` is what is there now: the traced value, or that of the first call of a process that loads the guard from
    the store. What a guard promises is read from ``guard.expected`` and, where it promises the class of the value (or
    dtype, device, dispatch keys), from a value that the disk cache has found to be like the traced one in these.

    Raises:
        KeyError: the kind is about several values (check.py installs those).
    """
    made = _KINDS[guard.kind](guard, name, value)
    return _with_members(made, name) if guard.members else made


def _with_members(made: Leaf, name: str) -> Leaf:
    """The same, and the class has members of the kinds that were looked up."""
    unchanged, is_class = Members(made.guard.members), made.guard.kind is GuardKind.ID_MATCH
    names = ", ".join(name for name, _ in made.guard.members)
    text = f"___check_members({name if is_class else f'type({name})'}, {names:.80})"

    def holds(value: object) -> bool:
        return made.holds(value) and unchanged(cast("type", value) if is_class else type(value))

    def install(manager: Any) -> None:
        made.install(manager)
        manager.add_lambda_guard(unchanged if is_class else lambda value: unchanged(type(value)), [text], None)

    return replace(made, holds=holds, install=install, of_class=unchanged)


class Members:
    """Whether a class has members of these kinds: they are looked at once for each version of the class."""

    __slots__ = ("_address", "_kinds", "_now", "_seen")

    def __init__(self, kinds: tuple[tuple[str, str], ...]) -> None:
        self._kinds = kinds
        self._address = self._seen = 0
        self._now: Any = None
        """Of the class at that address, where its version is; read only when this very class is asked about."""

    def __call__(self, cls: type) -> bool:
        """Whether the members are of these kinds now."""
        if id(cls) == self._address and self._now.value == self._seen:
            return True
        now = members.place_of_version(cls)
        seen = now.value
        if any(kind_of_member(cls, name) != kind for name, kind in self._kinds):
            return False
        self._address, self._now, self._seen = (id(cls), now, seen) if seen else (0, None, 0)
        return True


def short(value: object) -> str:
    """A value as text, of bounded length; a ``__repr__`` that the user wrote is not run."""
    if isinstance(value, torch.Tensor):
        return f"tensor of {tuple(value.shape)}, {value.dtype}, {value.device}"
    if isinstance(value, FunctionType):
        value = value.__code__
    if isinstance(value, CodeType):
        return f"{value.co_qualname} ({Path(value.co_filename).name}:{value.co_firstlineno})"
    if isinstance(value, type):
        return value.__qualname__
    try:
        text = re.sub(r" at 0x[0-9a-f]+", "", _told.repr(value))  # addresses differ between two equal runs
    except Exception:  # noqa: BLE001 - a subclass of a container may raise anything
        text = f"<{type(value).__name__}>"
    return text if len(text) <= 120 else text[:117] + "..."


class _Told(reprlib.Repr):
    """Values inside of containers too; of an object whose ``__repr__`` may hang, fail or be endless, its class."""

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


_told = _Told()


def same(value: object, expected: object) -> bool:
    """The same value: ``1``, ``True`` and ``1.0`` are three values, so are ``0.0`` and ``-0.0``; all NaN are one."""
    if type(value) is not type(expected):
        return False
    if isinstance(expected, tuple):
        if set(map(type, expected)) == {str} == set(map(type, cast("tuple[object, ...]", value))):
            return value == expected  # in C: the keys of a table, most often
        pairs = zip(cast("tuple[object, ...]", value), expected, strict=False)
        return len(value) == len(expected) and all(same(a, b) for a, b in pairs)  # type: ignore[arg-type]
    if isinstance(expected, slice):
        return same(_parts(value), _parts(expected))
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
        return same(other.real, expected.real) and same(other.imag, expected.imag)
    return bool(value == expected)


def _parts(value: object) -> tuple[object, object, object]:
    piece = cast("slice", value)
    return piece.start, piece.stop, piece.step


def _keeping(guard: Guard, value: object) -> tuple[Guard, Kept]:
    kept = Kept(value)
    return replace(guard, expected=kept), kept


# -- one function per kind -------------------------------------------------------------------------------------------


def _type_match(guard: Guard, name: str, value: object) -> Leaf:
    assert isinstance(guard.expected, type)
    text = _type_text(name, guard.expected)
    weak, kept = _keeping(guard, guard.expected)
    return Leaf(
        weak,
        text,
        lambda value: id(type(value)) == kept.address,
        lambda manager: manager.add_type_match_guard(kept.address, [text], None),
    )


def _type_text(name: str, cls: type) -> str:
    return f"___check_type_id({name}, ..), type={type.__repr__(cls)}"  # whatever its metaclass says


def _id_match(guard: Guard, name: str, value: object) -> Leaf:
    expected = guard.expected
    shown = expected if isinstance(expected, type) else type(expected)
    text = f"___check_obj_id({name}, ..), type={type.__repr__(shown)}"
    weak, kept = _keeping(guard, expected)
    return Leaf(
        weak,
        text,
        lambda value: id(value) == kept.address,
        lambda manager: manager.add_id_match_guard(kept.address, [text], None),
    )


def _function_match(guard: Guard, name: str, value: object) -> Leaf:
    code = guard.expected if isinstance(guard.expected, CodeType) else getattr(guard.expected, "__code__", None)
    if not isinstance(code, CodeType):  # a builtin function: it is what it is
        return _id_match(guard, name, value)
    text = f"___check_obj_id({name}.__code__, ..), type=<class 'code'>"
    weak, kept = _keeping(guard, code)

    def install(manager: Any) -> None:
        reach = manager.code_manager if isinstance(value, FunctionType) else None
        about = (f"{name}.__code__", code, None)
        below = reach(*about) if reach is not None else manager.getattr_manager("__code__", *about)
        below.add_id_match_guard(kept.address, [text], None)

    if isinstance(value, FunctionType):
        return Leaf(weak, text, lambda v: isinstance(v, FunctionType) and id(v.__code__) == kept.address, install)
    return Leaf(weak, text, lambda v: id(getattr(v, "__code__", None)) == kept.address, install)


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
        if _has_equal_lookalike(expected):
            manager.add_lambda_guard(lambda value: same(value, expected), [text], None)

    return Leaf(guard, text, lambda value: same(value, expected), install)


def _has_equal_lookalike(expected: object) -> bool:
    """Whether some value of the same type is ``==`` and yet another one (``0.0``, ``(1,)``)."""
    if isinstance(expected, float):
        return expected == 0.0
    if isinstance(expected, tuple | frozenset):
        return any(isinstance(item, int | float | complex | tuple | frozenset | slice) for item in expected)
    return isinstance(expected, complex | slice)


def has_lookalikes(member: object) -> bool:
    """Whether a set may hold a member that is equal and another value: ``{True}`` has the member 1."""
    return isinstance(member, int | float | complex | tuple | frozenset)


def has_member(members: Collection[object], member: object) -> bool:
    """Whether this very value is in a set, not only one that is equal."""
    if member not in members:
        return False
    return not has_lookalikes(member) or any(found is member or same(found, member) for found in members)


def _nan_match(guard: Guard, name: str, value: object) -> Leaf:
    expected = guard.expected
    if isinstance(
        expected, complex
    ):  # torch takes all complex NaN for one; their other part is a constant of the graph
        text = f"__numpy_isnan({name})"
        holds: Predicate = lambda value: same(value, expected)
        return Leaf(guard, text, holds, lambda manager: manager.add_lambda_guard(holds, [text], None))
    text = f"__math_isnan({name})"
    return Leaf(guard, text, _is_nan, lambda manager: torch_internals.add_nan_guard(manager, text, _is_nan))


def _is_nan(value: object) -> bool:
    return type(value) is float and math.isnan(value)


def _sequence_length(guard: Guard, name: str, value: object) -> Leaf:
    if isinstance(value, dict):
        return _dict_length(guard, name, value)
    length, cls = cast("int", guard.expected), Kept(type(value))
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
            return same(tuple(value), keys)
        return isinstance(value, dict) and same(tuple(dict.keys(value)), keys)

    def install(manager: Any) -> None:
        if isinstance(value, MappingProxyType):
            manager.add_lambda_guard(holds, [text], None)
            return
        # For what is no dict, the length guard refuses; the key guard would read through a null pointer.
        manager.add_dict_length_check_guard(len(keys), [text], None)
        if type(value) is dict and all(type(key) is str for key in keys):
            manager.add_mapping_keys_guard(dict.fromkeys(keys), [text], None)
        else:
            manager.add_lambda_guard(holds, [text], None)

    return Leaf(guard, text, holds, install)


def _dict_contains(guard: Guard, name: str, value: object) -> Leaf:
    key, wanted = cast("tuple[object, bool]", guard.expected)
    text = f"___dict_contains({key!r}, {name})"
    text = text if wanted else f"not {text}"
    is_dict, cls, of_type = isinstance(value, dict), Kept(type(value)), _type_text(name, type(value))

    def holds(value: object) -> bool:
        return id(type(value)) == cls.address and ((key in cast("dict[object, object]", value)) is wanted)

    def install(manager: Any) -> None:
        manager.add_type_match_guard(cls.address, [of_type], None)  # what is no dict would lack every key
        if is_dict:
            manager.add_dict_contains_guard(wanted, key, [text], None)
        else:
            manager.add_lambda_guard(_quietly(holds), [text], None)

    return Leaf(guard, text, holds, install)


def _set_contains(guard: Guard, name: str, value: object) -> Leaf:
    item, wanted = cast("tuple[object, bool]", guard.expected)
    text = f"set.__contains__({name}, {item!r})"
    text = text if wanted else f"not {text}"
    cls, of_type = Kept(type(value)), _type_text(name, type(value))

    def holds(value: object) -> bool:
        return id(type(value)) == cls.address and (has_member(cast("set[object]", value), item) is wanted)

    def install(manager: Any) -> None:
        manager.add_type_match_guard(cls.address, [of_type], None)
        manager.add_set_contains_guard(wanted, item, [text], None)
        if wanted and has_lookalikes(item):
            manager.add_lambda_guard(holds, [text], None)

    return Leaf(guard, text, holds, install)


def _hasattr(guard: Guard, name: str, value: object) -> Leaf:
    attribute, wanted = cast("tuple[str, bool]", guard.expected)
    text = f"hasattr({name}, {attribute!r})"
    text = text if wanted else f"not {text}"

    def holds(value: object) -> bool:
        return hasattr(value, attribute) is wanted

    def install(manager: Any) -> None:
        if wanted:
            manager.add_lambda_guard(_quietly(holds), [text], None)
        else:
            manager.add_no_hasattr_guard(attribute, [text], None)

    return Leaf(guard, text, holds, install)


def _not_in_generic_dict(guard: Guard, name: str, value: object) -> Leaf:
    attribute = cast("str", guard.expected)
    text = f"not ___dict_contains({attribute!r}, {name}.__dict__)"

    def install(manager: Any) -> None:
        below = manager.get_generic_dict_manager(f"{name}.__dict__", object(), None)
        below.add_dict_contains_guard(False, attribute, [text], None)

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
    cls, left = type(value), tuple(range(start, stop, step))

    def holds(value: object) -> bool:
        return type(value) is cls and tuple(cast("Iterator[int]", copy.copy(value))) == left

    return Leaf(guard, text, holds, lambda m: m.add_lambda_guard(holds, [text], None))


def _tensor_match(guard: Guard, name: str, value: object) -> Leaf:
    assert isinstance(guard.expected, TensorFacts) and isinstance(value, torch.Tensor)
    facts, cls, keys = guard.expected, Kept(type(value)), torch._C._dispatch_keys(value)
    sizes = list(facts.sizes)
    strides: list[int | None] = [None] * len(sizes) if facts.strides is None else list(facts.strides)
    like = (value.dtype, value.device.type, value.device.index, value.requires_grad, keys.raw_repr())
    text = (
        f"check_tensor({name}, {type(value).__qualname__}, {keys}, {value.dtype}, device={value.device.index}, "
        f"requires_grad={value.requires_grad}, size={sizes}, stride={strides})"
    )

    def holds(value: object) -> bool:
        if id(type(value)) != cls.address:
            return False
        tensor = cast("torch.Tensor", value)
        now = (tensor.dtype, tensor.device.type, tensor.device.index, tensor.requires_grad)
        return (
            (*now, torch._C._dispatch_keys(tensor).raw_repr()) == like
            and tensor.dim() == len(sizes)
            and all(want is None or want == size for want, size in zip(sizes, tensor.shape, strict=True))
            and (set(strides) <= {None} or _agree(strides, tensor.stride()))
        )

    def install(manager: Any) -> None:
        if value.dim() != len(sizes):
            # The value need not be the traced one (it may be loaded), and torch reads no sizes as this value's sizes.
            manager.add_lambda_guard(_quietly(holds), [text], None)
            return
        manager.add_tensor_match_guard(value, sizes, strides, name, [text], None, type(value), keys)

    return Leaf(guard, text, holds, install, Like(cls, value.dtype, value.device, value.requires_grad, keys.raw_repr()))


def _agree(wanted: list[int | None], found: tuple[int, ...]) -> bool:
    return all(want is None or want == each for want, each in zip(wanted, found, strict=True))


_MARKS = (
    "_dynamo_dynamic_indices",
    "_dynamo_weak_dynamic_indices",
    "_dynamo_unbacked_indices",
    "_dynamo_strict_unbacked_indices",
    "_dynamo_static_indices",
)


def marks_of(tensor: torch.Tensor) -> TensorMarks:
    """What the user marked on a tensor, as the DIMENSION_MARKING guard expects it."""
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


def _metadata_match(guard: Guard, name: str, value: object) -> Leaf:
    expected, text = guard.expected, f"{name}.__tensor_flatten__()[1] == {guard.expected!r}"
    same: Callable[[object, object], bool] = getattr(type(value), "__metadata_guard__", operator.eq)

    def holds(value: Any) -> bool:
        return bool(same(expected, value.__tensor_flatten__()[1]))

    return Leaf(guard, text, holds, lambda manager: manager.add_lambda_guard(_quietly(holds), [text], None))


def _quietly(predicate: Predicate) -> Predicate:
    """A predicate that says no where it would raise: a check never raises into the user's call."""

    def quiet(value: object) -> bool:
        try:
            return predicate(value)
        except Exception:  # noqa: BLE001 - user code runs here (__contains__, __getattr__)
            return False

    return quiet


def meaning(leaf: Leaf, fetch: Callable[[Source], object]) -> bool:
    """Evaluate a leaf slowly; an address that leads nowhere does not hold."""
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
    GuardKind.HASATTR: _hasattr,
    GuardKind.NOT_IN_GENERIC_DICT: _not_in_generic_dict,
    GuardKind.TUPLE_ITERATOR_LEN: _tuple_iterator_length,
    GuardKind.RANGE_ITERATOR_MATCH: _range_iterator,
    GuardKind.TENSOR_MATCH: _tensor_match,
    GuardKind.TENSOR_SUBCLASS_METADATA_MATCH: _metadata_match,
    GuardKind.DIMENSION_MARKING: _dimension_marking,
}
