"""Links between frames: the residual program that called a frame, and the frame that a resume function continues.

    f  "0/0"  ->  torch_dynamo_resume_in_f_at_3  "1/0", called from "0/0", continues with "0/0"

In torch: nothing; TORCH_LOGS distinguishes frames only by their ids. Read next: nbcompile/driver/stages.py
"""

from __future__ import annotations

import sys
from types import CodeType

from nbcompile.rewriting.residual import Residual
from nbcompile.support.process_state import STATE, Lifetime
from nbcompile.support.weak_identity_dict import WeakIdentityDict

_resumed_by: WeakIdentityDict[CodeType, tuple[str, int]] = STATE.add(
    "recording.frame_links._resumed_by", WeakIdentityDict(), Lifetime.OWNER
)
"""The code of each resume function: the compile id of the frame that it resumes, and which of its resume functions
it is."""
_residuals: WeakIdentityDict[CodeType, str] = STATE.add(
    "recording.frame_links._residuals", WeakIdentityDict(), Lifetime.OWNER
)
"""The code of each residual program, and its compile id."""


def note(residual: Residual, compile_id: str) -> None:
    """Remember a residual program and the resume functions that it calls."""
    _residuals[residual.code] = compile_id
    for index, code in enumerate(residual.resume_codes):
        _resumed_by[code] = (compile_id, index)


def resumes(code: CodeType) -> str:
    """The compile id of the frame that this resume function continues with; "" if it is none."""
    return _resumed_by.get(code, ("", 0))[0]


def resume_index(code: CodeType) -> int:
    """The index of this resume function among those of its frame."""
    return _resumed_by.get(code, ("", 0))[1]


def calling_frame() -> str:
    """The compile id of the residual program that is running right now, "" if none is."""
    # The chain of the Python frames that are running, from the innermost on.
    frame = sys._getframe()
    while frame is not None:
        compile_id = _residuals.get(frame.f_code, "")
        if compile_id:
            return compile_id
        frame = frame.f_back  # type: ignore[assignment]
    return ""
