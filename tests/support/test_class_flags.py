"""The flags of a class distinguish C classes from Python classes, and abstract from other classes."""

import collections.abc
import inspect
import itertools

import pytest
import torch

from nbcompile.support.class_flags import ABSTRACT, HEAP_TYPE, is_class_statement


class Own:
    """A class of this test."""


@pytest.mark.parametrize("cls", [Own, torch.nn.Linear, type("Made", (), {})])
def test_a_class_statement(cls):
    """A Python class, also from a call of ``type``, allows attributes to be set."""
    assert is_class_statement(cls) and cls.__flags__ & HEAP_TYPE
    cls.of_a_test = 1
    del cls.of_a_test


@pytest.mark.parametrize("cls", [int, dict, type, collections.deque, itertools.chain, collections.OrderedDict])
def test_a_class_in_c(cls):
    """A C class does not allow attributes to be set, on each version of Python."""
    assert not is_class_statement(cls)
    with pytest.raises(TypeError):
        cls.of_a_test = 1


@pytest.mark.parametrize("cls", [Own, list, collections.abc.Sequence, collections.abc.Hashable, type("Made", (), {})])
def test_an_abstract_class(cls):
    """The flag of an abstract class is the one that ``inspect.isabstract`` reads."""
    assert bool(cls.__flags__ & ABSTRACT) is inspect.isabstract(cls)
