"""Kinds of values: the predicates of the wrapping table."""

import collections
import enum
import math
import sys
import types
import weakref

import pytest
import torch

from nbcompile.tracing.wrapping import kinds


class Plain:
    pass


class Slotted:
    __slots__ = ("a",)


class Hashed:
    def __hash__(self):
        return 1


class Colour(enum.Enum):
    RED = 1


class Error(Exception):
    pass


Pair = collections.namedtuple("Pair", "a b")  # noqa: PYI024 - the tests are about such classes

ACCEPTED = {
    kinds.is_user_object: ([Plain(), Slotted(), Hashed(), types.SimpleNamespace(), Colour.RED, Pair(1, 2), torch.nn.ReLU()],
                           [1, [], Plain, Error(), weakref.ref(Plain), object(), len]),
    kinds.is_plain_object: ([Plain(), Hashed()], [Colour.RED, Pair(1, 2), torch.nn.ReLU(), torch.nn.Parameter(torch.ones(1))]),
    kinds.has_own_hash: ([Hashed(), torch.ones(1)], [Plain(), Colour.RED, 1, (1,)]),
    kinds.is_nan: ([math.nan, complex(0, math.nan)], [1.0, math.inf, "nan", 0]),
    kinds.is_namedtuple: ([Pair(1, 2), sys.version_info, torch.max(torch.ones(2), 0)], [(1, 2), [1], torch.Size([1])]),
    kinds.is_method_of_tensor: ([torch.ones(1).add], [torch.Tensor.add, [].append, len]),
    kinds.is_method_of_container: ([[].append, {}.get, (1,).index, collections.deque().pop], ["a".join, torch.ones(1).add]),
}  # fmt: skip


@pytest.mark.parametrize("predicate", ACCEPTED, ids=lambda predicate: predicate.__name__)
def test_predicates(predicate):
    """Each predicate accepts values of its kind, and rejects similar ones."""
    accepted, rejected = ACCEPTED[predicate]
    assert [value for value in accepted if not predicate(value)] == []
    assert [value for value in rejected if predicate(value)] == []


def test_a_class_and_its_subclasses():
    """``is_a`` accepts subclasses, and ``is_exactly`` does not: True is not an int there."""
    assert kinds.is_a(int, str)(True) and not kinds.is_a(int, str)(1.0)
    assert kinds.is_exactly(int, str)("a") and not kinds.is_exactly(int, str)(True)


def test_containers_of_a_subclass_have_methods_of_their_own():
    """A method of a subclass may be overridden, so it is not treated as the container's."""

    class Own(list):
        pass

    assert not kinds.is_method_of_container(Own().append)
