"""The protocol between a frame and its interpreter."""

from __future__ import annotations

from nbcompile.tracing.frame.interpreter import Interpreter
from nbcompile.tracing.frame.protocol import FrameInterpreter
from tests.support.protocols import missing_members


def test_the_interpreter_has_all_that_a_frame_asks_for():
    """The interpreter has each attribute and method of the protocol."""
    assert missing_members(FrameInterpreter, Interpreter) == []
