"""Facts about a class, compared with Python's behaviour for an instance of the class."""

import collections
import datetime as dt
import decimal
import functools
import itertools
import types

import numpy as np
import pytest
import torch

import nbcompile
from nbcompile.tracing.variables import class_facts
from nbcompile.tracing.variables.class_facts import has_class_members_only, is_class_member, is_fixed, name_in_errors
from tests.support.graphs import Graphs


class Slotted:
    __slots__ = ("a",)


class Asked:
    __slots__ = ()

    def __getattr__(self, name):
        return name


class Plain:
    pass


SAMPLES = [
    [], (), {}, set(), "a", b"a", bytearray(), memoryview(b"a"), 1, 1.5, 1j, None, ..., slice(1), range(2), iter([]), zip(), map(abs, []),
    iter({}), reversed([]), (i for i in ()), [].append, abs, types.MappingProxyType({}), itertools.chain(), itertools.count(),
    collections.deque(), iter(collections.deque()), reversed(collections.deque()), collections.OrderedDict(),
    dt.date(2020, 1, 1), decimal.Decimal(1), Slotted(), Plain(), Asked(),
    property(abs), list[int], int | str, Plain().__init__, Plain.__eq__, super(Plain, Plain()), types, torch.Generator(),
    torch.float32, torch.device("cpu"), torch.Size([1]), torch.ones(2).add, torch.ones(2).split,
]  # fmt: skip


@pytest.mark.parametrize(
    "value",
    [value for value in SAMPLES if has_class_members_only(type(value))],
    ids=lambda value: type(value).__qualname__,
)
def test_objects_with_the_members_of_their_class_have_no_others(value):
    """A name that the class does not have raises Python's AttributeError, with this text."""
    cls = type(value)
    names = {"keys", "qqq", "__mro__", "__name__", "__self__", "__origin__", "a", "__hash__"}
    names |= {name for other in SAMPLES for name in dir(other)}
    assert not hasattr(value, "__dict__")
    for name in names:
        try:
            getattr(value, name)
        except AttributeError as error:
            if not is_class_member(cls, name):
                assert str(error) == f"'{name_in_errors(cls)}' object has no attribute '{name}'"
        else:
            assert is_class_member(cls, name), name


def test_which_classes_answer_alone():
    """Classes without ``__dict__`` and without their own lookup have only the members of the class."""
    alone = {type(value) for value in SAMPLES if has_class_members_only(type(value))}
    assert {list, slice, memoryview, bytearray, Slotted, type(iter([])), type(abs), zip, itertools.chain} <= alone
    assert not alone & {Plain, Asked, super, types.ModuleType, types.MethodType, types.GenericAlias, types.UnionType}


@pytest.mark.parametrize(
    "make",
    [
        lambda x: slice(x.shape[0]),
        lambda x: x.add,
        lambda x: [x].append,
        lambda x: types.MappingProxyType({1: x}),
        lambda x: {x.shape[0]}.__iter__(),
        lambda x: "a".join,
    ],
    ids=["slice", "method of a tensor", "method of a list", "mapping proxy", "iterator", "method of a string"],
)
def test_values_that_a_program_makes(make):
    """``hasattr`` and ``getattr`` with a default work for missing attributes, in one graph."""
    nbcompile.reset()

    def f(x):
        value = make(x)
        return x + 1, hasattr(value, "qqq"), getattr(value, "keys_of", 3), hasattr(value, "__mro__"), type(value)

    compiled = nbcompile.compile(f, backend="eager", fullgraph=True)
    assert compiled(torch.ones(2))[1:] == f(torch.ones(2))[1:]


