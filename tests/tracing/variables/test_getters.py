"""Getters of ``operator`` are objects of their classes, whether the program creates or receives them."""

from __future__ import annotations

import operator

import pytest
import torch

import nbcompile

NAMES = ("__name__", "__get__", "__dict__", "__code__", "__call__", "__class__", "zork")
GETTERS = {
    "itemgetter": lambda: operator.itemgetter(1),
    "attrgetter": lambda: operator.attrgetter("shape"),
    "methodcaller": lambda: operator.methodcaller("add", 2, alpha=3),
}
OUTSIDE = {name: make() for name, make in GETTERS.items()}


@pytest.mark.parametrize("name", GETTERS)
@pytest.mark.parametrize("is_outside", [True, False])
def test_a_getter_has_the_attributes_of_its_class(name, is_outside):
    """A getter has the attributes and the class of eager mode, also when it is returned."""
    known, make = OUTSIDE[name], GETTERS[name]

    def program(x):
        get = known if is_outside else make()
        return get(x), [hasattr(get, one) for one in NAMES], type(get), get

    compiled, x = nbcompile.compile(program), torch.arange(4.0)
    for _ in range(3):
        (value, *got, get), (wanted, *expected, other) = compiled(x), program(x)
        assert torch.equal(torch.as_tensor(value), torch.as_tensor(wanted))
        assert got == expected
        assert type(get) is type(other)
        assert torch.equal(torch.as_tensor(get(x)), torch.as_tensor(wanted))
        assert (get is known) is is_outside
