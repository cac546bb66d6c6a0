"""``"%s of %r" % values``, where some values are not known while tracing."""

from __future__ import annotations

import pytest
import torch

import nbcompile
from tests.support.answers import check


class Shown:
    def __repr__(self):
        return "<shown>"

    def __str__(self):
        return "text"


NAMES = {"Shown": Shown}


def test_objects_are_asked():
    """``%s`` calls ``__str__`` and ``%r`` calls ``__repr__``; widths, signs and constants are as in Python."""
    check(
        "'%s|%r|%%|%d' % (Shown(), Shown(), 3)",
        "'%8s|%-9r|%.3r|%05.1f' % (Shown(), Shown(), Shown(), 2.5)",
        "'%s' % Shown()",
        "'%r' % [Shown()]",
        **NAMES,
    )


@pytest.mark.usefixtures("nothing_compiled")
def test_a_tensor_in_the_text():
    """The text is created after the graph, which does not break."""

    def f(x):
        y = x + 1
        return y, "%s and %r: {%d}" % (y, [y], 2)  # noqa: UP031  (the test is about %)

    compiled = nbcompile.compile(f, fullgraph=True)
    assert compiled(torch.ones(2))[1] == f(torch.ones(2))[1]
