"""Objects found by their descriptions, and only if they have not changed."""

from __future__ import annotations

import enum
import functools
import math
import re
import sys

import pytest
import torch

from nbcompile.capture.literals import NotStorable, Unreadable
from nbcompile.fast.disk_cache.descriptions import describe
from nbcompile.fast.disk_cache.object_lookup import expect_code, find, findable, named_code


@pytest.mark.parametrize(
    "one", [torch.relu, torch.nn.functional.gelu, torch.nn.Linear, len, math.sin, torch.ops.aten.add.Tensor, torch.nn]
)
def test_members_of_libraries_are_found_again(one):
    """An object is found by its description."""
    assert find(findable(one)) is one


class Colour(enum.Flag):
    RED = 1
    BLUE = 2


@pytest.mark.parametrize("value", [Colour.RED, Colour.RED | Colour.BLUE, Colour(0), re.IGNORECASE | re.MULTILINE])
def test_flags_are_found_again(value):
    """A member is found by its name, a combination by its number."""
    assert find(describe(value)) is value


def helper(x):
    """x + 1, in a function of this module that has a name."""
    return x + 1


def test_an_object_that_was_replaced_is_not_found(monkeypatch):
    """The name belongs to another object now, which the description does not match."""
    description = findable(helper)
    assert find(description) is helper
    monkeypatch.setattr(sys.modules[__name__], "helper", lambda x: x + 2)
    with pytest.raises(Unreadable, match="is another one now"):
        find(description)


def test_an_object_without_a_name_is_not_findable():
    """A nested function has no path."""
    with pytest.raises(NotStorable):
        findable(lambda x: x)


def test_code_has_a_name_and_a_digest(monkeypatch):
    """Traced code is found by its name while the function has that code; a lambda has no name."""
    description = named_code(helper.__code__, __name__)
    expect_code(description)
    monkeypatch.setattr(sys.modules[__name__], "helper", lambda x: x + 2)
    with pytest.raises(Unreadable, match="is another function now"):
        expect_code(description)
    with pytest.raises(NotStorable, match="has no name of its own"):
        named_code((lambda x: x).__code__, __name__)


def test_a_class_of_the_library_under_a_private_name():
    """``functools._CacheInfo`` has the name ``CacheInfo``."""
    assert find(findable(functools._CacheInfo)) is functools._CacheInfo
