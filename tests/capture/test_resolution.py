"""Values of sources, resolved without running the user's code."""

import collections

import pytest
import torch

import nbcompile
from nbcompile.capture import resolution
from nbcompile.capture.resolution import resolve
from nbcompile.capture.source import (
    ArraySource,
    CellSource,
    ConstantSource,
    ItemSource,
    LocalSource,
    expression,
)
from tests.support.addresses import Child, addressed_scope


@pytest.fixture
def scope():
    return addressed_scope()


def test_a_cell_is_found_through_its_function(scope):
    """The content of a closure's cell is the object in it."""
    function = scope.locals["closed"]
    address = CellSource(LocalSource("closed"), "content", 0)
    assert expression(address) == "L['closed'].__closure__[0].cell_contents"
    assert resolve(address, scope) is function.__closure__[0].cell_contents


def test_an_array_is_resolved_as_a_tensor(scope):
    """An array as an input enters the graph as a tensor with the same memory."""
    found = resolve(ArraySource(LocalSource("array")), scope)
    assert torch.equal(found, torch.arange(3))
    scope.locals["array"][0] = 5
    assert found[0] == 5


def test_the_rest_of_an_iterator_is_read_without_taking_it():
    """A guard on an iterator does not advance it."""
    items = iter([1, 2, 3])
    next(items)
    assert list(resolution.remaining(items)) == [2, 3]
    assert resolution.iterator_item(items, 1) == 3
    assert list(items) == [2, 3]


def test_a_member_is_looked_up_after_some_of_the_bases():
    """``super().rate`` is the attribute of the next class in the method order."""
    assert resolution.class_attribute(Child, "rate") == 2
    assert resolution.class_attribute(Child, "rate", 1) == 1
    with pytest.raises(AttributeError):
        resolution.class_attribute(Child, "momentum")


def test_looking_at_an_item_adds_no_default(scope):
    """A read for the entry of another dict adds no item to a defaultdict."""
    defaults = collections.defaultdict(list, f=6)
    with pytest.raises(KeyError):
        resolution.resolve(ItemSource(ConstantSource("d", defaults), "a"), scope)
    assert defaults == {"f": 6}


def test_a_call_adds_no_default():
    """The check of entries for other dicts adds no item to a defaultdict."""

    def function(x, d):
        return x + len(d), list(d.values())

    compiled = nbcompile.compile(function)
    compiled(torch.ones(1), {"a": 1})
    defaults = collections.defaultdict(list, f=6)
    assert compiled(torch.ones(1), defaults)[1] == [6]
    assert defaults == {"f": 6}
