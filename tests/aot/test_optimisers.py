"""Optimisers with a compiled step: parameters and state equal those after eager steps."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from tests.support.observed import agrees_with_eager

RATE = {"lr": 0.1}
STEPS = {
    "SGD": {**RATE, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01, "foreach": False},
    "SGD, all at once": {**RATE, "momentum": 0.9, "foreach": True},
    "SGD, fused": {**RATE, "fused": True},
    "Adam": {"amsgrad": True, "weight_decay": 0.1, "foreach": False},
    "Adam, all at once": {"foreach": True, "maximize": True},
    "Adam, fused": {"fused": True},
    "AdamW, a rate that is a tensor": {"lr": torch.tensor(0.1), "foreach": False},
    "NAdam": {}, "RAdam": {}, "Adamax": {}, "Adagrad": {"lr_decay": 0.1}, "Adadelta": {}, "Rprop": {}, "ASGD": {},
    "RMSprop": {"centered": True, "momentum": 0.5}, "Adafactor": {}, "Muon": {},
}  # fmt: skip


@pytest.mark.parametrize("name", STEPS)
def test_step(name):
    """Three steps of two parameters give eager's parameters and state."""
    optimiser_class = getattr(torch.optim, name.partition(",")[0], None)
    if optimiser_class is None:
        pytest.skip("not in this version of torch")

    def program(compiled):
        parameters = [torch.randn(3, 4, requires_grad=True), torch.randn(4, 3, requires_grad=True)]
        optimiser = optimiser_class(parameters, **STEPS[name])
        step = compiled(lambda: optimiser.step())
        for _ in range(3):
            for each in parameters:
                each.grad = torch.randn_like(each)
            step()
        state = [value for known in optimiser.state.values() for value in known.values()]
        return [each.detach() for each in parameters], state

    agrees_with_eager(program)


def test_schedules_and_groups():
    """A schedule changes the rate, groups have different settings, and a parameter may lack a gradient in one step."""

    def program(compiled):
        first, second = torch.randn(3, requires_grad=True), torch.randn(3, requires_grad=True)
        groups = [{"params": [first], "lr": 0.1}, {"params": [second], "weight_decay": 0.0}]
        optimiser = torch.optim.AdamW(groups, lr=torch.tensor(0.01))
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.9)
        step = compiled(optimiser.step)
        for turn in range(3):
            first.grad, second.grad = torch.randn(3), None if turn == 1 else torch.randn(3)
            step()
            schedule.step()
        return first.detach(), second.detach()

    agrees_with_eager(program)


def test_a_closure():
    """A compiled step of LBFGS calls the closure of the model."""

    def program(compiled):
        x = torch.randn(3, requires_grad=True)
        optimiser = torch.optim.LBFGS([x], lr=0.1)

        def closure():
            optimiser.zero_grad()
            loss = (x - 1).pow(2).sum()
            loss.backward()
            return loss

        step = compiled(lambda: optimiser.step(closure))
        return [step().detach() for _ in range(2)], x.detach()

    agrees_with_eager(program)


def test_gradients_set_to_zero():
    """``zero_grad(set_to_none=False)`` mutates the gradients."""

    def program(compiled):
        model, x = nn.Linear(4, 1), torch.randn(5, 4)
        optimiser = torch.optim.SGD(model.parameters(), lr=0.01)

        def finish():
            optimiser.step()
            optimiser.zero_grad(set_to_none=False)

        run = compiled(finish)
        for _ in range(2):
            model(x).sum().backward()
            run()
        return list(model.parameters())

    agrees_with_eager(program)
