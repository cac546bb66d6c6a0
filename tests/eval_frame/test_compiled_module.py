"""The result of ``compile(module)``."""

import copy
import pickle

import pytest
import torch

import nbcompile
from nbcompile.eval_frame.compiled_module import CompiledModule
from tests.support.graphs import Graphs


class Net(torch.nn.Module):
    """A module with an attribute, a buffer and a parameter."""

    def __init__(self):
        super().__init__()
        self.scale = 2
        self.weight = torch.nn.Parameter(torch.ones(3))
        self.register_buffer("shift", torch.zeros(3))

    def forward(self, x):
        """Scale and shift."""
        return x * self.weight * self.scale + self.shift


@pytest.fixture
def both():
    net = Net()
    return net, nbcompile.compile(net, backend="eager")


def test_parameters_and_attributes_are_the_modules(both):
    """Reads, stores and deletions apply to the module; the keys of ``state_dict`` have torch's prefix."""
    net, compiled = both
    assert compiled.weight is net.weight
    assert list(compiled.state_dict()) == ["_orig_mod.weight", "_orig_mod.shift"]
    compiled.scale = 5
    assert net.scale == 5
    assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 5.0))
    del compiled.scale
    assert not hasattr(net, "scale")
    assert {"weight", "shift", "_orig_mod"} <= {*dir(compiled)}


def test_the_mode_is_the_modules(both):
    """``train`` and ``eval`` of the wrapper change the module's mode, and return the wrapper."""
    net, compiled = both
    assert compiled.eval() is compiled
    assert not net.training and not compiled.training
    compiled.train()
    assert net.training


def test_another_original_module_is_called_from_then_on(both):
    """A new ``_orig_mod`` is the module whose attributes are read."""
    _, compiled = both
    other = Net()
    compiled._orig_mod = other
    assert compiled.weight is other.weight


def test_copies_compile_their_own_module(both):
    """A deep copy and a pickle have their own parameters, and give the original's results."""
    net, compiled = both
    for copied in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        assert type(copied) is CompiledModule
        assert copied.weight is not net.weight
        assert torch.equal(copied(torch.ones(3)), net(torch.ones(3)))


def test_hooks_of_the_wrapper_run_around_those_of_the_module(both):
    """A hook on the wrapper runs after the module's own hooks."""
    net, compiled = both
    order = []
    net.register_forward_hook(lambda *_: order.append("module"))
    compiled.register_forward_hook(lambda *_: order.append("wrapper"))
    compiled(torch.ones(3))
    assert order == ["module", "wrapper"]


def test_length_and_truth_are_the_modules(both):
    """A container has the module's length; a module without one is true, and ``len`` raises an error."""
    _, compiled = both
    assert compiled
    with pytest.raises(TypeError):
        len(compiled)
    assert len(nbcompile.compile(torch.nn.Sequential(torch.nn.ReLU()), backend="eager")) == 1
    assert not nbcompile.compile(torch.nn.ModuleList(), backend="eager")


def test_the_context_compiles_another_function_with_the_same_options():
    """``dynamo_ctx`` is a decorator with the options of the compiled module."""
    seen = Graphs()

    compiled = nbcompile.compile(Net(), backend=seen)
    assert torch.equal(compiled.dynamo_ctx(lambda x: x + 1)(torch.ones(2)), torch.full((2,), 2.0))
    assert len(seen) == 1


def test_a_forward_that_is_set_replaces_the_compiled_call(both):
    """A function that replaces ``forward`` is called instead of compiled code."""
    _, compiled = both
    compiled.forward = lambda x: x - 1
    assert torch.equal(compiled(torch.ones(3)), torch.zeros(3))
