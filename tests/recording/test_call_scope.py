"""The names and values of a call, without making the call."""

from __future__ import annotations

import functools

import pytest
import torch

from nbcompile.recording.call_scope import scope_of


def bound(function, *arguments, **keywords):
    return dict(scope_of(function.__code__, function, arguments, keywords).locals)


def test_arguments_are_bound_as_python_binds_them():
    """Defaults, ``*rest`` and ``**more`` are bound to the names in the frame."""

    def f(x, y=2, *rest, k=1, **more):
        """Only its signature counts."""

    assert bound(f, 0) == {"x": 0, "y": 2, "rest": (), "k": 1, "more": {}}
    assert bound(f, 0, 1, 2, k=3, z=4) == {"x": 0, "y": 1, "rest": (2,), "k": 3, "more": {"z": 4}}
    with pytest.raises(TypeError):
        bound(f)


def test_the_closure_is_part_of_the_call():
    """A free variable has its cell's value; an unassigned one is an error."""
    offset = 2

    def f(x):
        return x + offset

    assert bound(f, 1) == {"x": 1, "offset": 2}

    def g(x):
        return x + later

    with pytest.raises(ValueError, match="empty"):
        bound(g, 1)
    later = 3


def test_a_method_and_a_module_bring_their_object():
    """The first parameter is bound to the object, under the method's name for it."""

    class Net(torch.nn.Module):
        def forward(this, x):
            return x

    net = Net()
    assert bound(net.forward, 1) == {"this": net, "x": 1}
    assert dict(scope_of(Net.forward.__code__, net, (1,), {}).locals) == {"this": net, "x": 1}

    class Gathered(torch.nn.Module):
        def forward(*arguments):
            return arguments[1]

    net = Gathered()
    assert bound(net.forward, 1) == {"arguments": (net, 1)}


def test_a_wrapper_has_the_parameters_of_its_own_code():
    """A wrapper has the parameters of its own code, and not those that ``functools.wraps`` shows."""

    def f(x):
        """Only its signature counts."""

    @functools.wraps(f)
    def g(*arguments, **keywords):
        return f(*arguments, **keywords)

    assert {"arguments": (1,), "keywords": {}}.items() <= bound(g, 1).items()
