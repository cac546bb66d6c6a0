"""Functions that create tensors: in the graph, of numbers known only at run time, and by the old constructors."""

from __future__ import annotations

import collections

import pytest
import torch

import nbcompile
from tests.support.graphs import agrees, compiled

pytestmark = pytest.mark.usefixtures("nothing_compiled")
X = torch.linspace(-1, 1, 4)


def test_a_number_in_a_tensor_fills_memory_in_the_graph():
    """``torch.full`` with a tensor as its value is ``empty`` and ``fill_``: the host does not read the tensor."""
    agrees(lambda x: torch.full((2, 3), x.sum()), X, operators="sum empty fill_")
    agrees(lambda x: x + torch.full((4,), 2.5), X)


def test_a_list_with_tensors_is_stacked_in_the_graph():
    """``torch.tensor`` of a list of tensors reads no data on the host."""
    for function in (lambda x: torch.tensor([x[0], 2.0]), lambda x: torch.as_tensor([1.0, 2.0]) + x[0]):
        agrees(function, X)
    _, (operators,) = compiled(lambda x: torch.tensor([x[0], x[1]]) + 1, X, fullgraph=True)
    assert "item" not in operators


@pytest.mark.parametrize("make", [torch.FloatTensor, torch.DoubleTensor, torch.LongTensor, torch.BoolTensor])
def test_old_constructors_make_what_they_made(make):
    """The old constructors create eager mode's tensors from a list."""
    agrees(lambda x: (x + 1, make([0, 1, 2])), X)


NUMBERS = {
    "float": lambda x: x.sum(),
    "double": lambda x: x.double().sum(),
    "half": lambda x: x.half().sum(),
    "int": lambda x: x.argmax(),
    "int32": lambda x: x.argmax().int(),
    "bool": lambda x: x.sum() > 0,
    "complex": lambda x: x.sum() * 1j,
}
FILLED = {
    "positional": lambda number: torch.full((2,), number),
    "keywords": lambda number: torch.full(size=(2,), fill_value=number, dtype=None),
    "dtype": lambda number: torch.full((2,), number, dtype=torch.complex128),
    "linspace": lambda number: torch.linspace(0, number, 3),
    "linspace_start": lambda number: torch.linspace(start=number, end=2, steps=3),
    "linspace_both": lambda number: torch.linspace(number, number, 3),
    "logspace": lambda number: torch.logspace(0, number, 3) if number.dtype != torch.bool else number,
    "logspace_dtype": lambda number: torch.logspace(number, 0, 3, dtype=torch.complex64),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "nbcompile"])
@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("name", FILLED)
def test_a_number_in_a_tensor_decides_the_dtype_as_one_of_python_does(name, number, backend):
    """An int64 tensor fills int64, a double the default dtype; the dtype that is read inside is the result's."""

    def f(x):
        filled = FILLED[name](NUMBERS[number](x))
        return filled, str(filled.dtype)

    x = torch.tensor([0.5, 0.25, -0.125])
    actual, expected = nbcompile.compile(f, backend=backend, fullgraph=True)(x), f(x)
    torch.testing.assert_close(actual[0], expected[0], equal_nan=True)
    assert actual[1] == expected[1]


NO_NUMBERS = {
    "several": lambda x: torch.full((2,), x),
    "gradient": lambda x: torch.full((2,), x.sum().requires_grad_()),
    "complex": lambda x: torch.full((2,), x.sum() * 1j, dtype=torch.float64),
    "deque": lambda x: torch.cat(collections.deque([x, x])),
    "deque_stack": lambda x: torch.stack(tensors=collections.deque([x, x])),
}


@pytest.mark.parametrize("name", NO_NUMBERS)
def test_what_eager_mode_does_not_take_raises(name):
    """A tensor of several numbers, one with gradients, a complex one for a real dtype, a deque: eager mode's error."""
    for function in (NO_NUMBERS[name], nbcompile.compile(NO_NUMBERS[name])):
        with pytest.raises((TypeError, RuntimeError), match="must be|cannot be converted"):
            function(torch.ones(3))
