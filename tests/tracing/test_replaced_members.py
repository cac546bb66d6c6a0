"""Methods, properties and builtins that are replaced between two calls (``unittest.mock.patch``): as in eager mode.

torch.Tensor.sin = f    x.sin() calls f, also in code that was compiled before
builtins.len = f        so does len(...)
"""

from __future__ import annotations

import builtins
import copy
import copyreg
import io
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import pytest
import torch
from torch import nn

import nbcompile
from nbcompile import errors
from nbcompile.dispatch import hook
from nbcompile.tools import child_process
from nbcompile.torch_internals import members
from tests.support.graphs import Graphs
from tests.support.oracle import Compiler, disagreement

Replacement = tuple[Callable[[torch.Tensor], object], Any, str, Any]
x = torch.tensor([1.0, -2.0, 3.0])
PARAMETER = nn.Parameter(torch.ones(3))


def in_place(value: torch.Tensor) -> torch.Tensor:
    made = value.clone()
    made += 1
    made[0] = 5
    return made


def store_and_read(value: torch.Tensor) -> torch.Tensor:
    made = Plain()
    made.own = 5
    return value * getattr(made, "own", 7)


def nine_for_k(owner: Any, name: str) -> object:
    return 9 if name == "k" else object.__getattribute__(owner, name)


OF_TENSORS: dict[str, Replacement] = {
    "method": (lambda x: x.sin() + 1, torch.Tensor, "sin", lambda self: self * 7),
    "method, another of C": (lambda x: x.sin() + 1, torch.Tensor, "sin", torch.Tensor.cos),
    "method, in Python": (lambda x: x.norm() + 1, torch.Tensor, "norm", lambda self: self * 7),
    "method, by its class": (lambda x: torch.Tensor.sin(x), torch.Tensor, "sin", lambda self: self * 7),
    "method, by name": (lambda x: getattr(x, "sin")(), torch.Tensor, "sin", lambda self: self * 7),  # noqa: B009
    "after a break": (lambda x: (print(end=""), x.sin())[1], torch.Tensor, "sin", lambda self: self * 7),
    "property": (lambda x: x.T + 1, torch.Tensor, "T", property(lambda self: self * 7)),
    "shape": (lambda x: x * x.shape[0], torch.Tensor, "shape", property(lambda self: (11,))),
    "dtype": (lambda x: x + (x.dtype == torch.float32), torch.Tensor, "dtype", property(lambda self: 1)),
    "data": (lambda x: x.data + 1, torch.Tensor, "data", property(lambda self: self * 5)),
    "dim": (lambda x: x * x.dim(), torch.Tensor, "dim", lambda self: 11),
    "+": (lambda x: x + 1, torch.Tensor, "__add__", lambda self, other: self * 7),
    "reflected": (lambda x: 1 - x, torch.Tensor, "__rsub__", lambda self, other: self * 7),
    "+=": (in_place, torch.Tensor, "__iadd__", lambda self, other: self - 7),
    "x[0] = 5": (in_place, torch.Tensor, "__setitem__", lambda self, key, value: self.add_(7)),
    "x[0]": (lambda x: x[0], torch.Tensor, "__getitem__", lambda self, key: self - 7),
    "len": (lambda x: x * len(x), torch.Tensor, "__len__", lambda self: 11),
    "iter": (lambda x: sum(x), torch.Tensor, "__iter__", lambda self: iter([self])),
    "__getattr__": (lambda x: x * getattr(x, "none", 3), torch.Tensor, "__getattr__", lambda self, name: 5),
    "of a parameter": (lambda x: x + PARAMETER.sin(), torch.Tensor, "sin", lambda self: self * 9),
    "of parameters": (lambda x: x + PARAMETER.sin(), nn.Parameter, "sin", lambda self: self * 9),
    "+ of parameters": (lambda x: PARAMETER + x, nn.Parameter, "__add__", lambda self, other: self * 9),
    "new value": (lambda x: x * getattr(x, "added", 3), torch.Tensor, "added", 9),
    "new method": (lambda x: x.added() if hasattr(x, "added") else x, torch.Tensor, "added", lambda self: self * 9),
    "new property": (lambda x: x * getattr(x, "added", 3), torch.Tensor, "added", property(lambda self: self + 1)),
    "new class method": (lambda x: x * getattr(x, "added", int)(), nn.Parameter, "added", classmethod(lambda cls: 5)),
    "new, of parameters": (lambda x: x * getattr(PARAMETER, "added", 3), nn.Parameter, "added", 9),
    "text": (lambda x: x + 1, torch.Tensor, "__repr__", lambda self: "a tensor"),
}


