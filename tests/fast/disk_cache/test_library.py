"""Replaced torch functions: a process with one neither loads from the store nor writes to it."""

from __future__ import annotations

import functools
import json
import types

import pytest
import torch

from nbcompile.capture.literals import NotStorable
from nbcompile.fast.disk_cache import library
from tests.support.processes import python

PROGRAM = """
import functools, json, math, pydoc, sys, types, warnings
from unittest import mock
import torch, nbcompile
import torch.nn.functional as F
from nbcompile.driver import stages
from nbcompile.dispatch.hook import SkipFrame
from nbcompile.fast.disk_cache import entry, writer
warnings.simplefilter("ignore")
x = torch.arange(16.0).view(4, 4) / 8 - 1
line, gelu = torch.nn.Linear(4, 4).requires_grad_(False), torch.nn.GELU()
line.weight.copy_(x), line.bias.zero_()
PROGRAMS = {
    "torch.sin": lambda x: torch.sin(x) + 1,
    "F.relu": lambda x: F.relu(x) + 1,
    "nn.GELU": lambda x: gelu(x) + 1,
    "nn.Linear": lambda x: line(x) + 1,
    "math.sqrt": lambda x: x * math.sqrt(2.25),
    "torch.norm": lambda x: x.norm() + torch.norm(x),
    "F.mse_loss": lambda x: F.mse_loss(x, x + 1) + x,
}

def doubled(function):
    def doubled(*arguments, **keywords):
        result = function(*arguments, **keywords)
        return result * 2 if isinstance(result, (torch.Tensor, float)) else 0
    return doubled

def namesake(function):
    code, other = getattr(function, "__code__", None), doubled(function)
    if code is None:
        return getattr(torch._refs, function.__name__, other)  # of the same name, and torch's
    told = {"co_" + name: getattr(code, "co_" + name) for name in ("name", "qualname", "filename", "firstlineno")}
    made = types.FunctionType(other.__code__.replace(**told), function.__globals__, code.co_name, None, other.__closure__)
    return functools.update_wrapper(made, function)

WAYS = {
    "by a function": doubled,
    "by a wrapper": lambda function: functools.wraps(function)(doubled(function)),
    "by another of torch's": lambda function: torch.cos,
    "by its namesake": namesake,
    "by a mock": lambda function: mock.MagicMock(side_effect=doubled(function)),
    "by a partial": lambda function: functools.partial(doubled(function)),
    "deleted": None,
}

def outcome(function):
    try:
        return (function(x) * 100 + 0.01).round().tolist()
    except Exception as error:
        return type(error).__name__

def look(path, way, title):
    place, _, name = path.rpartition(".")
    owner, loads = pydoc.locate(place), []
    program = types.FunctionType(PROGRAMS[title].__code__.replace(), globals())  # code that nothing was compiled for
    held, original = vars(owner).get(name), getattr(owner, name)
    compiled = nbcompile.compile(program)
    if way == "deleted":
        delattr(owner, name)
    elif way:
        setattr(owner, name, WAYS[way](original))
    load = entry.load
    entry.load = lambda *given, **named: loads.append(load(*given, **named)) or loads[-1]
    wanted, found = outcome(program), [outcome(compiled), outcome(compiled)]
    entry.load = load
    if held is not None:
        setattr(owner, name, held)
    elif name in vars(owner):
        delattr(owner, name)
    return [wanted, *found, any(loads), outcome(program), outcome(compiled)]

asked = json.loads(sys.argv[1])
if asked == "keep":
    for program in PROGRAMS.values():
        nbcompile.compile(program)(x)
    print(writer.flush())
else:
    stages.compile_frame = lambda *given: SkipFrame("only the store is looked at")
    print(json.dumps([look(*pair) for pair in asked]))
"""
MEMBERS = {
    "torch.sin": "torch.sin", "torch.relu": "F.relu", "torch.nn.functional.relu": "F.relu",
    "torch.nn.functional.has_torch_function_unary": "F.relu", "torch.nn.functional.gelu": "nn.GELU",
    "torch.nn.functional.linear": "nn.Linear", "torch.nn.Linear.forward": "nn.Linear", "math.sqrt": "math.sqrt",
    "torch.functional.norm": "torch.norm", "torch.norm": "torch.norm",
    "torch._C._nn.mse_loss": "F.mse_loss", "torch.broadcast_tensors": "F.mse_loss",
    "torch.nn.functional._Reduction.get_enum": "F.mse_loss",
    "torch.Tensor.norm": "torch.norm",
}  # fmt: skip
"""A program that calls each of them, directly or in a torch function."""
WAYS = (
    "by a function",
    "by a wrapper",
    "by another of torch's",
    "by its namesake",
    "by a mock",
    "by a partial",
    "deleted",
)


