"""Values as JSON, exactly or not at all."""

from __future__ import annotations

import enum
import json
import math

import pytest
import torch

from nbcompile.capture.literals import NotStorable, Unreadable, decode, encode

VALUES = [
    None, True, 3, "a", b"\x00\xff", 0.1, -0.0, math.inf, 1e-320, 2 + 0j, (1, (2.5, "x")), [1, []], {3, 1, 2},
    frozenset({"a"}), slice(1, None, 2), range(3), torch.Size((2, 3)), torch.float32, torch.strided,
    torch.channels_last, torch.device("cuda:1"), ..., NotImplemented,
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_comes_back(value):
    """The value has its type afterwards, and zeros have their signs."""
    found = decode(json.loads(json.dumps(encode(value))))
    assert type(found) is type(value) and found == value
    if isinstance(value, float):
        assert math.copysign(1, found) == math.copysign(1, value)


def test_nan_comes_back():
    """NaN, which does not even equal itself, is read back."""
    assert math.isnan(decode(json.loads(json.dumps(encode(math.nan)))))


def test_equal_sets_have_equal_texts():
    """The text does not depend on the order of a set, which differs between processes."""
    assert encode({"a", "b", "c"}) == encode({"c", "b", "a"})


class Colour(enum.IntEnum):
    RED = 1


class Name(str):
    """A subclass of str."""

    __slots__ = ()


@pytest.mark.parametrize(
    "value",
    [object(), Colour.RED, Name("a"), lambda: 0, {1: 2}, (1, object())],
    ids=["object", "member", "subclass", "function", "keys", "nested"],
)
def test_what_would_come_back_as_something_else_is_rejected(value):
    """An object of a user's class is rejected, also a number or a string."""
    with pytest.raises(NotStorable):
        encode(value)


@pytest.mark.parametrize("data", [
    {}, ["torch", "save"], ["torch", "nothing"], ["unknown", []], ["tuple"], ["single", "None"], ["float", 3], 0.5,
], ids=repr)  # fmt: skip
def test_a_damaged_entry_names_no_value(data):
    """A damaged entry gives an error, not another object."""
    with pytest.raises(Unreadable):
        decode(data)
