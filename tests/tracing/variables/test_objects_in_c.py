"""Objects with an attribute lookup in C: threading.local has one dict for each thread."""

from __future__ import annotations

import array
import decimal
import hashlib
import io
import operator
import struct
import threading
import types
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import nbcompile


class Settings(threading.local):
    shift = 3

    def __init__(self):
        self.scale = 5

    def step(self):
        return 1


class Doubling(threading.local):
    def __setattr__(self, name, value):
        super().__setattr__(name, 2 * value)


settings, doubling, plain = Settings(), Doubling(), threading.local()


class Target:
    value = 4


target = Target()
proxy = weakref.proxy(target)


def in_a_thread(function, *arguments):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *arguments).result()


def scaled(x):
    return x * settings.scale


def shifted(x):
    return x + settings.shift + settings.step()


def asked(x):
    return x + plain.value if hasattr(plain, "value") else x - 1


def test_each_thread_has_its_own_value():
    """A guard on an attribute of a thread-local object reads the dict of the calling thread."""
    compiled = nbcompile.compile(scaled, backend="eager", fullgraph=True)
    x = torch.ones(2)
    settings.scale = 7
    assert compiled(x).tolist() == [7, 7]
    assert in_a_thread(compiled, x).tolist() == [5, 5]
    assert compiled(x).tolist() == [7, 7]


@pytest.mark.parametrize("name", ["shift", "step"])
def test_what_comes_to_shadow_the_class_is_seen(name):
    """The guard on a member of the class fails if the thread's own dict has an attribute of that name."""
    compiled = nbcompile.compile(shifted, backend="eager", fullgraph=True)
    x = torch.ones(2)
    assert compiled(x).tolist() == [5, 5]
    setattr(settings, name, 10 if name == "shift" else lambda: 10)
    try:
        assert compiled(x).tolist() == shifted(x).tolist() != [5, 5]
        assert in_a_thread(compiled, x).tolist() == [5, 5]
    finally:
        delattr(settings, name)


def test_absence_is_guarded_for_each_thread():
    """``hasattr`` of a thread-local object is guarded, in another thread, too, and if the attribute appears."""
    compiled = nbcompile.compile(asked, backend="eager", fullgraph=True)
    x = torch.ones(2)
    assert compiled(x).tolist() == [0, 0]
    plain.value = 2
    assert compiled(x).tolist() == [3, 3]
    assert in_a_thread(compiled, x).tolist() == [0, 0]
    del plain.value


def test_a_setattr_that_was_traced_runs_once():
    """The store of a user's ``__setattr__`` through ``super()`` is replayed in C, so it doubles only once."""

    def f(x):
        doubling.value = 3
        return x + doubling.value

    assert nbcompile.compile(f, backend="eager", fullgraph=True)(torch.zeros(1)).item() == 6
    assert doubling.value == 6


def test_an_attribute_that_is_deleted_in_the_end():
    """An attribute from before the call is deleted; one that was created during the call needs no deletion."""

    def f(x):
        plain.fresh = x + 1
        y = plain.fresh + plain.old
        del plain.fresh, plain.old
        return y

    plain.old = 2
    assert nbcompile.compile(f, backend="eager", fullgraph=True)(torch.zeros(1)).item() == 3
    assert vars(plain) == {}


@pytest.mark.parametrize("read", [lambda: proxy.value, lambda: types.SimpleNamespace(a=2).a])
def test_what_only_c_finds_is_no_attribute_error(read):
    """An attribute that only the class in C can look up breaks the graph; the result is eager mode's."""

    def f(x):
        return x.sin() + read()

    x = torch.ones(2)
    assert torch.equal(nbcompile.compile(f, backend="eager")(x), f(x))


def window(x, namespace):
    namespace.k = namespace.k + 1
    namespace.__dict__["z"] = 5
    namespace.new = vars(namespace)["k"]
    del namespace.old
    return x * namespace.z + vars(namespace)["k"], sorted(vars(namespace)), {**vars(namespace)}, len(vars(namespace))


def test_the_dict_of_a_namespace_shows_what_was_stored():
    """``__dict__`` of a SimpleNamespace shows its attributes, although it is a member of the class."""
    compiled = nbcompile.compile(window, backend="eager", fullgraph=True)
    for k in (1, 2, 5):
        found, expected = types.SimpleNamespace(k=k, old=0), types.SimpleNamespace(k=k, old=0)
        result, wanted = compiled(torch.ones(1), found), window(torch.ones(1), expected)
        assert (result[0].tolist(), *result[1:]) == (wanted[0].tolist(), *wanted[1:])
        assert found == expected


IN_C = {
    "array": (array.array("i", [1]), "typecode itemsize"),
    "bytes": (io.BytesIO(b"a"), "closed"),
    "struct": (struct.Struct("ii"), "size format"),
    "view": (memoryview(b"abc"), "nbytes readonly shape format"),
    "hash": (hashlib.sha256(), "name digest_size"),
    "decimal": (decimal.Context(prec=7), "prec rounding"),
    "storage": (torch.ones(2).untyped_storage(), "device"),
    "schema": (torch.ops.aten.add.Tensor._schema, "name overload_name is_mutable"),
}


@pytest.mark.parametrize("name", IN_C)
def test_a_constant_that_c_computes_is_read(name):
    """Members and properties in C (also of pybind11) whose values are constants do not end the graph."""
    value, attributes = IN_C[name]
    read = operator.attrgetter(*attributes.split())

    def f(x, value):
        return x + 1, [getattr(value, name) for name in attributes.split()]

    found = nbcompile.compile(f, backend="eager", fullgraph=True)(torch.ones(2), value)[1]
    wanted = read(value)
    assert found == (list(wanted) if isinstance(wanted, tuple) and len(attributes.split()) > 1 else [wanted])


def test_a_constant_that_c_computes_is_guarded():
    """The guard asks again: a context of another precision, a file that was closed."""

    def f(x, context, file):
        return x * context.prec, file.closed

    compiled, x = nbcompile.compile(f, backend="eager", fullgraph=True), torch.ones(1)
    context, file = decimal.Context(prec=7), io.BytesIO()
    assert compiled(x, context, file) == (7, False)
    context.prec = 9
    assert compiled(x, context, file) == (9, False)
    file.close()
    assert compiled(x, context, file) == (9, True)


class Counted:
    """Its property is in C, and calls its own code."""

    asked = 0
    length = property(len)

    def __len__(self):
        Counted.asked += 1
        return Counted.asked


def test_a_getter_in_c_that_calls_the_program_is_no_constant():
    """``property(len)`` calls ``__len__`` as often as eager mode does."""

    def f(x, value):
        return x + value.length

    compiled = nbcompile.compile(f, backend="eager")
    Counted.asked = 0
    assert [compiled(torch.zeros(1), Counted()).item() for _ in range(3)] == [1, 2, 3]
