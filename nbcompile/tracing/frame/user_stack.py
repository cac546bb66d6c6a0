"""The frames of a trace as the user's stack: the call that a line makes, and the names of tensors.

    y = g(x)     callee: "g"     names: {sin: "y"}

In torch: torch/_dynamo/symbolic_convert.py (frame_summary). Read next: step_description.py
"""

from __future__ import annotations

from collections.abc import Sequence

import torch.fx

from nbcompile.record.model import StackLine
from nbcompile.tracing.frame import callees
from nbcompile.tracing.frame.translator import Translator


def stack(frames: Sequence[Translator]) -> tuple[StackLine, ...]:
    """The user's stack, outermost first; our own polyfills are left out."""
    if not frames:
        return ()
    # ``callers`` was set when the frame began to run: it holds the lines of all frames below, so one frame is enough.
    top = frames[-1]
    return top.callers if top.is_polyfill else (*top.callers, top.stack_line())


def callee(frames: Sequence[Translator]) -> str:
    """Source text of the function that the current line of the innermost frame calls; "" if it has no call."""
    # A polyfill is one call in C to the program: the user's line is that of the frame that called the polyfill.
    frame = next((each for each in reversed(frames) if not each.is_polyfill), None)
    return callees.callee(frame.code, frame.view.instructions, frame.current) if frame is not None else ""


def names(frames: Sequence[Translator]) -> dict[torch.fx.Node, str]:
    """Names of tensors in the user's functions, the outermost function's name first."""
    names: dict[torch.fx.Node, str] = {}
    for frame in frames:
        for name, value in frame.locals.items():
            # A lazy tracker is not realised here: describing a failure must not add guards.
            node = getattr(getattr(value, "realised", value), "node", None)
            if isinstance(node, torch.fx.Node) and not frame.is_polyfill:
                names.setdefault(node, name)  # the first name wins: the outermost frame's
    return names
