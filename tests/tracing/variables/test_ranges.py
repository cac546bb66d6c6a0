"""Iterators over ranges and strings that are returned, or that end early."""

from __future__ import annotations

import copy
import itertools
import operator
import pickle

import pytest
import torch

import nbcompile

MADE = {
    "range": lambda n: iter(range(5)),
    "step": lambda n: iter(range(9, 0, -2)),
    "argument": lambda n: iter(range(n)),
    "reversed_range": lambda n: reversed(range(5)),
    "empty": lambda n: iter(range(0)),
    "huge": lambda n: iter(range(10**12)),
    "beyond_words": lambda n: iter(range(2**70, 2**71)),
    "text": lambda n: iter("abc"),
    "wide_text": lambda n: iter("aÿ√"),
    "bytes": lambda n: iter(b"abc"),
    "reversed_text": lambda n: reversed("abc"),
}
OVER_A_BREAK = [name for name in MADE if "text" not in name and name not in ("bytes", "beyond_words")]


def _described(iterator):
    reduced = iterator.__reduce__()
    copies = [copy.copy(iterator), pickle.loads(pickle.dumps(iterator))]  # noqa: S301  # its own pickle
    try:
        hint = operator.length_hint(iterator)
    except OverflowError:
        hint = OverflowError
    return type(iterator), reduced, hint, [list(itertools.islice(each, 6)) for each in (*copies, iterator)]


def _returned(x, iterator):
    return x + 1, iterator


def _moved(x, iterator):
    next(iterator, None)
    return x + 1, iterator


def _ended(x, iterator):
    for _ in range(6):
        next(iterator, None)
    return x + 1, iterator


def _over_a_break(x, iterator):
    next(iterator, None)
    y = x + 1
    torch._dynamo.graph_break()
    y = y + next(iterator, 0)
    return y, iterator


@pytest.mark.parametrize("use", [_returned, _moved, _ended])
@pytest.mark.parametrize("name", MADE)
def test_an_iterator_that_is_returned(name, use):
    """The iterator has eager mode's class, length, copies and position."""
    _equal_to_eager(name, use)


@pytest.mark.parametrize("name", OVER_A_BREAK)
def test_an_iterator_over_a_break(name):
    """An iterator over a range is one over a range in the resume function, and afterwards."""
    _equal_to_eager(name, _over_a_break)


def _equal_to_eager(name, use):
    nbcompile.reset()  # the functions of all tests share one code object

    def f(x, n):
        return use(x, MADE[name](n))

    compiled = nbcompile.compile(f, backend="eager")
    for n in (3, 4, 3):
        (expected, of_eager), (found, of_compiled) = f(torch.ones(2), n), compiled(torch.ones(2), n)
        assert torch.equal(found, expected)
        assert _described(of_compiled) == _described(of_eager)


def test_a_loop_that_ends_early():
    """Only the numbers that the loop uses are created."""

    def f(x):
        for at in range(10**15):
            if at == 3:
                break
            x = x + at
        return x

    assert torch.equal(nbcompile.compile(f, backend="eager")(torch.ones(2)), f(torch.ones(2)))


def test_an_iterator_that_is_an_argument():
    """The iterator advances as in eager mode, and another position needs another cache entry."""

    def f(x, iterator):
        return x + next(iterator), operator.length_hint(iterator)

    compiled = nbcompile.compile(f, backend="eager")
    mine, theirs = iter(range(10**9)), iter(range(10**9))
    for _ in range(3):
        (found, left), (expected, left_in_eager) = compiled(torch.ones(2), mine), f(torch.ones(2), theirs)
        assert torch.equal(found, expected)
        assert left == left_in_eager


class Text(str):  # noqa: SLOT000 - as programs have it
    """A subclass of str."""


class Two:
    """An object that equals a number of the range."""

    def __eq__(self, other: object) -> bool:
        return other == 2


def test_what_is_no_number_is_compared_with_each_number():
    """``value in range`` works for a string, a list and an object with ``__eq__``."""

    def f(x, text):
        numbers = range(3)
        return x + 1, [text in numbers, [1] in numbers, Two() in numbers, None in numbers, numbers.__contains__(text)]

    arguments = torch.ones(1), Text("b")
    expected = [False, False, True, False, False]
    assert nbcompile.compile(f, backend="eager", fullgraph=True)(*arguments)[1] == f(*arguments)[1] == expected


def test_a_range_longer_than_an_index():
    """``len`` raises eager mode's OverflowError; the range itself can be used."""

    def f(x):
        numbers = range(10**30)
        try:
            return x + len(numbers)
        except OverflowError as error:
            return x + 1, str(error), numbers[5], bool(numbers)

    x = torch.ones(1)
    assert nbcompile.compile(f, backend="eager", fullgraph=True)(x)[1:] == f(x)[1:]


OPERATORS = {
    "tensor": lambda x: x / torch.tensor(range(x.size(0), 0, -1), dtype=x.dtype, device=x.device),
    "nested": lambda x: torch.tensor([range(2), range(2)]) + x[:2],
    "as_tensor": lambda x: x + torch.as_tensor(range(4)),
    "new_tensor": lambda x: x.new_tensor(range(4)),
    "typed": lambda x: torch.LongTensor(range(4)) + x,
    "index": lambda x: x[range(2)],
    "index_of_tuple": lambda x: x.view(2, 2)[range(2), range(2)],
    "written": lambda x: x.clone().index_put_((torch.tensor(range(2)),), x[range(2, 4)]),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "nbcompile"])
@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_takes_a_range_as_it_takes_a_list(name, backend):
    """A range is an argument of a node, as in torch: the graph does not end there."""
    x, f = torch.tensor([1.0, 2.0, 3.0, 4.0]), OPERATORS[name]
    torch.testing.assert_close(nbcompile.compile(f, backend=backend, fullgraph=True)(x), f(x), rtol=0, atol=0)
