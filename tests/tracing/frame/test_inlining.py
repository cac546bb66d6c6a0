"""Functions that are traced inside of their callers: parameters, and generators that run piece by piece."""

from __future__ import annotations

from typing import Self

import torch

import nbcompile
from tests.support.answers import check
from tests.support.oracle import one_graph


class NeverOne(ValueError):
    def __new__(cls, *arguments: object) -> Self:
        return 3  # type: ignore[return-value]


def test_parameters_get_their_arguments():
    """Arguments bind by position, by keyword, by default, and to ``*args`` and ``**kwargs``, as in Python."""
    check(
        "def g(a, b=2, *c, d, e=5, **f): return a, b, c, d, e, f\nreturn g(1, d=4), g(1, 3, 5, d=4, e=6, h=7)",
        "def g(a, /, **b): return a, b\nreturn g(1, a=2)",
        "def g(*, a=1): return a\nreturn g(), g(a=2)",
    )


def test_a_call_that_does_not_fit_raises_the_error_of_python():
    """A call with wrong arguments breaks the graph, and Python raises its own error."""

    def f(x: torch.Tensor) -> object:
        def g(a: int, *, b: int) -> int:
            return a + b

        try:
            g(1, 2, 3)  # type: ignore[call-arg, misc]
        except TypeError as error:
            return x + 1, str(error)
        return None

    result, text = nbcompile.compile(f, backend="eager")(torch.ones(2))
    assert torch.equal(result, torch.full((2,), 2.0))
    assert text == f(torch.ones(2))[1]  # type: ignore[index]


def test_a_callee_is_part_of_the_graph():
    """A function that calls another one has a single graph, without a break."""

    def below(x: torch.Tensor, scale: float) -> torch.Tensor:
        return x * scale

    assert torch.equal(one_graph(lambda x: below(x, scale=2.0) + 1, torch.ones(2)), torch.full((2,), 3.0))


def test_exceptions_that_are_sent_into_generators():
    """``send`` before the first ``yield``, the forms of ``throw``, and a generator that resumes itself."""
    forms = (
        "ValueError(1)", "ValueError(1), 2", "ValueError, 2", "ValueError, (3, 4)", "ValueError, ValueError(5)",
        "ValueError, 1, 7", "'a'", "ValueError(1), None", "int", "OSError, 'x'",
        "NeverOne", "NeverOne, NeverOne",
    )  # fmt: skip
    check(
        "def g():\n  x = yield 1\n  yield x\nit = g()\nit.send(3)",
        "def g():\n  x = yield 1\n  yield x\nit = g()\nreturn it.send(None), it.send(4)",
        "def g():\n  try: next(me[0])\n  except ValueError as e: yield str(e)\nme = []\nme.append(g())\nreturn list(me[0])",
        "def g():\n  yield me[0].close()\nme = []\nme.append(g())\nreturn list(me[0])",
        *(f"def g():\n  yield 1\n  yield 2\nit = g()\nnext(it)\nit.throw({form})" for form in forms),
        "def g():\n  try: yield 1\n  finally: return 5\nit = g()\nnext(it)\nreturn it.close(), it.close(), g().close()",
        NeverOne=NeverOne,
    )  # fmt: skip
