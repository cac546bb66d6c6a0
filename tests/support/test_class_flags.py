"""Classes in C and classes of Python's are distinguished by their flags."""

import collections
import itertools

import pytest
import torch

from nbcompile.support.class_flags import HEAP_TYPE, is_class_statement


class Own:
    """A class of this test."""


@pytest.mark.parametrize("cls", [Own, torch.nn.Linear, type("Made", (), {})])
def test_a_class_statement(cls):
    """Also one that a call of ``type`` made: attributes may be set on it."""
    assert is_class_statement(cls) and cls.__flags__ & HEAP_TYPE
    cls.of_a_test = 1
    del cls.of_a_test


@pytest.mark.parametrize("cls", [int, dict, type, collections.deque, itertools.chain, collections.OrderedDict])
def test_a_class_in_c(cls):
    """On each version of Python: nothing can be set on it."""
    assert not is_class_statement(cls)
    with pytest.raises(TypeError):
        cls.of_a_test = 1
