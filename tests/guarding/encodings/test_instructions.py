"""Instructions of guards, produced with a writer that lists them."""

from __future__ import annotations

import pytest
import torch

from nbcompile.capture.guard import Guard, GuardKind, TensorFacts
from nbcompile.capture.source import LocalSource
from nbcompile.guarding.encodings.instructions import is_hashed_in_c
from nbcompile.guarding.encodings.table import LEAVES, leaf

K, X = GuardKind, LocalSource("x")


class Writer:
    """A writer that lists operations; every fetched value is in slot 7."""

    def __init__(self):
        self.operations = []
        self.torch_numbers = self

    def numbers(self, dtype, device):
        return 6, 0, -1

    def emit(self, operation, slot=-1, number=0, address=0, key=None):
        self.operations.append(operation)

    def into(self, operation, slot=-1, number=0, key=None):
        self.operations.append(operation)
        return 7

    def expect_object(self, slot, value):
        self.operations.append("IS")


class Keyed:
    """A key whose ``__eq__``, in the user's code, is always true."""

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 1


class Plain:
    """A class whose attributes are in dicts."""


def operations(kind, expected, value):
    """The operations for a guard; None if C cannot evaluate it."""
    prepared, writer = leaf(Guard(X, kind, expected), "x", value), Writer()
    done = LEAVES[kind].instructions(writer, prepared, 0, prepared.guard.expected, value)
    assert done or not writer.operations or kind is K.HASATTR
    return writer.operations if done else None


@pytest.mark.parametrize(("kind", "expected", "value", "wanted"), [
    (K.TYPE_MATCH, int, 1, ["OF_CLASS"]),
    (K.EQUALS_MATCH, (1, "a"), (1, "a"), ["EQUALS"]),
    (K.EQUALS_MATCH, Keyed(), Keyed(), None),
    (K.SEQUENCE_LENGTH, 1, [1], ["OF_CLASS", "LENGTH"]),
    (K.SEQUENCE_LENGTH, 1, type("Own", (list,), {})([1]), None),
    (K.DICT_KEYS, ("a",), {"a": 1}, ["KEYS"]),
    (K.SET_CONTAINS, (1, True), {1}, None),
    (K.SET_CONTAINS, ("a", True), {"a"}, ["OF_CLASS", "HAS"]),
    (K.HASATTR, ("real", True), 1, None),
    (K.HASATTR, ("absent", False), Plain(), ["CLASS", "MEMBER", "IS", "LACKS_MEMBER", "LACKS_MEMBER", "UNMARKED"]),
    (K.TENSOR_MATCH, TensorFacts((2,), None), torch.ones(2), ["TENSOR"]),
])  # fmt: skip
def test_a_guard_becomes_instructions_only_where_no_code_of_the_user_runs(kind, expected, value, wanted):
    """A length or an equality of a user's class is evaluated by the predicate in Python."""
    assert operations(kind, expected, value) == wanted


def test_keys_with_a_hash_of_the_users_are_not_looked_up_in_c():
    """This applies to keys inside a tuple, too; an object with the default hash can be looked up in C."""
    assert is_hashed_in_c(("a", 1, object()))
    assert not is_hashed_in_c(("a", Keyed()))
