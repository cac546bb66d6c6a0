"""Families of functions: operators, conversions, ``math``."""

import math
import operator

import pytest
import torch

import nbcompile
from nbcompile.tracing.calls.families import FAMILIES, SYMBOLIC_MATH
from tests.support.answers import check
from tests.support.graphs import Graphs


def test_no_function_has_two_handlers():
    """Each number function of ``math`` has one handler or a polyfill: a second handler would replace the first."""
    functions = [function for function, _ in FAMILIES]
    assert len(functions) == len(set(functions))
    missing = {name for name, each in vars(math).items() if callable(each) and each not in functions}
    assert missing - {"fsum", "dist", "sumprod"} - {"__loader__"} == set()


def test_answers_are_pythons():
    """The values and the texts of the exceptions are Python's."""
    names = {"operator": operator, "math": math}
    check(
        "math.sqrt(2.0), math.floor(-2.5), math.ceil(2), math.trunc(-2.5), math.gcd(12, 18)",
        "math.sqrt(-1)",
        "math.prod([2, 3], start=4)",
        "operator.contains([1, 2], 2), operator.not_([]), operator.truth('a'), operator.index(True)",
        "operator.index(2.0)",
        "operator.is_(None, None), operator.is_not(1, None)",
        "divmod(-7, 2), ord('a'), chr(97), bin(5), hex(255), oct(8)",
        "ord('ab')",
        "operator.iadd([1], [2]), operator.add((1,), (2,)), operator.concat('a', 'b')",
        "operator.getitem({'a': 1}, 'b')",
        **names,
    )


def test_math_of_a_symbol_specialises_nothing():
    """A root of a size is a node of the graph, so another size needs no recompile."""
    assert math.sqrt in SYMBOLIC_MATH
    graphs = Graphs()
    compiled = nbcompile.compile(lambda x: x * math.sqrt(x.size(0)), backend=graphs, dynamic=True, fullgraph=True)
    for size in (4, 9, 16):
        assert torch.equal(compiled(torch.ones(size)), torch.full((size,), math.sqrt(size)))
    assert len(graphs) == 1


def test_math_of_a_tensor_is_a_break_that_names_it():
    """The graph break names the function, because Python would convert the tensor to a number."""
    with pytest.raises(nbcompile.exc.Unsupported, match=r"math\.exp"):
        nbcompile.compile(lambda x: x + math.exp(x.sum()), backend="eager", fullgraph=True)(torch.zeros(2))


def test_an_item_is_stored_by_the_operator():
    """``operator.setitem`` is a side effect on the user's list, which runs after the graph."""

    def f(x, xs):
        operator.setitem(xs, 0, x + 1)
        return x

    xs = [0, 1]
    nbcompile.compile(f, backend="eager", fullgraph=True)(torch.ones(1), xs)
    assert xs == [torch.full((1,), 2.0), 1]
