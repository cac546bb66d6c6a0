"""Errors of operators on sequences: their classes and texts are Python's."""

from __future__ import annotations

import pytest
import torch

import nbcompile
from tests.support.answers import check


def joined(x, left, right):
    try:
        return left + right
    except TypeError as error:
        return x + 1, str(error)


def repeated(x, left, right):
    try:
        return left * right
    except TypeError as error:
        return x + 1, str(error)


@pytest.mark.parametrize("function", [joined, repeated])
@pytest.mark.parametrize(
    ("left", "right"), [([1], (2,)), ((1,), [2]), ("a", 1.5), (b"a", "b"), ([1], "b"), (1.5, [1]), ("a", None)]
)
def test_the_message_is_pythons(function, left, right):
    """The error text depends on the classes of both operands."""
    x = torch.ones(2)
    _, expected = function(x, left, right)
    result, message = nbcompile.compile(function, fullgraph=True)(x, left, right)
    assert torch.equal(result, x + 1)
    assert message == expected


def deleted(x, value, index):
    try:
        del value[index]
    except TypeError as error:
        return x + 1, str(error)


class Plain:
    pass


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("index", [0, 9, "a"])
@pytest.mark.parametrize("value", [(1, 2), torch.Size([1]), "ab", 3.5, None, frozenset((1,)), torch.float32, Plain()])
def test_items_that_cannot_be_deleted(value, index):
    """The error text depends on whether the class is a sequence."""
    x = torch.ones(2)
    _, expected = deleted(x, value, index)
    for dynamic in (False, True):
        result, message = nbcompile.compile(deleted, backend="eager", dynamic=dynamic)(x, value, index)
        assert torch.equal(result, x + 1)
        assert message == expected


@pytest.mark.parametrize("other", [1, None, [1], "a"])
def test_a_size_names_itself(other):
    """``torch.Size`` has its own error text for a sum with a value that is not a tuple."""
    x = torch.ones(2)
    own = lambda x, other: joined(x, x.shape, other)
    result, message = nbcompile.compile(own, fullgraph=True)(x, other)
    assert torch.equal(result, x + 1)
    assert message == joined(x, x.shape, other)[1]


@pytest.mark.parametrize("shape", [(), (2,), (2, 3)])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("index", [5, -7])
def test_an_index_of_a_size_in_a_function_that_breaks(shape, dynamic, index):
    """The error text names a tuple, as in eager mode, before and after the graph break."""

    def program(x):
        size, texts = x.shape, []
        for _ in range(2):
            try:
                size[index]
            except IndexError as error:
                texts.append(str(error))
            print(end="")
        return texts, (x + 1).shape[index]

    compiled = nbcompile.compile(program, backend="eager", dynamic=dynamic)
    for _ in range(2):
        with pytest.raises(IndexError, match="^tuple index out of range$"):
            compiled(torch.ones(shape))


@pytest.mark.parametrize("text", [
    "torch.Size([(1, 2)])", "torch.Size(PAIRS)", "torch.Size(['a'])", "torch.Size([2, 1.5])", "torch.Size(iter(PAIRS))",
    "torch.Size(iter(NUMBERS))", "torch.Size([True, 2])", "torch.Size('ab')", "torch.Size()", "torch.Size([None])",
])  # fmt: skip
def test_an_item_that_is_no_size_is_rejected_with_its_number(text):
    """Items from outside are read; the error names the first item that is no integer, and its class."""
    check(text, PAIRS=[(1, 2), (3, 4)], NUMBERS=[2, 3])


@pytest.mark.parametrize("text", [
    "tuple(zip(NUMBERS, NUMBERS)) < (4,)", "[(1, 2)] < [(1, 'a')]", "(1, (2, 3)) < (1, 4)", "[None] < [1]", "(1,) < [1]",
    "['a'] >= [1]", "(1, {}) > (1, {})",
])  # fmt: skip
def test_the_error_of_a_comparison_is_about_the_items_that_differ(text):
    """Sequences are compared item by item, and the error names the classes of the first two that differ."""
    check(text, NUMBERS=[2, 3])
