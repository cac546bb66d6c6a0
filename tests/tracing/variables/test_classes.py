"""Classes and modules as values."""

from __future__ import annotations

import abc
import math
import types

import torch

from tests.support.answers import check


class Meta(type):
    def __call__(cls, *arguments):
        return "made", arguments, super().__call__()

    def __len__(cls):
        return 7

    def __contains__(cls, item):
        return item == 3

    def __iter__(cls):
        return iter([cls.__name__])


class WithMeta(metaclass=Meta):
    pass


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self): ...


class Base:
    """The text of a base."""

    rate = 1


class Derived(Base):
    pass


NAMES = {"WithMeta": WithMeta, "Shape": Shape, "Base": Base, "Derived": Derived, "math": math, "types": types}


def test_what_a_class_says_of_itself():
    """The name, the docstring, the bases and the method order; an inherited attribute belongs to the base."""
    check(
        "Base.__name__, Base.__qualname__, Base.__doc__, Derived.__doc__", "Derived.__mro__ == (Derived, Base, object)", "Derived.__bases__",
        "Derived.__class__", "Derived.rate", "Derived.nothing", "Base.__module__", "Derived in {Derived: 1}", "Derived is Base", "Base()(1)",
        "del Derived.rate", **NAMES,
    )  # fmt: skip


def test_a_metaclass_answers_for_its_class():
    """Calls, ``len``, membership and iteration of a class use the methods of its metaclass."""
    check(
        "WithMeta(1)[:2]",
        "len(WithMeta)",
        "3 in WithMeta, 4 in WithMeta",
        "list(WithMeta)",
        "bool(WithMeta)",
        "len(Base)",
        "1 in Base",
        **NAMES,
    )


def test_attributes_of_modules():
    """Attributes that exist, and a name that does not."""
    check(
        "math.pi",
        "math.nothing",
        "hasattr(math, 'floor'), hasattr(math, 'flor')",
        "getattr(math, 'zz', 3)",
        "type(math) is types.ModuleType",
        **NAMES,
    )


class Callable:
    def __init__(self, step=1):
        self.step = step

    def __call__(self, x):
        return x + self.step

    def __repr__(self):
        return "an object"


class Once(type):
    made = 0

    def __call__(cls, *arguments):
        return type.__call__(cls, *arguments)

    def __repr__(cls):
        return "<" + type.__repr__(cls) + ">"


class Made(metaclass=Once):
    def __init__(self, step=1):
        self.step = step

    def __call__(self, x):
        return x + self.step


def test_methods_of_the_metaclass_with_a_class():
    """``type.__call__(cls)`` makes an object of a class that has a ``__call__``; ``type.__repr__(cls)`` is of the class."""
    check(
        "type.__call__(C, 4).step", "type.__call__(C, 4)(x)", "M(3).step", "M(3)(x)", "repr(M)", "type.__repr__(C)",
        "object.__hash__(C) == hash(C)", "object.__ne__(C, C)", "type.__eq__(C, C)", "type.__ne__(C, M)",
        "type.__str__(C)", "object.__format__(C, '')", "C.__eq__(C, 1)", "type.__call__(type, 3)",
        "type.__call__(int, '3')", "C.__repr__(C())", "type.__call__(R)(x)",
        C=Callable, M=Made, R=torch.nn.ReLU,
    )  # fmt: skip
