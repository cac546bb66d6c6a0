"""Users' operators are called by name; their traced properties must be unchanged."""

from __future__ import annotations

import pytest
import torch

PROGRAM = """
import torch
ROWS = 1
def rows(x):
    return x.shape[0] * ROWS

@torch.library.custom_op("warm_tests::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2

@twice.register_fake
def _(x):
    return x.new_empty((rows(x), *x.shape[1:]))

def save(ctx, inputs, output):
    ctx.factor = 2
def back(ctx, gradient):
    return gradient * ctx.factor
twice.register_autograd(back, setup_context=save)

@torch.library.custom_op("warm_tests::count_up", mutates_args=("x",))
def count_up(x: torch.Tensor) -> None:
    x.add_(1)

def f(x):
    return twice(x.sin()) + 1

def g(x, y):
    count_up(x)
    return x + y
"""


@pytest.mark.parametrize("learns", [False, True])
def test_a_graph_that_calls_an_operator_is_loaded(process, learns):
    """Forward is loaded, and backward through the registered formula."""
    for attempt in range(2):
        run = process(PROGRAM)
        x, other = (torch.ones(3, requires_grad=learns) for _ in range(2))
        found, wanted = run.call("f", x), run.module.f(other)
        torch.testing.assert_close(found, wanted)
        if learns:
            found.sum().backward()
            wanted.sum().backward()
            torch.testing.assert_close(x.grad, other.grad)
        assert run.loaded == [bool(attempt)], run.reasons


def test_an_operator_that_writes(process):
    """The input is mutated, and the mutations are counted."""
    for attempt in range(2):
        run = process(PROGRAM)
        x, other = torch.ones(3), torch.ones(3)
        torch.testing.assert_close(run.call("g", x, torch.ones(3)), run.module.g(other, torch.ones(3)))
        torch.testing.assert_close(x, other)
        assert run.loaded == [bool(attempt)], run.reasons


CHANGES = {
    "its fake": ("x.new_empty(", "x.double().float().new_empty("),
    "what its fake calls": ("x.shape[0] * ROWS", "ROWS * x.shape[0]"),
    "what that reads": ("ROWS = 1", "ROWS = True"),
    "its derivative": ("gradient * ctx.factor", "gradient * ctx.factor * 1"),
    "its schema": ("twice(x: torch.Tensor)", "twice(x: torch.Tensor, by: float = 1.0)"),
}


@pytest.mark.parametrize("changed", CHANGES)
def test_an_operator_that_differs_is_another_one(process, changed):
    """A change of any property that tracing uses causes a compilation."""
    before, after = CHANGES[changed]
    assert before in PROGRAM
    after_source = PROGRAM.replace(before, after, 1)
    if "by:" in after:
        after_source = after_source.replace("def _(x):", "def _(x, by=1.0):").replace(
            "ctx.factor\n", "ctx.factor, None\n"
        )
    process(PROGRAM).call("f", torch.ones(3))
    later = process(after_source)
    torch.testing.assert_close(later.call("f", torch.ones(3)), later.module.f(torch.ones(3)))
    assert later.loaded == [False]


def test_what_it_does_may_change(process):
    """The body of an operator is called at run time, and not traced."""
    process(PROGRAM).call("f", torch.ones(3))
    later = process(PROGRAM.replace("return x * 2", "return x * 3"))
    torch.testing.assert_close(later.call("f", torch.ones(3)), later.module.f(torch.ones(3)))
    assert later.loaded == [True]


def test_an_operator_whose_fake_reads_an_object_is_not_kept(process):
    """The object may differ in another process, so the entry is not stored."""
    run = process(PROGRAM.replace("ROWS = 1", "class Box:\n    rows = 1\nBOX = Box()").replace("* ROWS", "* BOX.rows"))
    run.call("f", torch.ones(3))
    assert "a value of type Box" in run.reasons[0]
