"""Protocol between a frame and the interpreter that runs it: what its instructions may call.

In torch: the parts of InstructionTranslatorBase (torch/_dynamo/symbolic_convert.py) that all frames of one trace
share. Read next: nbcompile/tracing/frame/interpreter.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import VariableTracker
from nbcompile.tracing.variables.iterators import IteratorVariable

if TYPE_CHECKING:
    from nbcompile.tracing.frame.translator import FrameResult, Translator


class FrameInterpreter(Tracer, Protocol):
    """The interpreter, seen from a frame."""

    frames: list[Translator]
    """The frames that run, outermost first."""
    broken: tuple[Translator, ...]
    """The frames that ran when something could not be traced."""
    generic_contexts: list[VariableTracker]
    """Context managers of user classes that are active: nothing can resume under them."""

    def context_of_raise(self) -> VariableTracker:
        """The exception that is being handled; that of the caller is not realised, and may be None."""

    def before_step(self, frame: Translator) -> None:
        """End the graph here if that was planned."""

    def note_step(self, frame: Translator) -> None:
        """Record that one instruction is about to be traced."""

    def note_inlined(self, frame: Translator) -> None:
        """Record that a call is inlined."""

    def note_generator(self, generator: IteratorVariable) -> None:
        """Remember a generator that was created: one that is not exhausted is closed at the end."""

    def run_frame(self, frame: Translator) -> FrameResult:
        """Run a callee to its end (a generator: to its next yield)."""

    def callee(self) -> str:
        """Function that the user's line calls at which the innermost function is; "" for no call."""

    def send(self, iterator: VariableTracker, value: VariableTracker) -> VariableTracker | None:
        """``iterator.send(value)``; None at its end."""

    def returned_by(self, iterator: VariableTracker) -> VariableTracker:
        """Value that an exhausted generator returned."""

    def leave_context(
        self, frame: Translator, exit_function: VariableTracker, arguments: Sequence[VariableTracker]
    ) -> VariableTracker:
        """The end of a ``with`` block, normal or not."""
