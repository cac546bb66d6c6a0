"""Stubs with which a guard tree is built."""

from __future__ import annotations

import sys
import types

import pytest

from nbcompile.fast import dynamo_stub, guard_tree_stubs
from nbcompile.fast.guard_tree_stubs import GUARDS, SETTINGS


@pytest.fixture
def without_dynamo(monkeypatch):
    """A fixture without torch's own compiler among the imported modules."""
    for name in ("torch._dynamo", GUARDS, SETTINGS):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setattr(dynamo_stub, "is_stub", lambda: False)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))


def test_stubs_are_there_while_a_tree_is_built(without_dynamo):
    """The stubs have the enumeration and torch's defaults, and are removed afterwards."""
    with guard_tree_stubs.stubs():
        assert sys.modules[GUARDS].GuardManagerType is guard_tree_stubs.GuardManagerType
        assert sys.modules[SETTINGS].use_recursive_dict_tags_for_guards is False
        with pytest.raises(guard_tree_stubs.MissingName, match="another_name"):
            sys.modules[SETTINGS].another_name  # noqa: B018 - the test is about a look-up
    assert GUARDS not in sys.modules
    assert SETTINGS not in sys.modules


def test_a_name_that_is_missing_builds_the_tree_once_more(without_dynamo):
    """The second build runs without stubs."""
    seen = []

    def build():
        seen.append(GUARDS in sys.modules)
        if seen[-1]:
            raise guard_tree_stubs.MissingName("x")
        return "tree"

    assert guard_tree_stubs.build(build) == "tree"
    assert seen == [True, False]


def test_real_modules_stay(without_dynamo, monkeypatch):
    """Nothing is replaced if torch's own compiler is imported."""
    monkeypatch.setitem(sys.modules, "torch._dynamo", types.ModuleType("torch._dynamo"))
    with guard_tree_stubs.stubs():
        assert GUARDS not in sys.modules


def test_the_real_module_is_given_the_enumeration_by_name_alone():
    """The finder finds only the module of guards."""
    assert guard_tree_stubs._EnumerationFinder().find_spec("torch._dynamo.utils", None) is None
