"""Variables of a context that are bound for a block are as they were afterwards, whenever Ctrl-C comes."""

from contextvars import ContextVar

import pytest

from nbcompile.fast.disk_cache import descriptions
from nbcompile.record import recorder
from nbcompile.support.context_variables import bound


class Interrupted:
    """A variable whose first change is followed by Ctrl-C."""

    def __init__(self, variable):
        self.variable, self.changes = variable, 0

    def get(self):
        return self.variable.get()

    def set(self, value):
        self.changes += 1
        self.variable.set(value)
        if self.changes == 1:
            raise KeyboardInterrupt


def test_a_variable_is_bound_inside():
    """And has its former value afterwards, also after an exception."""
    variable = ContextVar("variable", default=1)
    with pytest.raises(ValueError, match="of the block"), bound(variable, 2):
        assert variable.get() == 2
        raise ValueError("of the block")
    assert variable.get() == 1


def test_an_interrupt_right_after_it_was_set():
    """Before the block begins: nothing is left."""
    variable = ContextVar("variable", default=1)
    with pytest.raises(KeyboardInterrupt), bound(Interrupted(variable), 2):
        raise AssertionError("the block does not run")
    assert variable.get() == 1


def test_nobody_listens_after_an_interrupt(monkeypatch):
    """Ctrl-C when a recorder begins to listen: neither the recorder nor the mark of it stays."""
    monkeypatch.setattr(recorder, "_recorders", Interrupted(recorder._recorders))
    with pytest.raises(KeyboardInterrupt), recorder.Recorder("f").listening():
        raise AssertionError("the block does not run")
    assert not recorder.listening()
    assert not recorder.watching


def test_the_mark_of_a_listener_goes_after_an_interrupt(monkeypatch):
    """Ctrl-C after the mark was made."""

    class Marks(list):
        def append(self, mark):
            super().append(mark)
            raise KeyboardInterrupt

    marks = Marks()
    monkeypatch.setattr(recorder, "watching", marks)
    with pytest.raises(KeyboardInterrupt), recorder.Recorder("f").listening():
        raise AssertionError("the block does not run")
    assert not marks
    assert not recorder.listening()


def test_descriptions_are_not_remembered_after_an_interrupt(monkeypatch):
    """A class that changes later is described anew: what was described in an interrupted block is forgotten."""
    memo = descriptions._memo
    monkeypatch.setattr(descriptions, "_memo", Interrupted(memo))
    with pytest.raises(KeyboardInterrupt), descriptions.memoized():
        raise AssertionError("the block does not run")
    assert memo.get() is None
