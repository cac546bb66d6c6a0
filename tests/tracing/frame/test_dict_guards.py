"""Guards that dicts and ``__dict__`` of objects are different objects, and the programs that need them."""

from __future__ import annotations

import builtins
import types
from collections.abc import Callable
from typing import Any

import torch

import nbcompile
from nbcompile.capture.frame import Frame
from nbcompile.capture.guard import GuardKind
from nbcompile.capture.source import AttrSource, LocalSource, Source
from nbcompile.options import Options
from nbcompile.tracing.inputs.dynamism import Dynamism
from nbcompile.tracing.tracer import trace

ATTRIBUTES, MAPPING = AttrSource(LocalSource("o"), "__dict__"), LocalSource("d")


def kept_apart(function: Callable[..., Any], o: object = None) -> list[set[Source]]:
    """The sources in each guard on the identity of several values."""
    given = {"o": types.SimpleNamespace(a=1) if o is None else o, "d": {"a": 1}, "e": {"a": 1}, "x": torch.ones(2)}
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    frame = Frame(function.__code__, {name: given[name] for name in names}, globals(), vars(builtins))
    guards = trace(frame, Options(), Dynamism(False)).guards()
    return [set(guard.expected) for guard in guards if guard.kind is GuardKind.NO_OBJECT_ALIASING]


def test_change_of_an_object_beside_a_dict() -> None:
    """A program that mutates an object and reads a dict has a guard that the dict is not the object's ``__dict__``."""

    def program(o: Any, d: Any, x: Any) -> Any:
        o.a = 5
        return x + d["a"]

    assert {ATTRIBUTES, MAPPING} in kept_apart(program)


def test_dicts_that_are_only_read_may_be_one() -> None:
    """The dict of a mutated object must differ from all others; two dicts that are only read may be identical."""

    def program(o: Any, d: Any, e: Any, x: Any) -> Any:
        o.n = 1
        return x + d["a"] + e["a"]

    pairs = [{ATTRIBUTES, MAPPING}, {ATTRIBUTES, LocalSource("e")}]
    assert [pair for pair in kept_apart(program) if ATTRIBUTES in pair] == pairs
    graphs = []
    compiled = nbcompile.compile(program, backend=lambda module, _: graphs.append(module) or module.forward)
    shared, x = {"a": 1.0}, torch.ones(2)
    calls = [(shared, {"a": 1.0}), (shared, shared), ({"a": 1.0}, {"a": 1.0})]
    assert [compiled(types.SimpleNamespace(), *dicts, x).tolist() for dicts in calls] == [[3.0, 3.0]] * 3
    assert len(graphs) == 1
    o = types.SimpleNamespace(a=3.0, n=0)
    assert compiled(o, vars(o), shared, x).tolist() == program(o, vars(o), shared, x).tolist() == [5.0, 5.0]


def test_many_dicts_have_one_guard() -> None:
    """A mutation and many dicts have a single guard, whose cost grows with the number of dicts."""

    def program(o: Any, x: Any) -> Any:
        o.n = 1
        for d in o.dicts:
            x = x + d["a"]
        return x

    o = types.SimpleNamespace(dicts=[{"a": 1} for _ in range(20)], n=0)
    assert [len(apart) for apart in kept_apart(program, o) if AttrSource(LocalSource("o"), "__dict__") in apart] == [21]


def test_change_of_a_dict_beside_an_object() -> None:
    """A program that mutates a dict has a guard that the dict is not the ``__dict__`` of an object that it reads."""

    def program(o: Any, d: Any, x: Any) -> Any:
        d["a"] = 5
        return x + o.a

    assert {ATTRIBUTES, MAPPING} in kept_apart(program)


def test_nothing_that_is_read_changes() -> None:
    """A program that only reads, or that reads no attribute of the object, needs no such guard."""

    def reads(o: Any, d: Any, x: Any) -> Any:
        return x + o.a + d["a"]

    def alone(o: Any, d: Any, x: Any) -> Any:
        d["a"] = 5
        return x + (o is None)

    assert kept_apart(reads) == []
    assert kept_apart(alone) == []


def test_module_has_keys_that_the_dict_lacks() -> None:
    """A dict whose keys are known needs no such guard, because the ``__dict__`` of a module has other keys."""

    def program(o: Any, d: Any, x: Any) -> Any:
        d["a"] = 5
        return o(x)

    assert kept_apart(program, torch.nn.Linear(2, 2)) == []
