"""The state of function modes and of ``__torch_function__`` at a point of the trace."""

import pytest
import torch
from torch.overrides import TorchFunctionMode

from nbcompile.tracing.graph.override_state import OverrideState


def test_the_mode_that_is_asked_is_the_last_one():
    """The innermost mode answers first; while it runs, the next one is active, and both are restored afterwards."""
    state = OverrideState(["outer", "inner"])
    with state.below_mode() as mode:
        assert mode == "inner"
        assert state.modes == ["outer"]
        with pytest.raises(KeyError), state.below_mode() as mode:
            assert (mode, state.in_mode()) == ("outer", False)
            raise KeyError
    assert state.modes == ["outer", "inner"]
    assert state.around == ("outer", "inner")


def test_classes_are_not_asked_within_the_block():
    """Blocks can be nested: the end of the inner one changes nothing."""
    state = OverrideState([])
    assert state.classes_enabled
    with state.without_classes():
        with state.without_classes():
            assert not state.classes_enabled
        assert not state.classes_enabled
    assert state.classes_enabled


def test_it_begins_as_the_process_is():
    """The initial state depends on torch's two switches: one for classes, one for classes and modes."""
    with torch._C.DisableTorchFunctionSubclass():
        state = OverrideState(["mode"])
        assert (state.classes_enabled, state.in_mode()) == (False, True)
    with torch._C.DisableTorchFunction():
        state = OverrideState(["mode"])
        assert (state.classes_enabled, state.in_mode()) == (False, False)


def test_a_state_without_modes_asks_none():
    """A state without modes is in no mode, whatever the process has."""
    assert not OverrideState([]).in_mode()
    with TorchFunctionMode():
        assert OverrideState([object()]).in_mode()
