"""Python expressions, evaluated in eager mode and in a compiled function, all of a list in one graph.

check("[1, 2].index(2)", "[].pop()", XS=[3])        both answers, and both exceptions with their words, are equal
"""

from __future__ import annotations

import itertools
import linecache
import textwrap
import warnings
from collections.abc import Callable
from typing import Any

import torch

import nbcompile
from tests.support.graphs import Graphs

_numbers = itertools.count()
HEAD = """
def tried(program):
    try:
        return program()
    except Exception as error:
        return type(error), str(error)

"""


def _body(number: int, text: str) -> str:
    try:
        compile(f"({text.strip()})", "", "eval")
    except SyntaxError:  # statements, with a return at the end
        return f"    def program{number}():\n" + textwrap.indent(textwrap.dedent(text).strip(), " " * 8)
    return f"    def program{number}():\n        return ({text.strip()})"


def function_of(texts: tuple[str, ...], names: dict[str, Any]) -> Callable[[torch.Tensor], Any]:
    """A function with the answers of all programs as its result."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # some programs raise on purpose
        return _defined(texts, names)


def _defined(texts: tuple[str, ...], names: dict[str, Any]) -> Callable[[torch.Tensor], Any]:
    bodies = "\n".join(_body(*numbered) for numbered in enumerate(texts))
    tried = ", ".join(f"tried(program{number})" for number in range(len(texts)))
    source = f"{HEAD}def f(x):\n{bodies}\n    return x + 1, [{tried}]\n"
    file = f"<answers {next(_numbers)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    scope = {"torch": torch, **names}
    exec(compile(source, file, "exec"), scope)
    function: Callable[[torch.Tensor], Any] = scope["f"]
    return function


def described(value: object) -> object:
    """The type and parts of a value, which distinguish -0.0 and 0.0, bool and int, and equate NaN."""
    if isinstance(value, torch.Tensor):
        return "tensor", value.tolist()
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        return type(value), [described(each) for each in value]
    if isinstance(value, dict):
        return type(value), [(described(key), described(each)) for key, each in value.items()]
    return (type(value), repr(value)) if type(value).__repr__ is not object.__repr__ else type(value)


def check(*texts: str, **names: Any) -> None:
    """Assert that each program has equal answers; ``names`` are its globals, or a function that creates them."""

    def made() -> dict[str, Any]:
        return {
            name: value() if getattr(value, "__name__", "") == "<lambda>" else value for name, value in names.items()
        }

    original = function_of(texts, made())  # kept: 3.13.0 clears parts of an object with its state still in use
    _, eager = original(torch.ones(2))
    graphs = Graphs()

    _, actual = nbcompile.compile(function_of(texts, made()), backend=graphs, fullgraph=True)(torch.ones(2))
    assert len(graphs) == 1
    differ = [
        (text, one, other)
        for text, one, other in zip(texts, eager, actual, strict=True)
        if described(one) != described(other)
    ]
    assert differ == [], "\n".join(map(str, differ))
