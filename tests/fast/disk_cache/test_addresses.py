"""Sources as rows of an entry, and read again in a frame of another process."""

from __future__ import annotations

import builtins
import json

import pytest

from nbcompile.capture.literals import NotStorable, Unreadable
from nbcompile.capture.resolution import Scope
from nbcompile.capture.source import AttrSource, ConstantSource, ItemSource, LocalSource
from nbcompile.fast.disk_cache import addresses
from nbcompile.guarding.accessors import SourceCache

X = LocalSource("x")


class Holder:
    """An object with one attribute."""

    def __init__(self, part):
        self.part = part


def known(value) -> SourceCache:
    return SourceCache(Scope(known.__code__, {"x": value}, {}, vars(builtins)))


def table_of(value, *sources):
    writer = addresses.SourceWriter(known(value))
    for source in sources:
        writer.number_of(source)
    return json.loads(json.dumps(writer.data()))


def test_a_common_prefix_is_one_row_before_those_that_need_it():
    """Each row has the number of its base, so rows can be read in order."""
    part = AttrSource(X, "part")
    data = table_of(Holder([1, 2]), ItemSource(part, 0), ItemSource(part, 1))
    assert [row[:2] for row in data["table"]] == [
        ["LocalSource", "x"],
        ["AttrSource", 0],
        ["ItemSource", 1],
        ["ItemSource", 1],
    ]
    assert addresses.read(data, known(Holder([3, 4])))[1:] == [part, ItemSource(part, 0), ItemSource(part, 1)]


def test_another_class_on_the_way_is_rejected():
    """A tuple needs another accessor than a list, so the entry is not valid for this call."""
    data = table_of(Holder([1]), ItemSource(AttrSource(X, "part"), 0))
    with pytest.raises(Unreadable, match="x'\\].part is a tuple"):
        addresses.read(data, known(Holder((1,))))


def test_a_source_that_leads_nowhere_may_be_expected():
    """A source without a value is an error, unless the caller passes a set that collects it."""
    data, absent = table_of(Holder(1), AttrSource(X, "part")), set()
    bare = Holder.__new__(Holder)
    with pytest.raises(Unreadable, match="leads nowhere"):
        addresses.read(data, known(bare))
    addresses.read(data, known(bare), absent)
    assert absent == {AttrSource(X, "part")}


def test_an_object_of_this_process_has_no_row():
    """An object that the program itself holds does not exist in another process."""
    with pytest.raises(NotStorable, match="object of this process"):
        table_of(1, ConstantSource("kept", object()))
