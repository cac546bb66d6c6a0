"""What every file of this folder shares: a backend that counts, and a reader of what was recorded.

Each test is named after one behaviour of the programming model of torch.compile
(``test_CB_6_...``), and its docstring states the documented outcome. Where ours
is another, :func:`differs` says why; docs/behaviours.md lists all of them.
"""

from collections.abc import Callable
from contextlib import contextmanager

import pytest
import torch

import nbcompile
from nbcompile import api
from tests.support.graphs import Graphs


def differs(why: str) -> Callable:
    """Our outcome is not torch.compile's: ``why`` says what is different, and for which reason."""
    assert why
    return lambda test: test


class Watched:
    """A function compiled with a counting backend; what its calls led to is recorded."""

    def __init__(self, function, backend=None, **options):
        self.backend = Graphs() if backend is None else backend
        self.function = nbcompile.compile(function, backend=self.backend, **options)
        self.frame_recorder = api.new_recorder("watched")

    def __call__(self, *arguments, **keywords):
        with self.frame_recorder.listening():
            return self.function(*arguments, **keywords)

    @property
    def record(self):
        return self.frame_recorder.record()

    @property
    def graphs(self):
        return self.backend.operators

    @property
    def frames(self):
        return [each for each in self.record.frames if each.status == "compiled"]

    @property
    def breaks(self):
        return [each for frame in self.record.frames for each in frame.breaks]

    @property
    def titles(self):
        return [each.title for each in self.breaks]

    @property
    def gb_ids(self):
        return [each.gb_id for each in self.breaks]


watch = Watched


def same(actual, expected):
    """Equal, tensors by value, whatever holds them."""
    torch.testing.assert_close(actual, expected)


@contextmanager
def refused():
    """``fullgraph=True`` (or error_on_graph_break) refuses: the report of the break."""
    holder = []
    with pytest.raises(nbcompile.exc.Unsupported) as caught:
        yield holder
    holder.append(caught.value.report)


def report_of(function, *arguments, **options):
    """The report with which ``fullgraph=True`` refuses a call."""
    with refused() as found:
        nbcompile.compile(function, fullgraph=True, backend="eager", **options)(*arguments)
    return found[0]


def asserting(t):
    """Here, because pytest rewrites the assertions of test modules."""
    assert t.sum() > 0, "must be positive"
    return t + 1
