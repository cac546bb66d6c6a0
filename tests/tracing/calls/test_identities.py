"""Identity: `is`, `==`, items and keys of objects from outside, which may be one or two."""

from __future__ import annotations

import collections
import decimal
import functools
import io
import random
import struct
import threading
import types
from collections.abc import Callable

import numpy as np
import pytest
import torch

import nbcompile


class Plain:
    """An object with ``object.__eq__``."""


class Slotted:
    """As above, without a dict."""

    __slots__ = ("a",)


class EqualByValue:
    """An object that equals every other one of its class."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, EqualByValue)

    def __hash__(self) -> int:
        return 1

    def method(self):
        return 1


class NeverEqual:
    """An object that does not even equal itself."""

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = object.__hash__


class Module(torch.nn.Module):
    """A module of the program."""


PAIRS: dict[str, Callable[[], object]] = {
    "object": object, "plain": Plain, "slots": Slotted, "by value": EqualByValue, "never": NeverEqual, "module": Module,
    "method": lambda: Plain().__init__, "bound": lambda: EqualByValue().method, "list method": lambda: [].append,
    "dict method": lambda: {}.get, "tensor method": lambda: torch.ones(3).add, "function": lambda: lambda: 0,
    "class": lambda: type("X", (), {}), "list": lambda: [1], "dict": lambda: {1: 2}, "set": lambda: {1}, "tuple": lambda: ([],),
    "view": lambda: memoryview(b"a"), "lock": threading.Lock, "file": io.BytesIO, "context": decimal.Context,
    "struct": lambda: struct.Struct("i"), "generator": torch.Generator, "storage": lambda: torch.ones(2).untyped_storage(),
    "random": lambda: random.Random(0), "iterator": lambda: iter([1]), "partial": lambda: functools.partial(int),
    "tensor": lambda: torch.ones(2), "parameter": lambda: torch.nn.Parameter(torch.ones(2)), "device": lambda: torch.device("cpu"),
    "number": lambda: int("1000000"), "float": lambda: float("1.5"), "text": lambda: "".join(["a", "b"]),
    "exception": lambda: ValueError(1), "namespace": types.SimpleNamespace, "deque": collections.deque,
    "array": lambda: np.ones(1),
}  # fmt: skip
QUESTIONS = {
    "is": lambda m, n: (m is n, m is not n, any(each is m for each in (n,)), id(m) == id(n)),
    "equal": lambda m, n: (m == n, m != n),
    "items": lambda m, n: (m in [n], [n].count(m), (m,) == (n,), (m,) != (n,), {1: m} == {1: n}),
    "keys": lambda m, n: (m in {n: 1}, len({m, n})),
}


@pytest.mark.parametrize("first", ["same", "different"])
@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("name", PAIRS)
def test_two_objects_from_outside_are_one_or_two_in_every_call(name, question, first):
    """What the trace answered for one object under two names is not the answer for two, and the reverse."""
    a, b = PAIRS[name](), PAIRS[name]()
    pairs = [(a, a), (a, b), (b, b), (b, a), (a, a)] if first == "same" else [(a, b), (a, a), (b, a), (b, b)]

    def f(x, m, n):
        return x + 1, QUESTIONS[question](m, n)

    def answers(function):
        found = []
        for pair in pairs:
            try:
                found.append(str(function(torch.ones(1), *pair)[1]))
            except (TypeError, RuntimeError) as error:  # unhashable; the truth of a tensor with two numbers
                found.append(str(error))
        return found

    assert answers(nbcompile.compile(f, backend="eager")) == answers(f)
