"""A scope with values of every kind that a source addresses.

    resolve(AttrSource(LocalSource("child"), "rate"), addressed_scope())      2

Read next: tests/capture/test_resolution.py
"""

from __future__ import annotations

import weakref

import numpy as np
import torch

from nbcompile.capture.resolution import Scope


class Parent:
    """A class whose member a subclass replaces."""

    rate = 1


class Child(Parent):
    """A class with a method."""

    rate = 2

    def step(self):
        """Return the rate."""
        return self.rate


class Hidden:
    """An object that answers for every attribute."""

    def __init__(self):
        self.size = 3

    def __getattribute__(self, name):
        return 5 if name == "size" else super().__getattribute__(name)


def with_cell():
    """A function whose closure has one cell."""
    content = [7]
    return lambda: content


def addressed_scope():
    """The scope of a call with a local of each kind that a source can lead to."""
    child = Child()
    items = iter((10, 20, 30))
    next(items)
    values = {
        "x": torch.ones(2, 3),
        "child": child,
        "hidden": Hidden(),
        "table": {"a": 1, "b": 2},
        "items": items,
        "weak": weakref.ref(child),
        "closed": with_cell(),
        "array": np.arange(3),
    }
    return Scope(with_cell.__code__, values, {"offset": 4}, vars(__import__("builtins")))
