"""Context variables that a block binds are restored afterwards, also after Ctrl-C at any point."""

from contextvars import ContextVar

import pytest

from nbcompile.fast.disk_cache import descriptions
from nbcompile.record import recorder
from nbcompile.support.context_variables import bound


class Interrupted:
    """A variable whose first change raises KeyboardInterrupt."""

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
    """The variable has its former value afterwards, after an exception, too."""
    variable = ContextVar("variable", default=1)
    with pytest.raises(ValueError, match="of the block"), bound(variable, 2):
        assert variable.get() == 2
        raise ValueError("of the block")
    assert variable.get() == 1


def test_an_interrupt_right_after_it_was_set():
    """An interrupt before the block begins leaves nothing behind."""
    variable = ContextVar("variable", default=1)
    with pytest.raises(KeyboardInterrupt), bound(Interrupted(variable), 2):
        raise AssertionError("the block does not run")
    assert variable.get() == 1


def test_an_interrupt_removes_listeners(monkeypatch):
    """After Ctrl-C during ``listening``, neither the recorder nor its mark is left."""
    monkeypatch.setattr(recorder, "_recorders", Interrupted(recorder._recorders))
    with pytest.raises(KeyboardInterrupt), recorder.Recorder("f").listening():
        raise AssertionError("the block does not run")
    assert not recorder.listening()
    assert not recorder.watching


def test_the_mark_of_a_listener_goes_after_an_interrupt(monkeypatch):
    """After Ctrl-C right after the mark was added, the mark is removed."""

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
    """The memo of an interrupted block is dropped, so that a class that changes later is described again."""
    memo = descriptions._memo
    monkeypatch.setattr(descriptions, "_memo", Interrupted(memo))
    with pytest.raises(KeyboardInterrupt), descriptions.memoized():
        raise AssertionError("the block does not run")
    assert memo.get() is None