class Net(nn.Module):
    """A user's module."""

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return value * 2

    @property
    def factor(self) -> int:
        return 2


class Plain:
    """An object with an attribute ``own``, and a class attribute ``k``."""

    k = 2

    def __init__(self) -> None:
        self.own = 3

    def method(self) -> int:
        return self.k


class Derived(Plain):
    """A subclass that defines nothing."""


LINEAR, SEQUENCE, NET, PLAIN, DERIVED = (
    nn.Linear(3, 3),
    nn.Sequential(nn.Linear(3, 3), nn.ReLU()),
    Net(),
    Plain(),
    Derived(),
)
OF_MODULES: dict[str, Replacement] = {
    "forward": (lambda x: LINEAR(x), nn.Linear, "forward", lambda self, value: value * 7),
    "forward, inside": (lambda x: SEQUENCE(x), nn.Linear, "forward", lambda self, value: value * 7),
    "__call__": (lambda x: LINEAR(x), nn.Module, "__call__", lambda self, value: value * 7),
    "_call_impl": (lambda x: SEQUENCE(x), nn.Module, "_call_impl", lambda self, value: value * 7),
    "_wrapped_call_impl": (lambda x: LINEAR(x), nn.Linear, "_wrapped_call_impl", lambda self, value: value * 7),
    "__call__ of one class": (lambda x: LINEAR(x), nn.Linear, "__call__", lambda self, value: value * 7),
    "__call__ of a user's class": (lambda x: NET(x), Net, "__call__", lambda self, value: value * 7),
    "module __getattr__": (lambda x: x + LINEAR.weight, nn.Module, "__getattr__", lambda self, name: torch.ones(3)),
    "a property before a parameter": (lambda x: x + LINEAR.bias, nn.Linear, "bias", property(lambda self: 3)),
    "a property before a value": (lambda x: x + LINEAR.training, nn.Linear, "training", property(lambda self: 3)),
    "parameters": (lambda x: x + len(list(LINEAR.parameters())), nn.Module, "parameters", lambda self: []),
    "len of a module": (lambda x: x + len(SEQUENCE), nn.Sequential, "__len__", lambda self: 10),
    "constructor": (lambda x: x * Plain().own, Plain, "__init__", lambda self: setattr(self, "own", 9)),
    "__new__": (lambda x: x * Derived().k, Derived, "__new__", lambda cls: Plain()),
    "class value": (lambda x: x * DERIVED.method(), Plain, "k", 9),
    "class value by a property": (lambda x: x * DERIVED.k, Plain, "k", property(lambda self: 9)),
    "own value by a property": (lambda x: x * DERIVED.own, Plain, "own", property(lambda self: 9)),
    "a nearer class": (lambda x: x * DERIVED.method(), Derived, "method", lambda self: 9),
    "a static method": (lambda x: x * PLAIN.method(), Plain, "method", staticmethod(lambda: 9)),
    "object's __getattribute__": (lambda x: x * PLAIN.k, Plain, "__getattribute__", nine_for_k),
    "object's __bool__": (lambda x: x * 2 if PLAIN else x, Plain, "__bool__", lambda self: False),
    "object's __len__": (lambda x: x * 2 if PLAIN else x, Plain, "__len__", lambda self: 0),
    "object's __eq__": (lambda x: x * 2 if PLAIN == 3 else x, Plain, "__eq__", lambda self, other: True),
    "object's __radd__": (
        lambda x: x * (3 + PLAIN if hasattr(Plain, "__radd__") else 1),
        Plain,
        "__radd__",
        lambda *_: 9,
    ),
    "object's __setattr__": (store_and_read, Plain, "__setattr__", lambda self, name, value: None),
}
OF_PYTHON: dict[str, Replacement] = {
    "len": (lambda x: x * len([1, 2]), builtins, "len", lambda value: 9),
    "max": (lambda x: x * max(1, 2), builtins, "max", lambda *values: 9),
    "isinstance": (lambda x: x * 2 if isinstance(x, torch.Tensor) else x, builtins, "isinstance", lambda *_: False),
    "getattr": (lambda x: x * getattr(PARAMETER, "ndim"), builtins, "getattr", lambda *_: 9),  # noqa: B009
    "range": (lambda x: x * sum(range(3)), builtins, "range", lambda *_: [9]),
    "zip": (lambda x: x * [one for one, _ in zip([4, 4], [1, 1])][1], builtins, "zip", lambda *_: [(9, 9), (8, 8)]),  # noqa: B905
    "int": (lambda x: x * int("3"), builtins, "int", lambda value: 9),
}


