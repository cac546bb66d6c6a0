"""Questions about tensors of other classes: whether they are parameters, and their overridden attributes."""

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor

import nbcompile
from tests.support.graphs import Graphs


class Plain(torch.Tensor):
    pass


class Answering(torch.Tensor):
    """A class that overrides attributes, and identifies them by ``==``."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func == torch.Tensor.ndim.__get__:
            return 42
        if func in (torch.Tensor.shape.__get__, torch.Tensor.is_leaf.__get__):
            return "here"
        if {torch.Tensor.dtype.__get__: True}.get(func):
            return "there"
        return super().__torch_function__(func, types, args, kwargs or {})


def compiled(function):
    """The compiled function, and the list of its graphs."""
    graphs = Graphs()

    return nbcompile.compile(function, backend=graphs), graphs


MADE = {
    "plain": lambda: torch.ones(2),
    "subclass": lambda: torch.ones(2).as_subclass(Plain),
    "wrapper": lambda: TwoTensor(torch.ones(2), torch.ones(2)),
}


def of_a_parameter(x, y):
    return y + (1 if isinstance(x, torch.nn.Parameter) else 2)


def of_a_buffer(x, y):
    return y + (1 if isinstance(x, torch.nn.Buffer) else 2)


def of_either(x, y):
    return y + (1 if isinstance(x, (int, torch.nn.Parameter, torch.nn.Buffer)) else 2)


@pytest.mark.parametrize("question", [of_a_parameter, of_a_buffer, of_either])
@pytest.mark.parametrize("kind", MADE)
def test_a_tensor_marked_as_a_parameter_or_buffer_is_one(question, kind):
    """``isinstance`` with nn.Parameter and nn.Buffer reads a mark on the tensor, which may change."""
    nbcompile.reset()  # one function for many tests
    call, graphs = compiled(question)
    y = torch.zeros(2)
    for x in (MADE[kind](), torch.nn.Parameter(MADE[kind]()), torch.nn.Buffer(MADE[kind]())):
        assert call(x, y).tolist() == question(x, y).tolist()
    x = MADE[kind]()
    for mark in (None, True, False):
        if mark is not None:
            x._is_param = mark
        assert call(x, y).tolist() == question(x, y).tolist()
    assert graphs


@pytest.mark.parametrize("name", ["ndim", "shape", "is_leaf", "dtype", "layout"])
def test_a_class_is_asked_for_attributes(name):
    """``__torch_function__`` identifies ``torch.Tensor.ndim.__get__`` by ``==``, in a tuple and as a key."""

    def read(x, y):
        return y + 1, getattr(x, name)

    call, graphs = compiled(read)
    x, y = torch.ones(2, 3).as_subclass(Answering), torch.zeros(1)
    assert call(x, y) == read(x, y)
    assert len(graphs) == 1


def test_descriptors_and_their_methods_are_compared_as_python_does():
    """Each lookup creates another ``__get__``; those of one descriptor are equal."""

    def look(x):
        get = torch.Tensor.ndim.__get__
        other = torch.Tensor.shape.__get__
        return (
            x + 1,
            get == torch.Tensor.ndim.__get__,
            get == other,
            get != other,
            torch.Tensor.ndim is torch.Tensor.ndim,
        )

    call, graphs = compiled(look)
    x = torch.ones(1)
    assert call(x)[1:] == look(x)[1:]
    assert len(graphs) == 1
    given, _ = compiled(lambda x, get: (x + 1, get == torch.Tensor.ndim.__get__))
    for name in ("ndim", "shape"):
        assert given(x, getattr(torch.Tensor, name).__get__)[1] is (name == "ndim")
