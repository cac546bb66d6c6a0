"""Contexts that are active in the traced program: leaving one, and what it may suppress.

    with lock: y = f(x)     leave(...) calls lock.__exit__ after the block, and forgets the context

In torch: torch/_dynamo/variables/ctx_manager.py (GenericContextWrappingVariable). Read next:
nbcompile/tracing/variables/contexts.py
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from nbcompile.tracing import breaks
from nbcompile.tracing.frame.protocol import FrameInterpreter
from nbcompile.tracing.frame.translator import Translator
from nbcompile.tracing.variables.base import VariableTracker
from nbcompile.tracing.variables.contexts import ExitVariable
from nbcompile.tracing.variables.observed import ObservedException


def leave(
    interpreter: FrameInterpreter,
    frame: Translator,
    exit_function: VariableTracker,
    arguments: Sequence[VariableTracker],
) -> VariableTracker:
    """Exit a ``with`` block, after its last statement or after an exception."""
    assert isinstance(exit_function, ExitVariable)
    left = exit_function.context
    try:
        result = exit_function.call(interpreter, arguments, {})
    except breaks.Unsupported:
        raise  # the block is not left: nothing can resume in the middle of it
    except ObservedException:
        _forget(interpreter, frame, left)
        raise
    _forget(interpreter, frame, left)
    return result


def _forget(interpreter: FrameInterpreter, frame: Translator, left: VariableTracker) -> None:
    frame.contexts = [each for each in frame.contexts if each.manager is not left]
    interpreter.generic_contexts = [each for each in interpreter.generic_contexts if each is not left]


def may_suppress(manager: VariableTracker) -> bool:
    """True if a context may suppress an exception: torch's own contexts and most generator contexts do not."""
    # ``contextlib.suppress`` is the only class of its module that exists to suppress. A context of the user may do so,
    # too: whether it does is known only when its ``__exit__`` returns.
    cls = manager.python_type()
    return cls is contextlib.suppress or cls.__module__.partition(".")[0] not in ("torch", "contextlib")
