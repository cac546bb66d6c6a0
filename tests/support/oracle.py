"""Eager Python as the oracle: one scenario, run with and without the compiler, and observed.

    def scenario(compiled):
        f = compiled(lambda x, n: x * n)
        yield f(ones(2), 2)          each value is looked at when it is yielded
        yield tried(f, ones(2))      what it raises, type and text

An observation is a text in which every object that has an identity has a
number: `[t1, t1]` and `[t1, t2]` differ, whatever the values are.

In torch: nothing. Read next: tests/tracing/test_guard_completeness.py
"""

from __future__ import annotations

import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

import nbcompile
import nbcompile.errors

Compiler = Callable[[Any], Any]
Scenario = Callable[[Compiler], Iterator[object]]


def observations(scenario: Scenario, compiler: Compiler, digits: int | None = None) -> list[str]:
    """The yielded values of a scenario, as texts."""
    return [described(value, digits) for value in scenario(compiler)]


def disagreement(scenario: Scenario, digits: int | None = None, **options: Any) -> str:
    """The difference from eager, or "" without one. ``digits``: the number of digits of a float that count."""
    options.setdefault("backend", "eager")
    options.setdefault("recompile_limit", 64)  # otherwise the last calls would hit
    nbcompile.reset()
    torch.manual_seed(0)
    eager = observations(scenario, lambda function: function, digits)
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "error", nbcompile.errors.InternalErrorWarning
        )  # an error of the compiler, though the result is right
        compiled = observations(scenario, lambda function: nbcompile.compile(function, **options), digits)
    for number, (expected, found) in enumerate(zip(eager, compiled, strict=True)):
        if expected != found:
            return f"observation {number}:\n  eager     {expected}\n  nbcompile {found}"
    return ""


def tried(function: Callable[..., object], *arguments: Any, **keywords: Any) -> object:
    """The value of a call, or its exception."""
    try:
        return function(*arguments, **keywords)
    except Exception as error:  # noqa: BLE001 - whatever it raises is what is observed
        return (type(error), str(error))


def outcome(function: Callable[..., object], *arguments: object) -> object:
    """The text of the value, or class and text of the exception."""
    try:
        return repr(function(*arguments))
    except Exception as error:  # noqa: BLE001  # whatever it raises is compared
        return type(error), str(error)


def one_graph(function: Callable[..., Any], *arguments: object) -> Any:
    """The value of a call that is one graph without a break."""
    explained = nbcompile.explain(function, backend="eager")(*arguments)
    assert (explained.graph_count, explained.graph_break_count) == (1, 0), explained.breaks
    return explained.result


def require_same_rejection(act: Callable[[list[object]], object], x: torch.Tensor) -> None:
    """Compare the exception of ``act``, by class and text, and its notes until then, with eager's."""

    def function(x: torch.Tensor) -> object:
        seen: list[object] = []
        try:
            return x + 1, act(seen), seen
        except Exception as error:  # noqa: BLE001  # whatever it raises is compared
            return x - 1, type(error), str(error), seen

    nbcompile.reset()
    assert nbcompile.compile(function, backend="eager", fullgraph=True)(x)[1:] == function(x)[1:]


def require_same_answer(program: Callable[[], object]) -> None:
    """Compare the value, or the exception by class and message, of a program without arguments with eager's."""

    def function(x: torch.Tensor) -> object:
        return x + 1, program()

    x = torch.ones(2)
    expected, found = tried(function, x), tried(nbcompile.compile(function, backend="eager"), x)
    assert str(found) == str(expected)


def described(value: object, digits: int | None = None) -> str:
    """A value as text, with identities."""
    return _Description(digits).text(value)


class _Description:
    def __init__(self, digits: int | None) -> None:
        self.digits = digits
        self.numbers: dict[int, int] = {}
        self.alive: list[object] = []

    def text(self, value: object) -> str:
        match value:
            case float() if self.digits is not None:
                return f"float:{value:.{self.digits}g}"
            case None | bool() | int() | float() | complex() | str() | bytes():
                return f"{type(value).__name__}:{value!r}"
            case type() | types.ModuleType() | types.BuiltinFunctionType():
                return f"<{value.__name__}>"
            case torch.dtype() | torch.device() | torch.layout() | range() | slice():
                return repr(value)
            case tuple():  # the interpreter decides whether two equal tuples are one object
                return f"{type(value).__name__}({', '.join(map(self.text, value))})"
        if id(value) in self.numbers:
            return f"#{self.numbers[id(value)]}"
        number = self.numbers[id(value)] = len(self.numbers)
        self.alive.append(value)
        return f"#{number}={self.content(value)}"

    def content(self, value: object) -> str:
        name = type(value).__name__
        match value:
            case torch.Tensor():
                facts = f"{value.dtype} {tuple(value.shape)} {value.stride()} {value.requires_grad} {value.is_leaf}"
                return f"{name}[{facts} {self.elements(value)}]"
            case dict():
                return f"{name}{{{', '.join(f'{self.text(k)}: {self.text(v)}' for k, v in value.items())}}}"
            case set() | frozenset():
                return f"{name}{{{', '.join(sorted(map(repr, value)))}}}"
            case list():
                return f"{name}[{', '.join(map(self.text, value))}]"
            case types.FunctionType():
                cells = [
                    self.text(cell.cell_contents) if _is_full(cell) else "empty" for cell in value.__closure__ or ()
                ]
                return f"function {value.__name__} {cells} {self.text(value.__defaults__)} {self.text(value.__kwdefaults__)}"
            case BaseException():
                return f"{name}{value.args!r}"
        if hasattr(value, "__dict__"):
            return f"{name}({', '.join(f'{key}={self.text(each)}' for key, each in vars(value).items())})"
        if hasattr(value, "__iter__"):
            return f"{name}<{', '.join(map(self.text, value))}>"
        return name

    def elements(self, tensor: torch.Tensor) -> object:
        values = tensor.detach()
        if self.digits is None or not values.is_floating_point():
            return values.tolist()
        return [f"{each + 0.0:.{self.digits}g}" for each in values.flatten().tolist()]


def _is_full(cell: types.CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - asking is the test
    except ValueError:
        return False
    return True
