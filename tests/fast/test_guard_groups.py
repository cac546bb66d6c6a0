"""Tests of nbcompile/fast/guard_groups.py: cached guards on modules."""

import pytest
import torch

import nbcompile
from nbcompile.dispatch import cache
from nbcompile.fast import guard_cache
from tests.support.graphs import Graphs

pytestmark = pytest.mark.usefixtures("nothing_compiled")

x = torch.ones(2, 4)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(3)])
        self.scale = 2
        self.register_buffer("shift", torch.ones(4))

    def forward(self, x):
        return self.layers(x) * self.scale + self.shift


def compiled(net):
    graphs = Graphs()

    return nbcompile.compile(net, backend=graphs, dynamic=False), graphs


@pytest.mark.skipif(guard_cache.maker() is None, reason="no compiler, or dicts have no versions")
def test_most_guards_of_a_module_are_remembered():
    """More than half of the guards of a module are in its group."""
    net = Net()
    compiled(net)[0](x)
    (entry,) = cache.entries(Net.forward.__code__)
    (group,) = entry.check.groups
    assert len(group.guards) > len(entry.check.prepared) / 2


CHANGES = {
    "a number": lambda net: setattr(net, "scale", 3),
    "a parameter": lambda net: setattr(net.layers[1], "weight", torch.nn.Parameter(torch.ones(5, 4)[:4] * 2)),
    "another dtype": lambda net: net.double(),
    "requires_grad of a weight": lambda net: net.layers[2].weight.requires_grad_(False),
    "requires_grad of a bias": lambda net: net.layers[0].bias.requires_grad_(False),
    "a layer": lambda net: net.layers.__setitem__(1, torch.nn.ReLU()),
    "a layer's class": lambda net: setattr(net.layers[1], "__class__", torch.nn.Identity),
    "a hook": lambda net: net.layers[1].register_forward_hook(lambda module, inputs, output: output + 1),
    "a layer is added": lambda net: net.layers.append(torch.nn.Linear(4, 4)),
    "a layer is removed": lambda net: net.layers.__delitem__(2),
    "a forward of its own": lambda net: setattr(net.layers[1], "forward", lambda x: x),
    "a buffer": lambda net: setattr(net, "shift", torch.ones(2, 4)),
    "data of another size": lambda net: setattr(net.shift, "data", torch.ones(1)),
    "all of __dict__": lambda net: setattr(net.layers[1], "__dict__", dict(vars(torch.nn.Linear(4, 4)))),
    "parameters": lambda net: net.layers[0]._parameters.update(bias=None),
    "no bias": lambda net: setattr(net.layers[0], "bias", None),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_in_a_module_is_noticed(change):
    """The entry rejects the call, its reason names a guard, and the result is eager mode's."""
    torch.manual_seed(0)
    net = Net()
    call, graphs = compiled(net)
    for _ in range(3):
        torch.testing.assert_close(call(x), net(x))
    assert len(graphs) == 1
    CHANGES[change](net)
    given = x.double() if net.layers[0].weight.dtype is torch.float64 else x
    frame_recorder = nbcompile.api.new_recorder("net")
    with frame_recorder.listening():
        torch.testing.assert_close(call(given), net(given))
    if change not in ("a parameter", "all of __dict__"):  # of the same kind: inputs of the same graph
        assert len(graphs) == 2
        failed = [each for frame in frame_recorder.record().frames for each in frame.failed_guards]
        assert failed and all(each.guard and each.reason for each in failed)


def test_other_numbers_in_the_same_tensors():
    """An optimizer's steps change no guarded value."""
    net = Net()
    call, graphs = compiled(net)
    optimiser = torch.optim.SGD(net.parameters(), 0.1)
    for _ in range(3):
        optimiser.zero_grad()
        call(x).sum().backward()
        optimiser.step()
        torch.testing.assert_close(call(x), net(x))
    assert len(graphs) == 1


def test_a_function_mode_does_not_see_how_guards_are_divided():
    """A function mode counts the same calls as in eager mode: guards on tensors do not call it."""

    class Counts(torch.overrides.TorchFunctionMode):
        def __init__(self):
            self.calls = 0

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.calls += 1
            return func(*args, **(kwargs or {}))

    net, counted = Net(), []
    for function in (net, compiled(net)[0]):
        with Counts() as mode:
            function(x)
        counted.append(mode.calls)
    assert counted[0] == counted[1] > 0
