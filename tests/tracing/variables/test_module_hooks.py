"""A backward hook of a module runs as in eager mode, with the same gradients.

    net.inner.linear.register_full_backward_hook(h)    the call of that module ends the graph

In torch: nothing (there the hook of a submodule is lost). Read next: tests/tracing/test_guard_completeness.py
"""

import pytest
import torch
from torch import nn

import nbcompile

OF_EVERY = torch.nn.modules.module


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return torch.relu(self.linear(x)).sin()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3)
        self.inner = Inner()

    def forward(self, x):
        return self.inner(self.first(x) * 2) + 1


REGISTER = {
    "full": lambda net, hook: net.inner.register_full_backward_hook(hook),
    "full of a torch module": lambda net, hook: net.inner.linear.register_full_backward_hook(hook),
    "pre": lambda net, hook: net.inner.linear.register_full_backward_pre_hook(hook),
    "legacy": lambda net, hook: net.inner.linear.register_backward_hook(hook),
    "of the whole": lambda net, hook: net.register_full_backward_hook(hook),
    "of every module": lambda net, hook: OF_EVERY.register_module_full_backward_hook(hook),
    "before every module": lambda net, hook: OF_EVERY.register_module_full_backward_pre_hook(hook),
}
CALLS = {
    "the module": lambda net, compiler: compiler(net),
    "a function": lambda net, compiler: compiler(lambda x: net(x)),
    "its __call__": lambda net, compiler: compiler(lambda x: nn.Module.__call__(net, x)),
}


def record(compiler, register, make):
    """The results of calls before a hook is registered, with the hook, and after its removal."""
    nbcompile.reset()
    torch.manual_seed(0)
    net, seen = Net(), []
    call = make(net, compiler)

    def hook(module, *gradients):
        seen.append((type(module).__name__, *gradients))
        return tuple(None if each is None else each * 2 for each in gradients[0])

    def step():
        net.zero_grad()
        x = torch.ones(2, 3, requires_grad=True)
        out = call(x)
        out.sum().backward()
        seen.append((out.detach(), x.grad, net.first.weight.grad.clone()))

    step()
    handle = register(net, hook)
    try:
        step()
        step()
    finally:
        handle.remove()
    step()
    return seen


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("kind", REGISTER)
def test_a_backward_hook_runs(kind, call):
    """The hook receives eager mode's gradients, and its result is used; a removed hook does not run."""
    expected = record(lambda function: function, REGISTER[kind], CALLS[call])
    found = record(nbcompile.compile, REGISTER[kind], CALLS[call])
    names = [[each for each in _flat(events) if not _is_tensor(each)] for events in (found, expected)]
    assert names[0] == names[1]
    torch.testing.assert_close(list(filter(_is_tensor, _flat(found))), list(filter(_is_tensor, _flat(expected))))


def _is_tensor(value):
    return isinstance(value, torch.Tensor)


def _flat(value):
    return [part for each in value for part in _flat(each)] if isinstance(value, (list, tuple)) else [value]


def test_the_break_has_a_name():
    """The error names modules with backward hooks."""
    net = Net()
    net.inner.linear.register_full_backward_hook(lambda module, before, after: None)
    with pytest.raises(RuntimeError, match="module with backward hooks"):
        nbcompile.compile(lambda x: net(x), fullgraph=True)(torch.ones(2, 3, requires_grad=True))
