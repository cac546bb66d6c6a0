"""Instructions of whole checks: their slots, and guards that cannot be encoded."""

from __future__ import annotations

import builtins

import pytest
import torch

from nbcompile.capture.frame import Frame
from nbcompile.capture.guard import Guard, GuardKind
from nbcompile.capture.source import AttrSource, ItemSource, LocalSource
from nbcompile.fast import fast_call, guard_bytecode
from nbcompile.guarding.check import build_check

X, K = LocalSource("x"), GuardKind


def function(x, y=1, *rest, key=2, **more):
    return x


def frame(x) -> Frame:
    return Frame(function.__code__, {"x": x, "y": 1, "rest": (), "key": 2, "more": {}}, {}, vars(builtins))


def written(value, *guards, **extra):
    check, tools = build_check(guards, frame(value)), fast_call.tools()
    if tools is None:
        pytest.skip("no C compiler")
    return guard_bytecode.instructions(check, frame(value).scope(), tools, **extra)[1]


def test_slots_begin_with_the_arguments():
    """The slots are those of the positional and keyword arguments, then the two of the rest."""
    assert guard_bytecode.local_names(function.__code__) == ["x", "y", "key", "rest", "more"]


def test_a_value_that_two_guards_read_is_fetched_once():
    """Two guards on one item share one INDEX, in the slot after the five arguments."""
    item = ItemSource(X, 1)
    found = written([1, 5.5], Guard(item, K.TYPE_MATCH, float), Guard(item, K.EQUALS_MATCH, 5.5))
    assert [row[0] for row in found].count("INDEX") == 1
    assert {row[1] for row in found if row[0] in ("EQUALS",)} == {5}


def test_arguments_come_first_and_what_costs_most_last():
    """Checks of arguments come first, then fetched values; process state and Python predicates are last."""
    rows = guard_bytecode._ordered(
        [("KEYS_OF_THREAD", -1, 0, 0, None), ("STATE", -1, 0, 0, None), ("INDEX", 2, 0, 0, None),
         ("EQUALS", 5, 0, 0, 1), ("EQUALS", 0, 0, 0, 3), ("PREDICATE", 0, 0, 0, None), ("LENGTH", 0, 0, 0, None)], 5)  # fmt: skip
    assert [row[0] for row in rows] == ["EQUALS", "KEYS_OF_THREAD", "INDEX", "EQUALS", "STATE", "PREDICATE", "LENGTH"]
    assert [row[4] for row in rows if row[0] == "EQUALS"] == [3, 1]
    found = [row[0] for row in written(3, Guard(X, K.EQUALS_MATCH, 3))]
    assert found.index("EQUALS") < found.index("KEYS_OF_THREAD")


def test_an_attribute_of_a_tensor_subclass_is_not_read():
    """Reading the attribute may run a method of the class, so the check has no instructions."""

    class Own(torch.Tensor):
        pass

    tensor = torch.ones(2).as_subclass(Own)
    tensor.tag = 1
    with pytest.raises(guard_bytecode.NotEncodable):
        written(tensor, Guard(AttrSource(X, "tag"), K.EQUALS_MATCH, 1))


def test_a_list_that_must_be_empty_is_looked_at():
    """The frame hook's own condition follows the checks of the arguments."""
    extra = guard_bytecode.ExtraConditions(empty=[])
    assert [row[0] for row in written(3, Guard(X, K.EQUALS_MATCH, 3), extra=extra)][:2] == ["EQUALS", "EMPTY"]