@pytest.mark.parametrize("when", ["later", "first"])
@pytest.mark.parametrize("name", [*OF_TENSORS, *OF_MODULES, *OF_PYTHON])
def test_a_member_is_replaced_and_put_back(name: str, when: str) -> None:
    """A call uses the current member, compiled before or after the change, also on the fast call path."""
    if name not in LEAVES_A_SLOT:
        replace_and_put_back(name, when)
        return
    program = (
        f"from tests.tracing.test_replaced_members import *; replace_and_put_back({name!r}, {when!r}); print('done')"
    )
    ended = child_process.run([sys.executable, "-c", program], 300)
    assert (ended.output.strip(), ended.code) == ("done", 0), ended.errors


def test_tensors_of_tensors_can_be_made() -> None:
    """No earlier test left a sequence slot on torch.Tensor: ``LEAVES_A_SLOT``."""
    assert torch.equal(torch.tensor([torch.tensor(1.0)]), torch.ones(1))


LEAVES_A_SLOT = ("x[0]",)
"""Changes that CPython does not undo: a class whose ``__getitem__`` was replaced once remains a sequence, and
``torch.tensor([torch.tensor(1.0)])`` then reads the length of its elements. So such a test runs in another process.
"""


def replace_and_put_back(name: str, when: str) -> None:
    """Compare a function's calls before, during and after the replacement of a member with eager mode."""
    function, owner, attribute, other = (OF_TENSORS | OF_MODULES | OF_PYTHON)[name]

    def scenario(compiled: Compiler) -> Iterator[object]:
        g = compiled(function)
        for _ in range(0 if when == "first" else 5):
            yield g(x)
        with mock.patch.object(owner, attribute, other, create=True):
            found = [g(x) for _ in range(3)]
        yield from found
        for _ in range(3):
            yield g(x)

    found = disagreement(scenario, backend="aot_eager")
    assert not found, found


def test_the_entry_is_used_again_when_the_member_is_put_back() -> None:
    """A replaced method compiles nothing, and the old cache entry is valid again afterwards."""
    graphs = Graphs()
    g = nbcompile.compile(lambda x: x.sin() + 1, backend=graphs)
    for _ in range(3):
        g(x)
    with mock.patch.object(torch.Tensor, "sin", torch.Tensor.cos):
        torch.testing.assert_close(g(x), x.cos() + 1)
    assert torch.equal(g(x), x.sin() + 1)
    assert len(graphs) == 1


