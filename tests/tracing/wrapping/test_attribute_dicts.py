"""A dict from outside that is an object's ``__dict__`` has that object's attributes, in every call."""

from __future__ import annotations

import collections
import functools
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch

import nbcompile


class Plain:
    """A class whose instances have a dict."""


class Slotted:
    """A class whose instances have a slot and a dict."""

    __slots__ = ("__dict__", "slot")


class Asking:
    """A class with ``__getattribute__`` in Python."""

    def __getattribute__(self, name: str) -> Any:
        return object.__getattribute__(self, name)


class Words(list):  # type: ignore[type-arg]
    """A list with attributes."""


MAKERS: dict[str, Callable[[], Any]] = {
    "object": Plain,
    "slots": Slotted,
    "getattribute": Asking,
    "namespace": types.SimpleNamespace,
    "function": lambda: types.FunctionType((lambda: None).__code__, {}),
    "partial": lambda: functools.partial(print),
    "tensor": lambda: torch.ones(2),
    "parameter": lambda: torch.nn.Parameter(torch.ones(2)),
    "nn.Module": lambda: torch.nn.Linear(2, 2),
    "module": lambda: types.ModuleType("of_its_own"),
    "exception": lambda: ValueError("x"),
    "list": Words,
    "local": threading.local,
}


def store_then_read(o: Any, d: Any, x: Any) -> Any:
    """A program that stores an attribute and reads the dict."""
    o.a = 5
    return x + d["a"]


def read_then_store(o: Any, d: Any, x: Any) -> Any:
    """A program that stores an item and reads the attribute."""
    d["a"] = 5
    return x + o.a


def both(o: Any, d: Any, x: Any) -> Any:
    """A program that stores under both names alternately."""
    before = d["a"] + o.a
    d["a"] = before
    d["a"] += o.a
    return x * d["a"]


def whether(o: Any, d: Any, x: Any) -> Any:
    """A program that stores an attribute and checks the dict for it."""
    o.b = 5
    return x + ("b" in d), len(d)


def absent(o: Any, d: Any, x: Any) -> Any:
    """A program that removes an item and checks the attribute."""
    d.pop("a")
    return x + hasattr(o, "a")


def removed(o: Any, d: Any, x: Any) -> Any:
    """A program that deletes an attribute and reads the dict."""
    del o.a
    return x, list(d)


def through_vars(o: Any, d: Any, x: Any) -> Any:
    """A program that has the dict under three names."""
    vars(o)["a"] = 7
    return x + d["a"], vars(o) is d


PROGRAMS = (store_then_read, read_then_store, both, whether, absent, removed, through_vars)


def played(function: Callable[..., Any], make: Callable[[], Any], calls: tuple[bool, ...]) -> list[object]:
    """The results of calls and the values afterwards; the dict is the object's own, or a copy."""
    found: list[object] = []
    for index, own in enumerate(calls):
        o = make()
        o.a = 1
        d = o.__dict__ if own else dict(o.__dict__)
        result = function(o, d, torch.ones(2) + index)
        left = [{k: v for k, v in each.items() if k in ("a", "b")} for each in (o.__dict__, d)]
        found.append((str(result), left))
    return found


@pytest.mark.parametrize("calls", [(True, True, False), (False, False, True, False)])
@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_changes_show_under_both_names(program: Callable[..., Any], kind: str, calls: tuple[bool, ...]) -> None:
    """A stored attribute is visible in a dict exactly if it is the object's ``__dict__``, in each call."""
    nbcompile.reset()  # all kinds share the programs
    compiled = nbcompile.compile(program, backend="eager")
    assert played(compiled, MAKERS[kind], calls) == played(program, MAKERS[kind], calls)


@pytest.mark.parametrize("calls", [(True, False), (False, True, False)])
def test_two_objects_with_one_dict(calls: tuple[bool, ...]) -> None:
    """A stored attribute is visible in another object exactly if it has the same dict."""

    def program(left: Any, right: Any, x: Any) -> Any:
        left.a = 5
        right.b = left.a + right.a
        return x + right.a, left.b if hasattr(left, "b") else x

    def run(function: Callable[..., Any]) -> list[str]:
        found = []
        for shared in calls:
            left, right = Plain(), Plain()
            left.a = right.a = 1  # type: ignore[attr-defined]
            if shared:
                right.__dict__ = left.__dict__
            found.append(str((function(left, right, torch.ones(2)), sorted(vars(left)), sorted(vars(right)))))
        return found

    assert run(nbcompile.compile(program, backend="eager")) == run(program)


@pytest.mark.parametrize("store", ["_parameters", "_buffers", "_modules"])
@pytest.mark.parametrize("calls", [(True, False), (False, True, False)])
def test_dict_of_a_modules_members(store: str, calls: tuple[bool, ...]) -> None:
    """An item that is stored in a module's dict of parameters, buffers or submodules is read as an attribute."""
    new: Any = torch.nn.ReLU() if store == "_modules" else torch.nn.Parameter(torch.full((2,), 3.0))
    old: Any = torch.nn.Tanh() if store == "_modules" else torch.nn.Parameter(torch.ones(2))

    def program(module: Any, members: Any, x: Any) -> Any:
        members["k"] = new
        found = module.k
        return found(x) if isinstance(found, torch.nn.Module) else x + found

    def run(function: Callable[..., Any]) -> list[str]:
        found = []
        for own in calls:
            module = torch.nn.Linear(2, 2)
            members = getattr(module, store)
            members["k"] = old
            found.append(str(function(module, members if own else dict(members), torch.ones(2))))
        return found

    assert run(nbcompile.compile(program, backend="eager")) == run(program)


