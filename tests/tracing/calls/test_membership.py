"""Membership: a result of the graph where sizes decide it, so that other sizes need no other graph."""

from __future__ import annotations

import operator

import pytest
import torch

import nbcompile
from nbcompile.peer.observe import target_name

SIZES = [(2, 3), (4, 3), (5, 5), (1, 5), (6, 2)]
RETURNED = {
    "in": (lambda x: x.shape[0] in (1, 5), ["eq", "eq", "or_"]),
    "in a list": (lambda x: x.shape[0] in [7, x.shape[1]], ["eq", "eq", "or_"]),
    "not in": (lambda x: x.shape[0] not in (1, 5), []),
    "a number in sizes": (lambda x: 3 in x.shape, ["eq", "eq", "or_"]),
    "with None": (lambda x: x.shape[0] in (None, 5), ["eq"]),
    "operator.contains": (lambda x: operator.contains((1, 5), x.shape[0]), ["eq", "eq", "or_"]),
    "sizes": (lambda x: x.shape == (4, 3), ["eq", "eq", "and_"]),
    "other sizes": (lambda x: x.shape != (4, 3), []),
    "divmod": (lambda x: divmod(x.shape[0], 2), ["floordiv", "mod"]),
    "divmod of a number": (lambda x: divmod(7, x.shape[0]), ["floordiv", "mod"]),
    "itself": (lambda x: x.shape[0] in [x.shape[0]], []),
    "nothing": (lambda x: x.shape[0] in (), []),
    "a text": (lambda x: x.shape[0] in ("a", "b"), []),
    "a float": (lambda x: x.shape[0] in (4.0, 5.5), ["eq", "eq", "or_"]),
    "a set": (lambda x: x.shape[0] in {1, 5}, []),
}


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("name", RETURNED)
def test_a_returned_condition(name):
    """The result is eager mode's at each size, and an operator of the graph where torch.compile has one."""
    condition, expected = RETURNED[name]
    graphs = []

    def backend(module, example_inputs):
        graphs.append([target_name(node) for node in module.graph.nodes if node.op == "call_function"])
        return module.forward

    def f(x):
        return x + 1, condition(x)

    compiled = nbcompile.compile(f, backend=backend, dynamic=True)
    for sizes in SIZES:
        assert compiled(torch.ones(sizes))[1] == f(torch.ones(sizes))[1], sizes
    found = [target.rpartition(".")[2] for target in graphs[0]]
    assert [target for target in found if target not in ("add", "size", "getitem")] == expected
    assert not expected or len(graphs) <= 2  # the second one has sizes of 1


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("condition", [lambda x: x.shape[0] in (4, 6), lambda x: x.shape == (4, 3)])
def test_a_branch(condition):
    """One guard on the whole condition: what is not in the list has one graph."""
    graphs = []

    def backend(module, example_inputs):
        graphs.append(module)
        return module.forward

    compiled = nbcompile.compile(lambda x: x + 1 if condition(x) else x - 1, backend=backend, dynamic=True)
    for sizes in [(2, 3), (3, 3), (5, 7), (4, 3)]:
        x = torch.ones(sizes)
        assert torch.equal(compiled(x), x + 1 if condition(x) else x - 1)
    assert len(graphs) == 2


def test_a_nan_in_a_list():
    """A NaN that is the same object is in the list, though it does not equal itself."""
    compiled = nbcompile.compile(lambda x, n: (x + 1, n in [n, 2.0]), backend="eager", dynamic=True)
    for number in (1.5, float("nan"), 2.0):
        assert compiled(torch.ones(2), number)[1]
