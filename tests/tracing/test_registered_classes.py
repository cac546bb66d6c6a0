"""Classes that are registered with abstract classes between two calls change the answer.

    isinstance(x, A)    no; A.register(type(x)); the next call: yes

The programs are: ``issubclass``, tuples and unions of classes, objects that the frame creates,
tensors, numbers and lists, patterns of ``match``, ``functools.singledispatch``, subclasses of an abstract class that
has the registration, ``collections.abc`` and ``numbers``, resume functions, a registration by the frame itself.
"""

from __future__ import annotations

import abc
import collections.abc
import functools
import gc
import numbers
import weakref

import pytest
import torch

import nbcompile
from tests.support.processes import python


def world():
    """New classes, programs with their arguments, and registrations, which cannot be undone."""

    class Base(abc.ABC):  # noqa: B024
        pass

    class Below(Base):
        pass

    class Plain:
        pass

    class Indexed:
        def __len__(self):
            return 1

        def __getitem__(self, index):
            return [1][index]

    @functools.singledispatch
    def dispatched(value, x):
        return x + 1

    def instance(x, value):
        return x + 1 if isinstance(value, Base) else x - 1

    def created(x):
        return x + 1 if isinstance(Plain(), Base) else x - 1

    def of_tensor(x):
        return x + 1 if isinstance(x, Base) else x - 1

    def subclass(x, cls):
        return x + 1 if issubclass(cls, Base) else x - 1

    def mapping(x, value):
        match value:
            case {}:
                return x + 1
            case [_]:
                return x + 2
        return x - 1

    def resumed(x, value):
        y = x * 2
        print(end="")
        return y + isinstance(value, Base)

    def registers(x, value):
        before = isinstance(value, Base)
        Base.register(Plain)
        return x + before + 2 * isinstance(value, Base)

    register = lambda cls, base=Base: lambda: base.register(cls)
    return {
        "instance": (instance, (Plain(),), register(Plain)),
        "through a subclass": (instance, (Plain(),), register(Plain, Below)),
        "int": (instance, (3,), register(int)),
        "list": (instance, ([1],), register(list)),
        "another class": (instance, (Plain(),), register(str)),
        "created": (created, (), register(Plain)),
        "tensor": (of_tensor, (), register(torch.Tensor)),
        "subclass": (subclass, (Plain,), register(Plain)),
        "tuple": (lambda x, v: x + isinstance(v, (str, Base)), (Plain(),), register(Plain)),
        "union": (lambda x, v: x + isinstance(v, Base | str), (Plain(),), register(Plain)),
        "number": (lambda x, v: x + isinstance(v, numbers.Number), (Plain(),), register(Plain, numbers.Number)),
        "mapping": (mapping, (Plain(),), register(Plain, collections.abc.Mapping)),
        "sequence": (mapping, (Indexed(),), register(Indexed, collections.abc.Sequence)),
        "singledispatch": (
            lambda x, v: dispatched(v, x), (Plain(),), lambda: dispatched.register(Plain, lambda v, x: x * 5),
        ),
        "singledispatch of an abstract class": (
            lambda x, v: dispatched(v, x), (Plain(),),
            lambda: (dispatched.register(Base, lambda v, x: x * 5), Base.register(Plain)),
        ),
        "resumed": (resumed, (Plain(),), register(Plain)),
        "by the frame": (registers, (Plain(),), lambda: None),
    }  # fmt: skip


def results(function, arguments, change):
    found = []
    for moment in ("before", "after"):
        found += [function(torch.ones(2), *arguments).tolist() for _ in range(4)]
        if moment == "before":
            change()
    return found


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("name", world())
def test_a_registration_between_two_calls(name):
    """The next call gives eager mode's answer."""
    program, arguments, change = world()[name]
    expected = results(program, arguments, change)
    program, arguments, change = world()[name]
    assert results(nbcompile.compile(program, backend="eager"), arguments, change) == expected


@pytest.mark.usefixtures("nothing_compiled")
def test_a_registration_that_changes_no_answer():
    """Such a registration causes no recompile."""
    graphs = []

    def counting(graph, _inputs):
        graphs.append(graph)
        return graph.forward

    program, arguments, _ = world()["instance"]
    compiled = nbcompile.compile(program, backend=counting)
    for _ in range(5):
        compiled(torch.ones(2), *arguments)
        collections.abc.Hashable.register(type("Other", (), {}))
    assert len(graphs) == 1


@pytest.mark.usefixtures("nothing_compiled")
def test_classes_are_freed():
    """The guard refers to neither class."""
    program, arguments, _ = world()["instance"]
    references = [weakref.ref(type(arguments[0]))]
    compiled = nbcompile.compile(program, backend="eager")
    for _ in range(4):
        compiled(torch.ones(2), *arguments)
    del program, arguments, compiled
    gc.collect()
    assert [each() for each in references] == [None]


IN_ANOTHER_PROCESS = """
import abc, torch, nbcompile
class Base(abc.ABC): pass
class Plain: pass
@nbcompile.compile(backend="eager")
def f(x, value): return x + 1 if isinstance(value, Base) else x - 1
def calls(): return [f(torch.ones(1), Plain()).item() for _ in range(3)]
print(calls()); Base.register(Plain); print(calls())
"""


def test_a_store_asks_again(tmp_path):
    """Code that another process loads is rejected after a registration, too."""
    where = {"NBCOMPILE_CACHE_DIR": tmp_path, "NBCOMPILE_WARM_START": "1"}
    for _ in range(2):
        assert python(IN_ANOTHER_PROCESS, **where).split("\n")[:2] == ["[0.0, 0.0, 0.0]", "[2.0, 2.0, 2.0]"]
