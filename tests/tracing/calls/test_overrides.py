"""``__torch_function__`` of tensor classes and of modes is traced."""

from __future__ import annotations

import operator

import pytest
import torch
from torch.overrides import TorchFunctionMode

from nbcompile.tracing.calls import overrides
from tests.support.oracle import disagreement, one_graph


class Logged(torch.Tensor):
    calls: list[str] = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


class Doubling(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result * 2 if func is torch.sin else result


def test_a_class_is_asked_about_functions_methods_and_operators():
    """``__torch_function__`` receives the names in eager mode's order; the result is an instance of the class."""

    def scenario(compiled):
        function = compiled(lambda x: torch.sin(x).add(1) * 2)
        for _ in range(2):
            Logged.calls.clear()
            result = function(torch.ones(2).as_subclass(Logged))
            yield type(result).__name__, result.as_subclass(torch.Tensor), list(Logged.calls)

    assert not disagreement(scenario)


def test_a_mode_is_asked_inside_of_its_block():
    """A mode is active only inside its block, and not for functions that it calls itself."""

    def function(x):
        with Doubling():
            y = torch.sin(x)
        return y, torch.sin(x)

    x = torch.ones(2)
    doubled, plain = one_graph(function, x)
    assert torch.equal(doubled, x.sin() * 2)
    assert torch.equal(plain, x.sin())


@pytest.mark.parametrize("state", [torch._C.DisableTorchFunction, torch._C.DisableTorchFunctionSubclass])
def test_where_overrides_are_switched_off(state):
    """The state that the program reads is eager mode's, inside the block and after it."""

    def function(x):
        with state():
            inside = torch._C._is_torch_function_enabled(), torch._C._is_torch_function_mode_enabled()
        return x * 2, inside, torch._C._is_torch_function_enabled()

    def scenario(compiled):
        yield compiled(function)(torch.ones(2))

    assert not disagreement(scenario)


@pytest.mark.parametrize(
    ("target", "position", "tensors", "expected"),
    [
        (torch.sin, 0, (True,), (torch.sin, False)),
        (operator.add, 0, (True, True), (torch.Tensor.add, False)),
        (operator.sub, 1, (False, True), (torch.Tensor.__rsub__, True)),
        (operator.getitem, 0, (True, False), (torch.Tensor.__getitem__, False)),
    ],
    ids=["function", "operator", "reflected", "item"],
)
def test_what_a_class_is_asked_about(target, position, tensors, expected):
    """An operator is reported as the method that torch calls, and whether that method is the reflected one."""
    assert overrides.function_of(target, position, tensors) == expected
