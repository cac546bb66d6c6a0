"""Warnings at the line of the user's program that was running, not at a line of the compiler.

    users_line.warn("torch._dynamo hit config.recompile_limit (2)", errors.RecompileLimitWarning)
    train.py:7: RecompileLimitWarning: ...         the call in train.py, however deep the compiler is below it

In torch: nothing; its warnings name lines of torch. Read next: nbcompile/driver/fallback.py
"""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path
from types import FrameType

import torch

LIBRARIES = tuple(f"{folder}{os.sep}" for folder in (Path(__file__).parents[1], Path(torch.__file__).parent))
"""Folders whose files are not the user's."""


def warn(message: str | Warning, category: type[Warning] | None = None) -> None:
    """Warn at the innermost line that is neither nbcompile's nor torch's; at the caller's if there is none.

    Args:
        message: the text, or a warning.
        category: class of the warning; None if the message is one.
    """
    warnings.warn(message, category, stacklevel=_stack_level())


def _stack_level() -> int:
    """The level of the user's frame, for a call of ``warnings.warn`` in the caller of this function."""
    frame: FrameType | None = sys._getframe(2)
    level = 2
    while frame is not None:
        if not frame.f_code.co_filename.startswith(LIBRARIES):
            return level
        frame, level = frame.f_back, level + 1
    return 2
