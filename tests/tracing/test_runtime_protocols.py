"""Protocols that ``isinstance`` accepts: a new or deleted member changes the answer of the next call.

    isinstance(o, P)    no; type(o).go = go; the next call: yes

Neither a registry nor the token of ``abc`` changes. The programs are: members of the class, of a base, of the
instance and in slots, ``None`` instead of a method, data, properties, ``__getattr__``, modules, tensors,
functions, tuples of classes, ``issubclass``, patterns of ``match``, objects that the frame creates, resume functions.
"""

from __future__ import annotations

import sys
from typing import Protocol, runtime_checkable

import pytest
import torch

import nbcompile
from tests.support.processes import python

AS_ATTRIBUTE = sys.version_info < (3, 12)
"""Up to Python 3.11 a protocol calls ``hasattr``, later ones ``inspect.getattr_static``."""


def world():
    """Programs with their arguments and changes; all classes are new, because ABCMeta caches answers."""

    @runtime_checkable
    class Goes(Protocol):
        def go(self): ...

    @runtime_checkable
    class Named(Protocol):
        name: str

    @runtime_checkable
    class NamedGoes(Named, Goes, Protocol): ...

    class Base:
        pass

    class Plain(Base):
        pass

    class Slotted:
        __slots__ = ("name",)

    class Number(int):
        pass

    class Answering:
        def __getattr__(self, name):
            if name == "go":
                return 1
            raise AttributeError(name)

    def go(self):
        return 1

    def rejects(self):
        raise AttributeError("name")

    def instance(x, value, protocol):
        return x + 1 if isinstance(value, protocol) else x - 1

    def subclass(x, cls, protocol):
        try:
            return x + 1 if issubclass(cls, protocol) else x - 1
        except TypeError as error:
            return x + len(str(error))

    def matched(x, value, protocol):
        match value:
            case protocol():
                return x + 1
        return x - 1

    def created(x, protocol):
        return x + 1 if isinstance(Plain(), protocol) else x - 1

    def one_of(x, value, protocol):
        return x + isinstance(value, (str, protocol))

    def resumed(x, value, protocol):
        y = x * 2
        print(end="")
        return y + isinstance(value, protocol)

    def by_the_frame(x, value, protocol):
        answers = [isinstance(value, protocol)]
        value.go = 1
        answers.append(isinstance(value, protocol))
        del value.go
        return x + torch.tensor([*answers, isinstance(value, protocol)]).sum()

    plain, slotted, number, module, tensor = Plain(), Slotted(), Number(3), torch.nn.Linear(1, 1), torch.ones(1)
    sets = lambda owner, name, value: lambda: setattr(owner, name, value)
    deletes = lambda owner, name: lambda: delattr(owner, name)
    comes_and_goes = sets(Plain, "go", go), deletes(Plain, "go"), sets(Plain, "go", None)
    of_instance = sets(plain, "go", 1), sets(plain, "go", None), deletes(plain, "go")
    register = lambda: Goes.register(type("Other", (), {}))
    return {
        "class": (instance, (plain, Goes), comes_and_goes),
        "base": (instance, (plain, Goes), (sets(Base, "go", go), deletes(Base, "go"))),
        "instance": (instance, (plain, Goes), of_instance),
        "data": (instance, (plain, Named), (sets(plain, "name", "a"), sets(plain, "name", None), deletes(plain, "name"))),
        "class variable": (instance, (plain, Named), (sets(Plain, "name", None), deletes(Plain, "name"))),
        "property": (instance, (plain, Named), (
            sets(Plain, "name", property(go)), sets(Plain, "name", property(rejects)), deletes(Plain, "name"))),
        "slot": (instance, (slotted, Named), (sets(slotted, "name", "a"), deletes(slotted, "name"))),
        "both": (instance, (plain, NamedGoes), (sets(plain, "name", ""), *comes_and_goes, *of_instance)),
        "number": (instance, (number, Goes), (sets(Number, "go", go), deletes(Number, "go"), sets(number, "go", 1))),
        "getattr": (instance, (Answering(), Goes), (deletes(Answering, "__getattr__"),)),
        "module": (instance, (module, Named), (
            sets(module, "name", 1), deletes(module, "name"), lambda: module.register_buffer("name", torch.ones(1)))),
        "tensor": (instance, (tensor, Named), (sets(tensor, "go", 1), deletes(tensor, "go"))),
        "function": (instance, (go, Goes), (sets(go, "go", 1), deletes(go, "go"))),
        "class as value": (instance, (Plain, Goes), comes_and_goes),
        "tuple": (one_of, (plain, Goes), comes_and_goes),
        "union": (instance, (plain, str | Goes), comes_and_goes),
        "subclass": (subclass, (Plain, Goes), (*comes_and_goes, register, sets(Plain, "go", go), register)),
        "subclass of data": (subclass, (Plain, Named), (sets(Plain, "name", 1),)),
        "match": (matched, (plain, Goes), (*comes_and_goes, *of_instance)),
        "created": (created, (Goes,), comes_and_goes),
        "resumed": (resumed, (plain, Goes), comes_and_goes),
        "by the frame": (by_the_frame, (plain, Goes), comes_and_goes),
        "registered": (instance, (plain, Goes), (lambda: Goes.register(Plain), *comes_and_goes)),
    }  # fmt: skip


