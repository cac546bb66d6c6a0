"""Warnings of operators are shown as in eager mode: the same number, for the same lines."""

from __future__ import annotations

import warnings

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

import nbcompile


def loss(x, y):
    return F.mse_loss(x, y) + 1


def two(x, y):
    return F.softmax(x) * F.l1_loss(x, y)


def given_up(x, y):
    z = F.mse_loss(x, y)
    for _ in range(2):
        torch._dynamo.graph_break()
    return z


def resumed(x, y):
    z = F.mse_loss(x, y)
    torch._dynamo.graph_break()
    return z + F.mse_loss(x, y)


def seen(function, x, y):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        function(x, y)
    return [(each.filename, each.lineno, each.category, str(each.message)) for each in found]


@pytest.mark.compiles
@pytest.mark.parametrize("trains", [False, True])
@pytest.mark.parametrize("function", [loss, two, given_up, resumed])
@pytest.mark.parametrize("backend", ["inductor", "aot_eager"])
def test_as_in_eager_mode(function, backend, trains):
    """Each operator warns once, at the user's line, also if the trace of its frame is abandoned."""
    x, y = torch.ones(3, 1, requires_grad=trains), torch.ones(3)
    expected = seen(function, x, y)
    assert expected
    assert seen(nbcompile.compile(function, backend=backend), x, y) == expected


@pytest.mark.compiles
def test_other_warnings_of_the_next_stage_are_shown():
    """Only the warnings of tracing are ignored afterwards: a backend's own warning is shown."""

    def backend(module, inputs):
        warnings.warn("of the backend", stacklevel=1)
        return module.forward

    found = seen(nbcompile.compile(loss, backend=backend), torch.ones(3, 1), torch.ones(3))
    assert "of the backend" in [text for *_, text in found]


def test_a_filter_that_raises():
    """The filter "error" turns the warning into eager mode's exception."""
    nbcompile.reset()  # an existing cache entry runs without a warning
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for function in (loss, nbcompile.compile(loss)):
            with pytest.raises(UserWarning, match="Using a target size"):
                function(torch.ones(3, 1), torch.ones(3))
