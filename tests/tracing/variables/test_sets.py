"""Sets: equal keys are one item, the first of them; hashes of other containers are reused."""

from __future__ import annotations

import pytest
import torch

import nbcompile


def of_equal_keys(x):
    items = {1, True, 1.0, "a"}
    return x + len(items), [type(item).__name__ for item in items if item == 1]


def of_keys_of_a_dict(x):
    names = {"a": 1, "b": 2}
    return x, sorted({"b", "c"} | names.keys()), sorted(frozenset(names) - {"a"})


def without_what_is_not_there(x):
    items = {1}
    items.discard(2)
    try:
        items.remove(2)
    except KeyError as error:
        return x + 1, error.args
    return x


def looked_up_by_a_set(x):
    items = {frozenset({1, 2})}
    return x, {2, 1} in items, {1} in items


@pytest.mark.parametrize("function", [of_equal_keys, of_keys_of_a_dict, without_what_is_not_there, looked_up_by_a_set])
def test_a_set_is_that_of_python(function):
    """Items, their classes and errors are eager mode's, in one graph."""
    x = torch.ones(2)
    expected = function(x)
    result = nbcompile.compile(function, fullgraph=True)(x)
    assert torch.equal(result[0], expected[0])
    assert result[1:] == expected[1:]