@pytest.mark.parametrize(
    "value",
    [bytearray(b"a"), memoryview(b"a"), dt.date(2020, 1, 1), decimal.Decimal(1), zip(), map(abs, [1]), iter([1]),
     itertools.count(), torch.Generator(), [].append, torch.ones(2).numpy(), torch.ones(2).numpy()[0]],
    ids=lambda value: type(value).__qualname__,
)  # fmt: skip
def test_values_from_outside(value):
    """``hasattr`` and ``getattr`` work for an argument of a class that has no tracker."""
    nbcompile.reset()

    def f(x, value):
        return x + 1, hasattr(value, "qqq"), getattr(value, "keys_of", 3)

    compiled = nbcompile.compile(f, backend="eager", fullgraph=True)
    assert compiled(torch.ones(2), value)[1:] == (False, 3)


class Derived(np.ndarray):
    """A subclass of ndarray with attributes of the program."""


def derived():
    value = np.arange(3.0).view(Derived)
    value.label = "a"
    return value


@functools.lru_cache
def cached(x):
    return x


NAMES = ["label", "qqq", "__mro__", "__name__", "__dict__", "__copy__", "__call__", "__base__", "start", "append"]


@pytest.mark.parametrize("is_made_inside", [False, True], ids=["from outside", "made inside"])
@pytest.mark.parametrize(
    "make",
    [derived, lambda: range(3), Slotted, Plain, lambda: cached],
    ids=["array", "range", "slots", "plain", "cached"],
)
def test_what_neither_a_metaclass_nor_another_object_answers(make, is_made_inside):
    """Attributes of the object and of its class are found, and no others."""
    nbcompile.reset()

    def asked(value, x):
        return [hasattr(value, name) for name in NAMES], x + 1

    def f(x):
        return asked(make(), x)

    given = (torch.ones(2),) if is_made_inside else (make(), torch.ones(2))
    program = f if is_made_inside else asked
    compiled = nbcompile.compile(program, backend="eager")
    for _ in range(2):
        assert compiled(*given)[0] == program(*given)[0]


class Seeded(torch.Generator):
    pass


class Queue(torch.Stream):
    pass


def stream(cls, number):
    return cls(stream_id=number, device_index=number % 2, device_type=1)


@pytest.mark.parametrize("cls", [torch.Generator, Seeded])
def test_the_device_of_a_generator(cls):
    """The device is guarded: another generator of the same device causes no recompile, whatever its seed."""
    nbcompile.reset()
    graphs = Graphs()

    def f(x, generator):
        return (x + 1, generator.device) if generator.device.type == "cpu" else x

    compiled = nbcompile.compile(f, backend=graphs, fullgraph=True)
    for seed in range(3):
        generator = cls()
        generator.manual_seed(seed)
        assert compiled(torch.ones(2), generator)[1] == torch.device("cpu")
    assert len(graphs) == 1
    guards = nbcompile.explain(f)(torch.ones(2), cls()).record.frames[0].guards
    assert any("L['generator'].device == " in guard.condition for guard in guards)


@pytest.mark.parametrize("cls", [torch.Stream, Queue])
@pytest.mark.parametrize("name", ["device", "device_index", "device_type", "stream_id"])
def test_where_a_stream_is(name, cls):
    """An attribute of a stream is guarded, so another stream gives its own value."""
    nbcompile.reset()

    def f(x, stream):
        return x + 1, getattr(stream, name)

    compiled = nbcompile.compile(f, backend="eager", fullgraph=True)
    for number in (4, 7, 4, 6):
        assert compiled(torch.ones(2), stream(cls, number))[1] == getattr(stream(cls, number), name)


def test_what_changes_is_not_fixed():
    """The seed of a generator and the attributes of an event can change, so they are not fixed."""
    assert is_fixed(torch.Generator, "device")
    assert not is_fixed(torch.Generator, "initial_seed")
    assert not any(is_fixed(torch.Event, name) for name in dir(torch.Event))
    assert not is_fixed(type("Renamed", (torch.Generator,), {"device": 3}), "device")


def test_the_type_of_a_method_in_c():
    """A slot gives a method wrapper, another method a built-in method."""
    assert class_facts.type_of_method(list, "__len__") is type([].__len__)
    assert class_facts.type_of_method(list, "append") is type([].append)
