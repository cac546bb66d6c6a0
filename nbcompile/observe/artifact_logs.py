"""Artifacts of finished frames in torch's logs.

    TORCH_LOGS=output_code python f.py        or torch._logging.set_logs(output_code=True), or nbcompile.set_logs

    V1123 22:10:38 1234 .../artifact_logs.py:71] [0/0] [__output_code] Output code: ...

A frame is printed when it is finished. As long as no log is on, nothing is recorded: a compile asks once whether
anything is wanted, and a call of compiled code asks nothing.

In torch: torch/_logging/_internal.py. Read next: nbcompile/observe/artifacts.py
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence

from nbcompile import torch_internals
from nbcompile.observe import torch_logs
from nbcompile.observe.artifacts import ARTIFACTS, STEPS_WANTED
from nbcompile.record.model import CompiledFrame, Timing
from nbcompile.support.log_names import BY_TORCH, COMPONENTS, LIVE, NOT_HERE
from nbcompile.support.process_state import STATE, Lifetime

_loggers: dict[str, logging.Logger] = STATE.add("observe.artifact_logs._loggers", {}, Lifetime.PROCESS)


class ArtifactLogs:
    """The subscriber that prints what ``TORCH_LOGS`` asks for."""

    def wants_frames(self) -> bool:
        """True if any log of a finished frame is on; what is asked for in vain is reported now, once."""
        _report_unknown()
        return bool(enabled())

    def wants_steps(self) -> bool:
        """True if each instruction of the trace is printed."""
        return not STEPS_WANTED.isdisjoint(enabled())

    def during(self, compile_id: str) -> contextlib.AbstractContextManager[None]:
        """Nothing is needed while a frame is compiled."""
        return contextlib.nullcontext()

    def receive(self, frame: CompiledFrame, timings: Sequence[Timing]) -> None:
        """Print one frame."""
        with _in_frame(frame.id):
            for name in enabled():
                for message in ARTIFACTS[name](frame):
                    _print(name, message)


def enabled() -> list[str]:
    """The artifacts that are on: by name, or by the part of the compiler that they belong to (``+dynamo``)."""
    if not _loggers:
        _loggers.update({name: torch_internals.artifact_logger(name) for name in ARTIFACTS})
    on = {name for name, logger in _loggers.items() if logger.isEnabledFor(logging.DEBUG)}
    for component, names in COMPONENTS.items():
        if torch_internals.is_component_verbose(component):
            on.update(names)
    return sorted(on)


def _report_unknown() -> None:
    for name in torch_internals.artifacts_asked_for():
        if name not in ARTIFACTS and name not in LIVE and name not in BY_TORCH:
            reason = NOT_HERE.get(name, "it is not known here")
            torch_logs.warn_of_output(f"TORCH_LOGS={name} prints nothing of nbcompile: {reason}")


def _print(name: str, message: str) -> None:
    # Past the level of our logger, which is not on when a whole component (+dynamo) is.
    logger = _loggers[name]
    logging.getLogger("nbcompile").handle(
        logger.makeRecord(logger.name, logging.DEBUG, __file__, 0, "%s", (message,), None)
    )


@contextlib.contextmanager
def _in_frame(compile_id: str) -> Iterator[None]:
    """The compile id in the prefix of each line; a frame that was refused by a limit (``3/-``) has none."""
    if not compile_id.replace("/", "").isdigit():
        yield
        return
    with torch_internals.compiling(compile_id):
        yield