def run(store, asked):
    """The output of the program in another process, with a store."""
    where = {"NBCOMPILE_CACHE_DIR": store, "NBCOMPILE_FRAMES_DIR": store / "frames"}
    printed = python(PROGRAM, json.dumps(asked), **where)
    return json.loads(printed) if printed[0] in "[{" else printed


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """The outcomes for each replaced function, with a store that another process filled."""
    store = tmp_path_factory.mktemp("store")
    run(store, "keep")
    asked = [(member, way, title) for member, title in MEMBERS.items() for way in ("", *WAYS)]
    return {pair: row for (*pair, _), row in zip(asked, run(store, asked), strict=True) for pair in [tuple(pair)]}


@pytest.mark.parametrize("member", MEMBERS)
def test_with_nothing_replaced_a_program_is_loaded(rows, member):
    """The entries of the other process are loaded."""
    wanted, first, second, loaded, *_ = rows[member, ""]
    assert wanted == first == second
    assert loaded


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("member", MEMBERS)
def test_a_replaced_function_of_torch_is_seen_by_a_later_process(rows, member, way):
    """The new function is called, also by torch's own functions; after the restoration all results are as before."""
    wanted, first, second, loaded, before, afterwards = rows[member, way]
    assert wanted == first == second
    assert before == afterwards == rows[member, ""][0]
    assert not loaded


@pytest.fixture
def program(process):
    """A run of a program that calls ``torch.relu`` in a torch function."""
    return lambda: process("import torch\ndef f(x): return torch.nn.functional.relu(x) + 1\n")


@pytest.mark.compiles
def test_what_is_compiled_while_a_function_is_replaced_is_not_kept(program, monkeypatch):
    """The record has the reason; the next process compiles, and the one after that loads the entry."""
    x = torch.arange(-2.0, 2)
    relu = torch.relu
    with monkeypatch.context() as patching:
        patching.setattr(torch, "relu", lambda x: relu(x) * 2)
        run = program()
        assert torch.equal(run.call("f", x), run.module.f(x))
        assert "torch.relu is replaced" in run.reasons[0]
    for loaded in (False, True):
        run = program()
        assert torch.equal(run.call("f", x), run.module.f(x))
        assert run.loaded == [loaded]


@pytest.mark.compiles
def test_a_function_replaced_after_the_first_call_changes_the_key(program, monkeypatch):
    """The old entry is not used while the function is replaced."""
    x = torch.arange(-2.0, 2)
    program().call("f", x)
    run = program()
    run.call("f", x)
    monkeypatch.setattr(torch, "relu", torch.neg)
    later = program()
    assert torch.equal(later.call("f", x), later.module.f(x))
    assert run.loaded == [True]
    assert later.loaded == [False]
    monkeypatch.undo()
    assert program().call("f", x).tolist() == [1, 1, 1, 2]


RESUMED = """import sys; p = torch.nn.Parameter(torch.ones(3)); p.grad = torch.ones(3)
torch.compile(torch.optim.SGD([p]).step, backend="eager")()
assert any(name.startswith("__resume_at_") for name in vars(sys.modules["torch.optim.optimizer"]))"""
"""A program in which torch.compile breaks the graph in a torch function, and leaves a resume function in its module."""


def test_the_state_is_the_same_in_every_process():
    """torch.compile, nbcompile's imports and new names in torch do not change the state."""
    ways = (
        "print(library.state())",
        "torch.compile(lambda x: x.sin())(torch.ones(3).requires_grad_()); print(library.state())",
        f"{RESUMED}; print(library.state())",
        "torch.not_torchs = lambda x: x; print(library.state())",
        "from nbcompile.tools import replacement; replacement.install(); print(library.state())",
    )
    # Separate processes: other tests may have changed the state of this one.
    text = "from nbcompile.fast.disk_cache import library; import torch\n"
    states = {python(text + way) for way in ways}
    assert len(states) == 1


def decorated(function):
    """A function with the code of a decorator of Python's library."""

    @functools.wraps(function)
    def inner(*arguments):
        return function(*arguments)

    return types.MethodType(inner, torch.ones(1))


@pytest.mark.parametrize(
    "other", [lambda x: x, decorated(torch.cos), type("relu", (), {}), functools.partial(torch.cos)]
)
def test_functions_that_are_not_torchs_are_detected(other, monkeypatch):
    """Functions, methods, classes and callable objects are detected."""
    before = library.state()
    monkeypatch.setattr(torch, "relu", other)
    with pytest.raises(NotStorable, match=r"torch\.relu is replaced"):
        library.state()
    monkeypatch.undo()
    assert library.state() == before


def test_functions_of_a_factory_are_identified_by_their_closures(monkeypatch):
    """``max_pool1d`` and ``adaptive_max_pool1d`` share one code object."""
    F, before = torch.nn.functional, library.state()
    monkeypatch.setattr(F, "max_pool1d", F.adaptive_max_pool1d)
    assert library.state() != before