def test_iterator_that_was_begun_before_the_object_was_met() -> None:
    """Iterators and views of a dict see attributes that are stored on its object later."""

    def program(o: Any, d: Any, x: Any) -> Any:
        items, values = iter(d.items()), d.values()
        name, _ = next(items)
        o.a = 5
        return x + sum(values), name, list(items)

    def run(function: Callable[..., Any]) -> str:
        o = types.SimpleNamespace(a=1, b=2)
        return str(function(o, vars(o), torch.ones(2)))

    assert run(nbcompile.compile(program, backend="eager")) == run(program)


def test_dict_of_arguments_costs_no_guard() -> None:
    """The dict of ``**named`` is new in each call, so it needs no guard that no object owns it."""

    def program(o: Any, x: Any, **named: Any) -> Any:
        named["k"] = 2
        return x + o.a + named["k"]

    explained = nbcompile.explain(program, fullgraph=True)(types.SimpleNamespace(a=1), torch.ones(2), k=1)
    assert explained.result.tolist() == [4.0, 4.0]
    kinds = {guard.kind for guard in explained.record.frames[0].guards}
    assert "TENSOR_MATCH" in kinds
    assert "NO_OBJECT_ALIASING" not in kinds


class Counted(dict):  # type: ignore[type-arg]
    """A subclass of dict."""


@pytest.mark.parametrize("cls", [Counted, collections.defaultdict])
def test_dict_of_another_class(cls: type) -> None:
    """An object whose ``__dict__`` has another class shows changes under both names, too."""

    def stores(o: Any, d: Any, x: Any) -> Any:
        o.a = 5
        return x + d["a"], d.get("other"), d["other"] if type(d) is collections.defaultdict else None

    def reads(o: Any, d: Any, x: Any) -> Any:
        d["a"] = 5
        return x + o.a, type(vars(o)).__name__

    def run(function: Callable[..., Any]) -> str:
        o = Plain()
        o.__dict__ = cls(int) if cls is collections.defaultdict else cls()
        o.a = 1  # type: ignore[attr-defined]
        return str((function(o, vars(o), torch.ones(2)), vars(o)))

    for program in (stores, reads):
        assert run(nbcompile.compile(program, backend="eager")) == run(program)


@pytest.mark.parametrize("kind", ["object", "function", "nn.Module", "new"])
def test_another_dict_for_an_object(kind: str) -> None:
    """An object with a new ``__dict__`` has the attributes of that dict, and its later changes."""

    def replaces(o: Any, x: Any) -> Any:
        o = Plain() if o is None else o
        members = {**vars(o), "a": 3}
        o.__dict__ = members
        members["a"] += 1
        return x + o.a, vars(o) is members

    def deletes(o: Any, x: Any) -> Any:
        del o.__dict__
        return x + hasattr(o, "a")

    def run(function: Callable[..., Any]) -> str:
        o = None if kind == "new" else MAKERS[kind]()
        if o is not None:
            o.a = 1
        return str(function(o, torch.ones(2)))

    for program in (replaces, deletes) if kind == "object" else (replaces,):
        assert run(nbcompile.compile(program, backend="eager")) == run(program)


@pytest.mark.parametrize("calls", [(True, False, True), (False, True, False)])
def test_globals_of_a_module(calls: tuple[bool, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """A dict that is a module's globals shows attributes stored on the module; a copy does not, in each call."""
    module: Any = types.ModuleType("module_with_a")
    monkeypatch.setitem(sys.modules, "module_with_a", module)

    def stores(d: Any, x: Any) -> Any:
        module.a = 5
        return x + d["a"]

    def reads(d: Any, x: Any) -> Any:
        d["a"] = 5
        return x + module.a

    def run(function: Callable[..., Any]) -> list[str]:
        found = []
        for own in calls:
            module.a = 1
            found.append(str(function(vars(module) if own else dict(vars(module)), torch.ones(2))))
        return found

    for program in (stores, reads):
        assert run(nbcompile.compile(program, backend="eager")) == run(program)


class Answering(dict):  # type: ignore[type-arg]
    """A dict with methods of the program."""

    def __getitem__(self, key: str) -> Any:
        return 7

    def __len__(self) -> int:
        return 5

    def __iter__(self) -> Any:
        return iter("zz")

    def items(self) -> Any:
        return [1, 2]


def _stored_and_listed(o: Any) -> Any:
    o.b = 4
    return list(o.__dict__.items())


QUESTIONS: dict[str, Callable[[Any], Any]] = {
    "an item": lambda o: o.__dict__["a"],
    "its length": lambda o: len(vars(o)),
    "its keys": lambda o: list(vars(o)),
    "a store, and items": _stored_and_listed,
    "its class": lambda o: type(o.__dict__).__name__,
    "the class of vars": lambda o: isinstance(vars(o), Answering),
    "an attribute": lambda o: o.a,
    "membership": lambda o: "a" in o.__dict__,
}


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("make", [Plain, Asking, lambda: types.FunctionType(_stored_and_listed.__code__, {})])
@pytest.mark.parametrize("first", [dict, Answering])
def test_the_dict_of_an_object_becomes_one_with_methods_of_its_own(name, make, first):
    """In a later call `__dict__` is a subclass of dict, or a dict again: the result is eager mode's."""
    question = QUESTIONS[name]
    function = nbcompile.compile(lambda o, x: (question(o), x + 1), backend="eager")
    for kind in (first, dict, Answering, dict):
        compiled, eager = make(), make()
        for o in (compiled, eager):
            o.__dict__ = kind(a=3)
        assert function(compiled, torch.ones(2))[0] == question(eager)
        assert dict.items(compiled.__dict__) == dict.items(eager.__dict__)
