"""Values that a residual program reads again are those of the trace, without a second call of the user's code."""

import random

import pytest
import torch

import nbcompile
from tests.peer.programs.gradients_and_hooks import Counted


def of_a_gradient(x):
    return x.grad


def beside_a_graph(x):
    return x * x.grad


def of_several(x):
    return x.T, x.real, x.shape, x.dtype, x.is_leaf, x.requires_grad, x.grad_fn, x._version


def after_a_store(x):
    x.note = 1
    return x.grad is None, x.note


def of_an_attribute(x):
    return x.grad.grad, x.data, x.device


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("function", [of_a_gradient, beside_a_graph, of_several, after_a_store, of_an_attribute])
def test_a_tensors_class_is_asked_as_often_as_by_eager(function, backend):
    """``__torch_function__`` is called as often as in eager mode, also where the graph breaks."""
    kinds, calls = [], []
    for each in (function, nbcompile.compile(function, backend=backend)):
        for _ in range(2):
            x = torch.ones(3).as_subclass(Counted).requires_grad_()
            with torch._C.DisableTorchFunctionSubclass():
                x.grad = torch.ones(3).as_subclass(Counted)
            Counted.calls = 0
            results = each(x)
            calls.append(Counted.calls)
            kinds.append([type(item) for item in results] if isinstance(results, tuple) else type(results))
    assert calls[:2] == calls[2:]
    assert kinds[:2] == kinds[2:]


class Holder(torch.nn.Module):
    """A module whose parameters a function reads through a global."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)


parameters = Holder()
"""A global with the name of the local that the residual program uses for parameters."""


def through_a_global(x):
    return x @ parameters.linear.weight + parameters.linear.bias


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_a_local_of_the_residual_program_hides_no_global(backend):
    """Names in the residual program differ from the names of globals."""
    x = torch.randn(2, 3)
    compiled = nbcompile.compile(through_a_global, backend=backend)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), through_a_global(x))


def test_an_int_of_thousands_of_digits_is_no_literal():
    """An int that Python cannot print works as a result, in a guard, in a dict and as a seed."""

    def function(x, number):
        generator = random.Random()
        generator.seed(10**5000)
        return x + 1, 10**5000 + 1, {10**5000: 2}, number + 1, generator.random()

    compiled = nbcompile.compile(function, backend="eager", fullgraph=True)
    for number in (10**5000, 10**5000 + 1, 10**5000):
        _, one, entries, other, drawn = compiled(torch.ones(2), number)
        assert one == 10**5000 + 1
        assert entries == {10**5000: 2}
        assert other == number + 1
        assert drawn == random.Random(10**5000).random()


class Meta(type):
    @property
    def items(cls):
        return ["of the metaclass"]


def test_a_member_is_not_taken_from_the_metaclass():
    """An object's attribute is its class's member, also where the metaclass has a property of the name."""
    kind = Meta("kind", (), {"items": ["of the class"]})

    def f(x, found):
        return x + 1, found.items

    compiled = nbcompile.compile(f, backend="eager")
    assert compiled(torch.ones(1), kind())[1] is vars(kind)["items"]
    assert compiled(torch.ones(1), kind())[1] == ["of the class"]
