"""Exceptions as objects: arguments, links between them, and what they refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import nbcompile
from tests.support.answers import check
from tests.support.graphs import Graphs


class Own(Exception):
    pass


def test_texts_and_arguments():
    """Of none, one and several arguments; a KeyError shows the repr of its key."""
    check(
        "Own('a', 'b').args", "str(Own('a'))", "str(Own())", "str(Own('a', 'b'))", "repr(Own('a'))", "repr(Own())",
        "repr(Own('a', 1))", "str(KeyError('a'))", "repr(KeyError('a'))", "KeyError('a') == KeyError('a')",
        "e = ValueError('a')\ne.args = (1, 2)\nreturn e.args, str(e)", "e = ValueError('a')\ne.args = 5", Own=Own,
    )  # fmt: skip


def test_what_built_in_classes_keep():
    """Fields that C derives from the arguments."""
    check(
        "OSError(2, 'no').errno", "OSError(2, 'no', 'f').filename", "str(OSError(2, 'no', 'f'))", "StopIteration(5).value",
        "UnicodeDecodeError('u', b'a', 0, 1, 'r').reason", "ImportError('x', name='n').name", "SystemExit(3).code",
        "AttributeError('x', name='n', obj=1).name", "isinstance(ValueError(), Exception)", "issubclass(KeyError, LookupError)",
    )  # fmt: skip


def test_links_to_other_exceptions():
    """A cause hides the context; each is an exception or None."""
    check(
        "e = ValueError('a')\ne.__cause__ = KeyError()\nreturn e.__suppress_context__, type(e.__cause__)",
        "e = ValueError('a')\ne.__cause__ = 5", "e = ValueError('a')\ne.__context__ = 5", "ValueError('a').with_traceback(3)",
        "str(ValueError('a').with_traceback(None))",
        """
        try:
            raise ValueError('a') from KeyError('k')
        except ValueError as error:
            return repr(error.__cause__), error.__suppress_context__, error.__context__
        """,
        """
        try:
            try:
                raise KeyError(1)
            except KeyError:
                raise ValueError(2)
        except ValueError as error:
            return repr(error.__context__), error.__suppress_context__
        """,
        "raise ValueError('a') from None", "raise ValueError('a') from 5",
    )  # fmt: skip


class Ended(StopIteration):
    """A class without code of its own."""


class Refused(ValueError, OSError):
    """Two bases in C, of which the second one decides the layout."""


class Several(ExceptionGroup):  # type: ignore[type-arg]
    """A group of the program's."""


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize(
    "make",
    [
        lambda: ExceptionGroup("g", [ValueError("a"), ExceptionGroup("h", [KeyError("b")])]),
        lambda: Several("g", [TypeError("a")]),
        lambda: Ended(4),
        lambda: Refused(1, "x"),
    ],
)
def test_classes_whose_layout_is_their_own(make: Callable[[], BaseException]) -> None:
    """Groups, and others that C makes in a way of its own, leave the frame whole."""
    names = ("args", "errno", "strerror", "code", "value", "message")

    def f(x: torch.Tensor) -> Any:
        return x + 1, make()

    def described(error: Any) -> Any:
        below = [described(one) for one in getattr(error, "exceptions", ())]
        return type(error), str(error), [repr(getattr(error, name, None)) for name in names], below

    graphs = Graphs()
    _, error = nbcompile.compile(f, backend=graphs, fullgraph=True)(torch.ones(2))
    assert described(error) == described(make())
    assert len(graphs) == 1
