"""A later process loads an optimizer's step, although its optimizer has no state yet."""

from __future__ import annotations

import pytest
import torch

from nbcompile.fast.disk_cache import entry

PROGRAM = """
import torch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
opt = torch.optim.{}
step = opt.step
def learn():
    opt.zero_grad()
    net(torch.linspace(-1, 1, 8).view(2, 4)).square().sum().backward()
"""
KINDS = [
    "Adam(net.parameters())",
    "Adam(net.parameters(), foreach=True)",
    "Adam(net.parameters(), amsgrad=True, lr=torch.tensor(0.01))",
    "AdamW([{'params': net[0].parameters()}, {'params': net[2].parameters(), 'lr': 0.1}])",
    "SGD(net.parameters(), lr=0.1, momentum=0.9)",
    "SGD(net.parameters(), lr=0.1, momentum=0.9, foreach=True, nesterov=True)",
    "RMSprop(net.parameters())",
    "Adafactor(net.parameters())",
]


def steps(run, count=3):
    """The parameters and the state after some steps, compiled or in eager mode."""
    module = getattr(run, "module", run)
    for _ in range(count):
        module.learn()
        module.step() if module is run else run.call("step")
    state = [value for each in module.opt.state.values() for value in each.values() if isinstance(value, torch.Tensor)]
    return [each.detach() for each in module.net.parameters()], state


@pytest.mark.parametrize("kind", KINDS)
def test_steps_are_loaded(process, kind):
    """The first step, without a state, and all later ones are loaded; parameters and state are eager mode's."""
    source = PROGRAM.format(kind)
    first = process(source)
    steps(first)
    assert set(first.reasons) <= {entry.STORED, ""}, first.reasons
    later = process(source)
    found = steps(later)
    compiled = [each.function for each in later.frames if each.status == "compiled" and "loaded" not in each.cause]
    assert compiled == []
    torch.testing.assert_close(found, steps(process(source).module))


@pytest.mark.parametrize(
    "change",
    [
        "opt.param_groups[0]['lr'] = 0.5",
        "opt.param_groups[0]['maximize'] = True",
        "net[0].weight.requires_grad_(False)",
        "net.double()",
    ],
)
def test_a_step_that_differs_is_compiled(process, change):
    """Another setting, a parameter without a gradient or another dtype fails the guards on the parameters."""
    source = PROGRAM.format("Adam(net.parameters())")
    steps(process(source))
    source += change + "\n"
    if "double" in change:
        source = source.replace("8).view(2, 4)", "8, dtype=torch.double).view(2, 4)")
    later = process(source)
    found = steps(later, 1)
    assert any(each.function == "step" and "loaded" not in each.cause for each in later.frames)
    torch.testing.assert_close(found, steps(process(source).module, 1))


def test_no_state_is_made_for_an_entry_that_speaks_of_another_call(process):
    """An optimizer whose step is not reached has an empty state, because other guards are checked first."""
    source = PROGRAM.format("SGD(net.parameters(), lr=0.1, momentum=0.9)") + (
        "def maybe(wanted):\n    if wanted:\n        opt.step()\n    return torch.ones(1)\n"
    )
    first = process(source)
    first.module.learn()
    first.call("maybe", True)
    later = process(source)
    later.module.learn()
    later.call("maybe", False)
    assert not later.module.opt.state
