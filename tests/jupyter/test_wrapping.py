"""The values of a cell that are compiled."""

from __future__ import annotations

import ast
import contextlib
import copy
import functools
import pickle

import pytest
import torch

from nbcompile.jupyter.wrapping import WRAP, decorate_definitions, wrapper


@pytest.fixture
def execute():
    """Run a cell's text with a compiler that records the called functions."""

    def execute(text: str) -> tuple[dict, list[str]]:
        called = []

        def compile(function):
            @functools.wraps(function)
            def compiled(*args, **keywords):
                called.append(function.__qualname__)
                return function(*args, **keywords)

            compiled._torchdynamo_orig_callable = function
            return compiled

        names = {WRAP: wrapper(compile, []), "torch": torch, "contextlib": contextlib, "functools": functools}
        exec(compile_(decorate_definitions(ast.parse(text))), names)
        return names, called

    return execute


def compile_(tree):
    return compile(tree, "cell", "exec")


def test_functions_of_the_cells_own_level(execute):
    """Functions at the cell's own level are compiled, and nested functions are not."""
    _, called = execute("""
if True:
    def f(): return inner()()
else:
    def never(): pass
for i in range(1):
    def g(): return 1
with contextlib.nullcontext():
    h = lambda: 3
try:
    def t(): return 4
finally:
    pass
def inner():
    def innermost(): return 5
    return innermost
f(); g(); h(); t()
""")
    assert called == ["f", "inner", "g", "<lambda>", "t"]


def test_what_has_no_frame_to_compile(execute):
    """Generators, coroutines, context managers, classes and other values are unchanged."""
    names, called = execute("""
def generator(): yield 1
async def coroutine(): pass
@contextlib.contextmanager
def manager(): yield 2
class Plain:
    def method(self): return 3
value = int("4")
cached = functools.lru_cache(len)
list(generator()); Plain().method(); cached("")
with manager(): pass
""")
    assert called == []
    assert names["value"] == 4


def test_decorated_functions(execute):
    """The outermost decorated function is compiled, and its decorators are traced."""
    names, called = execute("""
@torch.no_grad()
def f(x): return x * 2
y = f(torch.ones(2, requires_grad=True))
""")
    assert called == ["f"]
    assert not names["y"].requires_grad


def test_what_is_compiled_or_disabled_already(execute):
    """A function that is compiled, or disabled, is unchanged."""
    _, called = execute("""
def mark(name):
    def decorate(function):
        setattr(function, name, True)
        return function
    return decorate
@mark("_torchdynamo_orig_callable")
def compiled(): pass
@mark("_torchdynamo_disable")
def disabled(): pass
compiled(); disabled()
""")
    assert called == ["mark", "mark"]


def test_module_classes(execute):
    """A call of an instance runs the compiled forward, with hooks outside of it; its type is unchanged."""
    names, called = execute("""
class Net(torch.nn.Module):
    def forward(self, x): return self.helper(x) + 1
    def helper(self, x): return x * 2
class Deeper(Net):
    pass
net = Net()
seen = []
net.register_forward_hook(lambda *_: seen.append(1))
y = net(torch.ones(1))
z = Deeper()(torch.ones(1))
""")
    assert (names["y"], names["z"], names["seen"]) == (3, 3, [1])
    assert called == ["Net.forward", "Net.forward"]
    assert type(names["net"]) is names["Net"]


def test_an_abstract_module_class(execute):
    """A module class without forward is unchanged."""
    names, called = execute("class Base(torch.nn.Module): pass")
    assert names["Base"].forward is torch.nn.Module.forward
    assert called == []


def test_instances(execute):
    """A module that the cell binds to a name is compiled in place: the same object, type and state."""
    names, called = execute("""
net: torch.nn.Module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()).eval()
y = net(torch.ones(1, 2))
""")
    assert called == ["Sequential"]
    assert type(names["net"]) is torch.nn.Sequential
    assert list(names["net"].state_dict()) == ["0.weight", "0.bias"]


def test_modules_that_are_compiled_already(execute):
    """A module that nbcompile.compile or torch.jit returned is unchanged."""
    names, _ = execute("""
import nbcompile
ours = nbcompile.compile(torch.nn.ReLU(), backend="eager")
scripted = torch.jit.script(torch.nn.ReLU())
""")
    assert names["ours"]._orig_mod._compiled_call_impl is None
    assert names["scripted"]._compiled_call_impl is None
    assert names["ours"](-torch.ones(1)) == names["scripted"](-torch.ones(1)) == 0


def test_copies_of_instances(execute):
    """A copy or a pickle of a compiled module is a separate module with its own weights."""
    names, _ = execute("net = torch.nn.Linear(2, 2)")
    net = names["net"]
    for other in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        with torch.no_grad():
            other.weight.zero_()
            other.bias.zero_()
        assert other(torch.ones(1, 2)).abs().sum() == 0
        assert net(torch.ones(1, 2)).abs().sum() > 0
