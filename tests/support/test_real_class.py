"""The class of an object is read without calls into the object."""

from __future__ import annotations

import weakref

import pytest

from nbcompile.support.real_class import class_is_computed, is_instance


class Claiming:
    """An object whose ``__class__`` differs from its type."""

    @property
    def __class__(self):
        return int


class Counting:
    """An object that counts its attribute accesses."""

    asked = 0

    def __getattribute__(self, name):
        Counting.asked += 1
        return object.__getattribute__(self, name)


def test_the_type_decides():
    """The type decides, where ``isinstance`` would read ``__class__``; unions and tuples are accepted."""
    assert isinstance(Claiming(), int) and not is_instance(Claiming(), int)
    assert is_instance(Claiming(), (int, Claiming)) and is_instance(True, int | str) and not is_instance(1.0, int | str)


def test_nothing_is_asked():
    """Neither ``__getattribute__`` nor a dead weak proxy is called."""
    counting = Counting()
    assert not is_instance(counting, int) and Counting.asked == 0
    proxy = weakref.proxy(Claiming())
    with pytest.raises(ReferenceError):
        isinstance(proxy, int)
    assert not is_instance(proxy, int)


def test_classes_that_compute_it():
    """Classes with a ``__class__`` property or a ``__getattribute__``, their subclasses, and proxies compute it."""
    derived = type("Derived", (Claiming,), {})
    assert all(map(class_is_computed, (Claiming, derived, Counting, weakref.ProxyType, weakref.CallableProxyType)))
    assert not any(map(class_is_computed, (object, int, type, list, type("Plain", (), {}))))
