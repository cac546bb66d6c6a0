"""The flags of a class distinguish C classes from Python classes."""

import collections
import itertools

import pytest
import torch

from nbcompile.support.class_flags import HEAP_TYPE, is_class_statement


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
