"""In-place mutations of an input of a user's class: values, sizes, strides, memory and history are eager mode's.

    s = x.as_subclass(S); f(s)    ->    s.unsqueeze_(0) in f is seen by the caller

The graph runs on an alias of the input, of torch's own class.
"""

from __future__ import annotations

import pytest
import torch

import nbcompile

WEIGHT = torch.arange(1.0, 7).reshape(2, 3).requires_grad_()


class Named(torch.Tensor):
    """A class that overrides no operator."""


class Doubling(torch.Tensor):
    """A class that overrides an operator."""

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), keywords=None):
        result = super().__torch_function__(function, types, arguments, keywords or {})
        return result * 2 if function is torch.Tensor.sin else result


def set_data(s):
    s.data = torch.arange(5.0)
    return s.sin()


def without_gradient(s):
    with torch.no_grad():
        s.mul_(2)
    return s * 3


PROGRAMS = {
    "unsqueeze_": lambda s: s.unsqueeze_(0).sin(), "squeeze_": lambda s: s.squeeze_().sin(),
    "t_": lambda s: s.t_() + 1, "transpose_": lambda s: s.transpose_(0, 1) + 1, "swapaxes_": lambda s: s.swapaxes_(0, 1),
    "as_strided_": lambda s: s.as_strided_((3,), (2,), 1).sin(), "set_": lambda s: s.set_(torch.zeros(4)) + 1,
    "data": set_data, "t_ and add_": lambda s: s.t_().add_(1), "add_": lambda s: s.add_(1).sin(),
    "add_ to a view": lambda s: (s.view(-1).add_(1), s * 2)[1], "requires_grad_": lambda s: s.requires_grad_() * 2,
    "without gradient": without_gradient, "returned": lambda s: (s.unsqueeze_(-1), s)[1],
    "two inputs": lambda s: (s.mul_(2), s.t_())[0] @ s.clone().t(),
}  # fmt: skip


def inputs(cls):
    yield torch.arange(6.0).reshape(2, 3).clone().as_subclass(cls)
    yield (torch.arange(6.0).reshape(2, 3) * WEIGHT).as_subclass(cls)
    yield (torch.arange(12.0).reshape(2, 2, 3) * WEIGHT).as_subclass(cls)[1]
    yield (torch.arange(6.0).reshape(2, 3) * WEIGHT).as_subclass(cls) + 1


def described(tensor):
    with torch._C.DisableTorchFunctionSubclass():
        values = [round(value, 4) for value in tensor.detach().flatten().tolist()]
        return type(tensor).__name__, values, tensor.shape, tensor.stride(), tensor.requires_grad, tensor.is_leaf


def run(function, given):
    WEIGHT.grad = None
    try:
        result = function(given)
        found = [described(result), described(given), result is given]
        if result.requires_grad and not result.is_leaf:
            result.sum().backward()
    except RuntimeError:
        return "RuntimeError"
    return [*found, None if WEIGHT.grad is None else [round(value, 4) for value in WEIGHT.grad.flatten().tolist()]]


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("cls", [Named, Doubling])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_changes_are_seen_by_the_caller(name, backend, cls):
    """The input, the result and the gradient are eager mode's, in each call."""
    compiled = nbcompile.compile(PROGRAMS[name], backend=backend)
    for ours, eagers in zip(inputs(cls), inputs(cls), strict=True):
        assert run(compiled, ours) == run(PROGRAMS[name], eagers)


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_result_with_a_history_is_written_after_a_break(dynamic):
    """Such a tensor can be mutated in place, because it is not a leaf."""

    def program(x):
        s = x.as_subclass(Named)
        print(end="")
        s.add_(1)
        return s * 2

    def programs_result(function):
        x = torch.ones(2, 3) * WEIGHT
        return described(function(x)), described(x)

    assert programs_result(nbcompile.compile(program, dynamic=dynamic)) == programs_result(program)


@pytest.mark.usefixtures("nothing_compiled")
def test_one_of_several_views_is_not_written():
    """An operation that eager mode rejects raises an error here, too, with another text."""
    for function in (add_one := lambda s: s.add_(1), nbcompile.compile(add_one)):
        part = (torch.ones(2, 3) * WEIGHT).as_subclass(Named).unbind()[0]
        with pytest.raises(RuntimeError, match="is being (modified inplace|used in an in-place operation)"):
            function(part)
