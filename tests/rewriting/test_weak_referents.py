"""Referents of weak references in residual programs: deleted after their last use."""

from __future__ import annotations

import ast
import weakref

import pytest

from nbcompile.rewriting.weak_referents import delete_weak_referents


def rewritten(text: str, users: frozenset[str] = frozenset(), constants=None) -> str:
    """The program with the deletions."""
    constants = {"ref": weakref.ref, "print": print} if constants is None else constants
    return ast.unparse(delete_weak_referents(ast.parse(text).body, constants, users))


def test_a_referent_is_deleted_after_its_last_use():
    """The deletion follows the last use, of any kind."""
    text = "made = new()\nmade_1 = ref(made)\nmade.x = 1\nprint()\nother(made_1)"
    assert rewritten(text).splitlines() == [*text.splitlines()[:3], "del made", *text.splitlines()[3:]]


@pytest.mark.parametrize(("text", "users", "constants"), [
    ("made = new()\nkept = call(made)", frozenset(), None),
    ("made = new()\nmade_1 = ref(made)", frozenset({"made"}), None),
    ("made_1 = ref(given)", frozenset(), None),
    ("made = new()\nmade_1 = ref(made)", frozenset(), {"ref": print}),
], ids=["no reference", "a variable of the user", "a value from outside", "another function"])  # fmt: skip
def test_nothing_else_is_deleted(text, users, constants):
    """Only objects that the program itself creates, and that have a weak reference, are deleted."""
    assert rewritten(text, users, constants) == text


def test_a_value_that_is_returned_is_not_deleted():
    """Code after a return would not run."""
    text = "made = new()\nmade_1 = ref(made)\nreturn_ = 0"
    assert rewritten(text + "\nprint(made)").splitlines()[-1] == "del made"
    function = ast.parse("def f():\n made = new()\n made_1 = ref(made)\n return made").body[0]
    statements = delete_weak_referents(function.body, {"ref": weakref.ref}, frozenset())
    assert not any(isinstance(each, ast.Delete) for each in statements)
