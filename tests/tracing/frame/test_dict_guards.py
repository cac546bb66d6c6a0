"""Guards that keep dicts and the attributes of objects apart, and which programs need them."""

from __future__ import annotations

import builtins
import types
from collections.abc import Callable
from typing import Any

import torch

from nbcompile.capture.frame import Frame
from nbcompile.capture.guard import GuardKind
from nbcompile.capture.source import AttrSource, LocalSource, Source
from nbcompile.options import Options
from nbcompile.tracing.inputs.dynamism import Dynamism
from nbcompile.tracing.tracer import trace

ATTRIBUTES, MAPPING = AttrSource(LocalSource("o"), "__dict__"), LocalSource("d")


def kept_apart(function: Callable[..., Any], o: object = None) -> list[set[Source]]:
    """Sources of each guard that several values are different objects."""
    given = {"o": types.SimpleNamespace(a=1) if o is None else o, "d": {"a": 1}, "x": torch.ones(2)}
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    frame = Frame(function.__code__, {name: given[name] for name in names}, globals(), vars(builtins))
    guards = trace(frame, Options(), Dynamism(False)).guards()
    return [set(guard.expected) for guard in guards if guard.kind is GuardKind.NO_OBJECT_ALIASING]


def test_change_of_an_object_beside_a_dict() -> None:
    """An object that is stored on has a guard that a dict that is read is not its ``__dict__``."""

    def program(o: Any, d: Any, x: Any) -> Any:
        o.a = 5
        return x + d["a"]

    assert {ATTRIBUTES, MAPPING} in kept_apart(program)


def test_change_of_a_dict_beside_an_object() -> None:
    """A dict that is stored into has a guard that it is not the ``__dict__`` of an object that is read."""

    def program(o: Any, d: Any, x: Any) -> Any:
        d["a"] = 5
        return x + o.a

    assert {ATTRIBUTES, MAPPING} in kept_apart(program)


def test_nothing_that_is_read_changes() -> None:
    """Reads alone, and an object of which no attribute is asked, need no such guard."""

    def reads(o: Any, d: Any, x: Any) -> Any:
        return x + o.a + d["a"]

    def alone(o: Any, d: Any, x: Any) -> Any:
        d["a"] = 5
        return x + (o is None)

    assert kept_apart(reads) == []
    assert kept_apart(alone) == []


def test_module_has_keys_that_the_dict_lacks() -> None:
    """A dict whose keys are known needs no guard against a module, whose dict has other keys."""

    def program(o: Any, d: Any, x: Any) -> Any:
        d["a"] = 5
        return o(x)

    assert kept_apart(program, torch.nn.Linear(2, 2)) == []
