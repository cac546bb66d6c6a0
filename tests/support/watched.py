"""A backend that counts, and a reader of records, for the tests of the programming model.

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
    """A mark for an outcome that is not torch.compile's: ``why`` has the difference and its reason."""
    assert why
    return lambda test: test


class Watched:
    """A function compiled with a counting backend, and the record of its calls."""

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
    """Assert equality, of tensors by value, in any container."""
    torch.testing.assert_close(actual, expected)


@contextmanager
def rejected():
    """Assert that ``fullgraph=True`` (or error_on_graph_break) rejects, and return the report of the break."""
    holder = []
    with pytest.raises(nbcompile.exc.Unsupported) as caught:
        yield holder
    holder.append(caught.value.report)


def report_of(function, *arguments, **options):
    """The report with which ``fullgraph=True`` rejects a call."""
    with rejected() as found:
        nbcompile.compile(function, fullgraph=True, backend="eager", **options)(*arguments)
    return found[0]


def asserting(t):
    """Assertions are here, because pytest rewrites those of test modules."""
    assert t.sum() > 0, "must be positive"
    return t + 1
