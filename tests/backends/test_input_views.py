"""A program of views that the C launcher runs, and its text, which does the same."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from nbcompile.aot.view_replay import InputViews, ViewCall
from nbcompile.backends.input_views import compile_views
from nbcompile.ir.emitted import AtSlot

ATEN = torch.ops.aten
TRANSPOSED = ViewCall(ATEN.t.default, (AtSlot(0),), {}, (((), 1),), grad_enabled=True)
SECOND_PART = ViewCall(ATEN.split.Tensor, (AtSlot(1), 2), {}, (((1,), 2),), grad_enabled=True)


def _program(*calls: ViewCall, outputs: list[int]) -> Any:
    program = compile_views(InputViews([torch.randn(4, 4)], calls, outputs, grad_enabled=True))
    assert program is not None
    return program


def test_both_conventions_return_the_views() -> None:
    """Views of views, and views from a split, are computed from the given tensor; the input is the same object."""
    program, x = _program(TRANSPOSED, SECOND_PART, outputs=[2, 0]), torch.randn(4, 4)
    for part, same in (program([x]), program.positional(x)):
        assert same is x
        assert part._base is x
        torch.testing.assert_close(part, x.t()[2:], rtol=0, atol=0)


def test_the_text_does_the_same() -> None:
    """Under a profiler the text of the program runs, and gives equal views with the same history."""
    program, x = _program(TRANSPOSED, SECOND_PART, outputs=[2]), torch.randn(4, 4, requires_grad=True)
    with torch.profiler.profile():
        (part,) = program.positional(x)
    assert type(part.grad_fn).__name__ == "SplitBackward0"
    assert torch.equal(part, x.t()[2:])


def test_an_operator_that_fails_raises_torchs_error() -> None:
    """A tensor of other sizes, which guards would reject, raises the operator's own error."""
    program = _program(ViewCall(ATEN.view.default, (AtSlot(0), [2, 8]), {}, (((), 1),), grad_enabled=True), outputs=[1])
    with pytest.raises(RuntimeError, match="is invalid for input of size 9"):
        program.positional(torch.randn(3, 3))
    # The launcher in C raises a RuntimeError; the reference path, in Python, an IndexError.
    with pytest.raises((RuntimeError, IndexError), match="returned fewer views|list index out of range"):
        _program(TRANSPOSED, SECOND_PART, outputs=[2]).positional(torch.randn(2, 2))


def test_no_memory_is_lost() -> None:
    """Unused views are freed: the storage has the same reference count before and after."""
    program, x = _program(TRANSPOSED, SECOND_PART, outputs=[2]), torch.randn(4, 4)
    before = torch._C._storage_Use_Count(x.untyped_storage()._cdata)
    for _ in range(10):
        program.positional(x)
    assert torch._C._storage_Use_Count(x.untyped_storage()._cdata) == before


def test_an_operator_that_fails_leaves_the_grad_mode() -> None:
    """The program sets a grad mode for some views; if one raises, the caller's mode is restored."""
    far = ViewCall(ATEN.as_strided.default, (AtSlot(0), [2], [1], 100), {}, (((), 1),), grad_enabled=False)
    program = _program(far, outputs=[1])
    assert program.positional(torch.randn(200)[:16])[0].shape == (2,)
    for call in (program.positional, lambda x: program([x])):
        with pytest.raises(RuntimeError, match="out of bounds"):
            call(torch.randn(4, 4))
        assert torch.is_grad_enabled()


def test_a_graph_is_joined_with_its_views() -> None:
    """The views replace results of the graph, whose autograd recording is switched off only on request."""
    program, x = _program(TRANSPOSED, outputs=[1]), torch.randn(4, 4, requires_grad=True)
    modes: list[bool] = []

    def graph(given: torch.Tensor) -> list[torch.Tensor]:
        modes.append(torch.is_grad_enabled())
        return [given, given + 1]

    for without_autograd in (False, True):
        kept, view = program.joined(graph, (1,), without_autograd)(x)
        assert kept is x
        assert view._base is x
        assert type(view.grad_fn).__name__ == "TBackward0"
    assert modes == [True, False]
    assert torch.is_grad_enabled()
    with torch.no_grad():
        assert program.joined(graph, (0,), True)(x)[0].grad_fn is None
        assert not torch.is_grad_enabled()


def test_a_joined_graph_that_fails_leaves_the_grad_mode() -> None:
    """If the graph or a view raises, the error propagates and gradients are enabled again; each view has a position."""
    program = _program(TRANSPOSED, outputs=[1])

    def fail(_given: torch.Tensor) -> list[torch.Tensor]:
        raise KeyError("inside")

    with pytest.raises(KeyError, match="inside"):
        program.joined(fail, (0,), True)(torch.randn(4, 4))
    with pytest.raises(RuntimeError, match="expects a tensor with <= 2 dimensions"):
        program.joined(lambda given: [given], (0,), True)(torch.randn(2, 2, 2))
    with pytest.raises(ValueError, match="instead of no result"):
        program.joined(lambda given: [given], (1,), True)(torch.randn(4, 4))
    with pytest.raises(ValueError, match="a position for each view"):
        program.joined(fail, (), True)
    assert torch.is_grad_enabled()