def results(function, arguments, changes):
    found = []
    for change in (lambda: None, *changes):
        change()
        found += [function(torch.ones(1), *arguments).tolist() for _ in range(3)]
    return found


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("name", world())
def test_members_that_change_between_two_calls(name):
    """Each call gives eager mode's answer."""
    program, arguments, changes = world()[name]
    expected = results(program, arguments, changes)
    program, arguments, changes = world()[name]
    assert results(nbcompile.compile(program, backend="eager"), arguments, changes) == expected


@pytest.mark.usefixtures("nothing_compiled")
def test_what_other_members_change():
    """A change of other members causes no recompile."""
    graphs = []

    def counting(graph, _inputs):
        graphs.append(graph)
        return graph.forward

    program, arguments, _ = world()["class"]
    compiled = nbcompile.compile(program, backend=counting)
    for number in range(5):
        compiled(torch.ones(1), *arguments)
        setattr(type(arguments[0]), f"other_{number}", 1)
        setattr(arguments[0], f"other_{number}", 1)
    assert len(graphs) == 1


@pytest.mark.usefixtures("nothing_compiled")
def test_a_property_runs_as_often_as_in_eager_mode():
    """Up to Python 3.11 the protocol reads a property once in each call; later ones do not run it."""
    asked = []

    @runtime_checkable
    class Named(Protocol):
        name: str

    class Plain:
        @property
        def name(self):
            asked.append(1)
            return "a"

    program, value = lambda x, v: x + isinstance(v, Named), Plain()

    def called(function):
        asked.clear()
        return [function(torch.ones(1), value).item() for _ in range(3)], len(asked)

    assert called(nbcompile.compile(program, backend="eager")) == called(program) == ([2.0] * 3, 3 * AS_ATTRIBUTE)


IN_ANOTHER_PROCESS = """
import torch, nbcompile
from typing import Protocol, runtime_checkable
@runtime_checkable
class P(Protocol):
    def go(self): ...
@runtime_checkable
class N(Protocol):
    name: str
class Plain: pass
@nbcompile.compile(backend="eager")
def f(x, value): return x + isinstance(value, P) + 2 * isinstance(value, N)
value = Plain()
def calls(): print([f(torch.ones(1), value).item() for _ in range(3)])
calls(); Plain.go = lambda self: 1; calls(); value.name = 1; calls(); del Plain.go; calls()
"""


def test_a_store_asks_again(tmp_path):
    """Code that another process loads is rejected after a member was added or deleted."""
    where = {"NBCOMPILE_CACHE_DIR": tmp_path, "NBCOMPILE_WARM_START": "1"}
    for _ in range(2):
        found = python(IN_ANOTHER_PROCESS, **where).split("\n")[:4]
        assert found == ["[1.0, 1.0, 1.0]", "[2.0, 2.0, 2.0]", "[4.0, 4.0, 4.0]", "[3.0, 3.0, 3.0]"]
