"""Optimizers: their state is created before they are traced, so that the first step is traced like later ones."""

from __future__ import annotations

import inspect
import sys

import pytest
import torch

import nbcompile
from nbcompile import errors
from tests.support.graphs import Graphs

pytestmark = pytest.mark.usefixtures("nothing_compiled")


def weights():
    torch.manual_seed(0)
    made = [torch.randn(3, requires_grad=True), torch.randn(2, 2, requires_grad=True)]
    for weight in made:
        weight.grad = torch.ones_like(weight) / 4
    return made


@pytest.mark.parametrize(
    ("cls", "settings"),
    [
        (torch.optim.Adam, {"lr": 0.1}),
        (torch.optim.AdamW, {"lr": 0.1, "amsgrad": True}),
        (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
        (torch.optim.RMSprop, {"lr": 0.1, "centered": True}),
        (torch.optim.Adam, {"lr": 0.1, "foreach": True}),  # their step sizes in lists are tensors or numbers
    ],
)
def test_the_first_step_is_traced_as_the_second(cls, settings):
    """One graph serves three steps, because the state exists when the first is traced; the weights are eager mode's."""
    ours, theirs = weights(), weights()
    optimizer, eager = cls(ours, **settings), cls(theirs, **settings)
    graphs = Graphs()
    step = nbcompile.compile(optimizer.step, backend=graphs)
    for _ in range(3):
        step()
        eager.step()
    if cls is torch.optim.SGD:  # its momentum is a copy of the first gradient, so it is not created before
        assert len(graphs) <= 2
    else:
        assert len(graphs) == 1
    torch.testing.assert_close(ours, theirs)
    found, expected = optimizer.state_dict()["state"], eager.state_dict()["state"]
    assert found.keys() == expected.keys()
    for at, state in expected.items():
        assert found[at].keys() == state.keys()


def test_the_step_count_stays_a_tensor_in_the_graph():
    """A compiled optimizer is traced as ``capturable``; the user's setting does not change."""
    optimizer = torch.optim.Adam(weights(), lr=0.1)
    graphs = Graphs()
    nbcompile.compile(optimizer.step, backend=graphs)()
    assert "item" not in graphs.operators[0]
    # The step size is a tensor, too: it divides the operands, where a number would be the keyword ``value``.
    assert all("value" not in node.kwargs for node in graphs[0].graph.nodes if "addcdiv" in node.name)
    assert optimizer.param_groups[0]["capturable"] is False
    assert all(state["step"].item() == 1 for state in optimizer.state.values())


def test_state_is_not_made_for_what_was_changed_before():
    """The state of an optimizer that the program changed before is traced, and the weights are eager mode's."""

    def f(optimizer):
        optimizer.param_groups[0]["lr"] = 0.5
        optimizer.step()

    ours, theirs = weights(), weights()
    optimizer, eager = torch.optim.Adam(ours, lr=0.1), torch.optim.Adam(theirs, lr=0.1)
    compiled = nbcompile.compile(f, backend="eager")
    for _ in range(2):
        compiled(optimizer)
        f(eager)
    torch.testing.assert_close(ours, theirs)
    assert optimizer.param_groups[0]["lr"] == 0.5


@pytest.mark.parametrize("name", ["_fused_adam", "_fused_sgd", "_fused_adagrad"])
def test_a_fused_step_is_not_traced(name):
    """A fused step is one operator without a functional form: the graph breaks, with that reason."""
    fused = getattr(sys.modules[f"torch.optim.{name.removeprefix('_fused_')}"], name)

    wanted = inspect.signature(fused).parameters.values()
    positional = len([one for one in wanted if one.kind is one.POSITIONAL_OR_KEYWORD])
    named = dict.fromkeys([one.name for one in wanted if one.kind is one.KEYWORD_ONLY], 0.5)

    def f(x):
        fused(*[[x]] * positional, **named)

    with pytest.raises(errors.Unsupported, match="don't trace into fused optimizer"):
        nbcompile.compile(f, backend="eager", fullgraph=True)(torch.ones(1))


def test_a_fused_optimiser_gives_eagers_weights():
    """The fused step runs in eager mode, between graphs."""
    ours, theirs = weights(), weights()
    optimizer, eager = (torch.optim.Adam(each, lr=0.1, fused=True) for each in (ours, theirs))
    compiled = nbcompile.compile(optimizer.step, backend="eager")
    for _ in range(2):
        compiled()
        eager.step()
    torch.testing.assert_close(ours, theirs)