def test_a_warning_names_the_replaced_member_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first call that is not compiled for this reason warns, and later ones do not."""
    monkeypatch.setattr(hook, "_replaced_members", set())
    g = nbcompile.compile(lambda x: x.sin() + 1, backend="eager")
    with mock.patch.object(torch.Tensor, "sin", torch.Tensor.cos):
        with pytest.warns(errors.ReplacedMemberWarning, match=r"torch\.Tensor\.sin is replaced"):
            g(x)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            g(x)
    assert torch.equal(g(x), x.sin() + 1)


def test_new_names_and_texts_do_not_recompile() -> None:
    """A new method of torch.Tensor, or a new ``__repr__``, invalidates no cache entry."""
    graphs = Graphs()
    g = nbcompile.compile(lambda x: x.sin() + 1, backend=graphs)
    for name in ("added", "added_too", "__repr__"):
        with mock.patch.object(torch.Tensor, name, lambda self: "text", create=True):
            for _ in range(3):
                g(x)
        g(x)
    assert len(graphs) == 1


def test_what_pickle_and_copy_leave_behind_is_no_replaced_member() -> None:
    """``torch.save`` and ``copy.deepcopy`` store ``__slotnames__`` on torch.Tensor, which does not count."""
    torch.save(torch.ones(2), io.BytesIO())
    copy.deepcopy(torch.nn.Parameter(torch.ones(2)))
    copyreg._slotnames(torch.nn.Parameter)
    assert "__slotnames__" in vars(torch.Tensor)
    assert members.replaced_member() is None


def test_replaced_during_a_call() -> None:
    """A member that the compiled function itself replaces is used by later code, and by the next call."""

    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        before = x.sin()
        with mock.patch.object(torch.Tensor, "sin", torch.Tensor.cos):
            within = x.sin()
        return before, within, x.sin()

    def scenario(compiled: Compiler) -> Iterator[object]:
        g = compiled(function)
        for _ in range(3):
            yield g(x)

    found = disagreement(scenario, backend="aot_eager")
    assert not found, found


def test_stored_on_the_class_by_a_statement() -> None:
    """``torch.Tensor.sin = f`` within a compiled function has the effect of eager mode."""

    def function(x: torch.Tensor) -> torch.Tensor:
        torch.Tensor.sin = torch.Tensor.cos  # type: ignore[method-assign]
        try:
            return x.sin()
        finally:
            del torch.Tensor.sin  # type: ignore[misc]

    def scenario(compiled: Compiler) -> Iterator[object]:
        g = compiled(function)
        for _ in range(3):
            yield g(x)
            yield x.sin()

    found = disagreement(scenario, backend="aot_eager")
    assert not found, found


def test_a_replaced_builtin_may_say_that_it_equals_the_old_one() -> None:
    """A proxy may equal the object that it wraps, but it is another object."""

    class Proxy:
        def __init__(self, wrapped: object) -> None:
            self.wrapped = wrapped

        def __call__(self, *given: object) -> object:
            return self.wrapped(*given)  # type: ignore[operator]

        def __eq__(self, other: object) -> bool:
            return self.wrapped == other

        __hash__ = None  # type: ignore[assignment]

    with mock.patch.object(builtins, "sorted", Proxy(sorted)):
        assert members.replaced_member() == "sorted"
    with mock.patch.object(builtins, "print", Proxy(print)):
        assert members.replaced_member() is None
    with mock.patch.dict(builtins.__dict__):
        del builtins.__dict__["sorted"]
        found = members.replaced_member()
    assert found == "sorted"


def test_what_counts_as_replaced() -> None:
    """The result is the first member that is not torch's; new names and ``__repr__`` do not count."""
    assert members.replaced_member() is None
    with mock.patch.object(torch.Tensor, "sin", torch.Tensor.cos):
        assert members.replaced_member() == "torch.Tensor.sin"
        assert not members.are_torchs_own()
    with mock.patch.object(nn.Parameter, "view", 1):
        assert members.replaced_member() == "torch.nn.Parameter.view"
    with mock.patch.object(torch.Tensor, "added", 1, create=True):
        assert members.replaced_member() is None
        assert members.is_new_member("added")
        assert not members.is_new_member("sin")
    with mock.patch.object(torch.Tensor, "__getattr__", 1, create=True):
        assert members.replaced_member() == "torch.Tensor.__getattr__"
    with mock.patch.object(torch.Tensor, "__repr__", lambda self: ""):
        assert members.replaced_member() is None
    with mock.patch.object(builtins, "len", lambda value: 1):
        found = members.replaced_member()
    assert found == "len"
    assert members.replaced_member() is None
    assert members.are_torchs_own()
