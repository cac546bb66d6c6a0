"""Values of sources, as the accessors of the guard tree fetch them."""

from __future__ import annotations

import builtins

import pytest
import torch

from nbcompile.capture.resolution import Scope
from nbcompile.capture.source import AttrSource, BuiltinSource, GlobalSource, ItemSource, LocalSource
from nbcompile.guarding.accessors import SourceCache, fetch, module_table


def scope(values, names):
    return Scope(scope.__code__, values, names, vars(builtins))


def test_a_value_is_fetched_once():
    """Guards below a common prefix read its value once: a property is evaluated one time."""

    class Counted:
        reads = 0

        @property
        def part(self):
            Counted.reads += 1
            return [1, 2]

    known = SourceCache(scope({"x": Counted()}, {}))
    part = AttrSource(LocalSource("x"), "part")
    assert [known.value(ItemSource(part, 0)), known.value(ItemSource(part, 1)), Counted.reads] == [1, 2, 1]


def test_a_builtin_that_a_global_hides_is_none():
    """A global with the builtin's name hides it, so the guard on the builtin cannot hold."""
    assert fetch(BuiltinSource("len"), scope({}, {})) is len
    assert fetch(GlobalSource("len"), scope({}, {"len": 3})) == 3
    with pytest.raises(NameError, match="a global now"):
        fetch(BuiltinSource("len"), scope({}, {"len": 3}))


def test_a_member_of_a_module_is_in_the_table_that_torch_searches():
    """The result contains the tables that must not have the name; a member of the module's own dict needs no table."""
    module = torch.nn.BatchNorm1d(2)
    module.inner = torch.nn.Linear(2, 2)
    assert module_table(module, "weight") == ("_parameters",)
    assert module_table(module, "running_mean")[-1] == "_buffers"
    assert module_table(module, "inner")[-1] == "_modules"
    assert module_table(module, "training") == ()
    assert module_table(module, "absent") is None
