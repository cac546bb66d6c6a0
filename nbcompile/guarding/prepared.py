"""Prepared guards: one guard with its text, its predicate in Python and its installer in torch's C++ tree.

    Leaf       about the value at one source      L['k'] == 3
    Ambient    about the process or several       L['x'] and L['y'] are two tensors

``text`` is for people, ``install`` adds what runs at every call, and ``holds``
is the slow reference, which explains failures and tests ``install``. A guard
must not keep the object that it expects alive (a superseded notebook cell
would never be freed), so classes, functions and other objects are referenced
weakly; when one of them is freed, the guard can never hold again.

In torch: GuardBuilder in torch/_dynamo/guards.py. Read next: nbcompile/guarding/encodings/table.py
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from nbcompile.capture.guard import Guard, TensorFacts, TensorMarks
from nbcompile.capture.resolution import Scope
from nbcompile.capture.source import Source
from nbcompile.guarding.accessors import GuardTree
from nbcompile.guarding.relations import Relation
from nbcompile.guarding.values import Predicate, describe_value
from nbcompile.record.model import StackLine

Installer = Callable[[Any], None]
Check = Callable[[dict[str, object]], bool]


Conditions = Callable[[Sequence[str], dict[str, Any], Check], Check]
"""Compiler of conditions over ``L`` and ``G``, from their texts, the globals, and the equivalent Python function."""


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
        """The object; None if it was freed."""
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
        """The class; None if it was freed."""
        return super().get()

    def get(self) -> tuple[object, bool]:
        """The key, and whether the dict has it."""
        return super().get(), self.contains


class ExpectedSubclasses(ExpectedObject):
    """Answers of abstract classes about classes. No class is kept alive: a guard on the class expires the entry."""

    __slots__ = ("_checks",)

    def __init__(self, answers: Sequence[tuple[type, type, bool]]) -> None:
        super().__init__(None)
        self._checks = [(weakref.ref(subject), weakref.ref(cls), answer) for subject, cls, answer in answers]

    def get(self) -> tuple[tuple[type, type, bool], ...]:
        """The classes that are still alive, with what was answered."""
        known = [(subject(), cls(), answer) for subject, cls, answer in self._checks]
        return tuple(
            (subject, cls, answer) for subject, cls, answer in known if subject is not None and cls is not None
        )


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
        """The guard as the tracer created it (``expected`` is None if the object was freed)."""
        expected_object = self.guard.expected
        if not isinstance(expected_object, ExpectedObject):
            return self.guard
        return replace(self.guard, expected=expected_object.get())

    def expected_text(self) -> str:
        """The expected value as text."""
        expected = self.strong_guard().expected
        return "" if isinstance(expected, TensorFacts | TensorMarks) else describe_value(expected)


def _no_relation(_: str) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Ambient:
    """One prepared guard on no single value: the global state, or a relation between values."""

    guard: Guard
    text: str
    holds: Callable[[Scope], bool]
    install: Callable[[GuardTree], None]
    reason: Callable[[Scope], str]
    """Reason why it does not hold, where it is more specific than the text."""
    expected_state: object = None
    """Expected object: torch's ``GlobalStateGuard``, the device, or the compiled conditions on sizes."""
    parts: tuple[tuple[str, tuple[StackLine, ...], str], ...] = ()
    """Parts of a conjunction, each with the user's code that needed it, or the framework's reason."""
    relation: Callable[[str], Relation | None] = _no_relation
    """Function that splits a part of a conjunction into its subject and what is expected of it."""

    def installed(self) -> Ambient:
        """The same guard without its installer, which may refer to traced values."""
        return replace(self, install=_already_installed)


def _already_installed(_: object) -> None:
    raise AssertionError("a guard is installed once")


def evaluate_leaf(leaf: Leaf, fetch: Callable[[Source], object]) -> bool:
    """Evaluate a guard's predicate; if its source cannot be resolved, it does not hold."""
    assert leaf.guard.source is not None
    try:
        return bool(leaf.holds(fetch(leaf.guard.source)))
    except Exception:  # noqa: BLE001 - as the C++ tree: what raises does not hold
        return False
