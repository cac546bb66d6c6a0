"""The protocol between values and the interpreter."""

from __future__ import annotations

from nbcompile.tracing.effects.reconstruction import Reconstruction
from nbcompile.tracing.frame.interpreter import Interpreter
from nbcompile.tracing.protocol import Reconstructor, Tracer
from tests.support.protocols import missing_members


def test_the_interpreter_has_all_that_values_ask_for():
    """The interpreter has each attribute and method of the protocol."""
    assert missing_members(Tracer, Interpreter) == []


def test_the_reconstruction_has_all_that_recipes_ask_for():
    """The reconstruction has each attribute and method of the protocol."""
    assert missing_members(Reconstructor, Reconstruction) == []
