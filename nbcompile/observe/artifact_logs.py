"""Artifacts of finished frames in torch's logs.

    TORCH_LOGS=output_code python f.py        or torch._logging.set_logs(output_code=True), or nbcompile.set_logs

    V1123 22:10:38 1234 .../artifact_logs.py:71] [0/0] [__output_code] Output code: ...

A frame is printed when it is finished. As long as no log is on, nothing is recorded: a compile checks once whether a
log is on, and a call of compiled code checks nothing.

In torch: torch/_logging/_internal.py. Read next: nbcompile/observe/artifacts.py
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence

from nbcompile import torch_internals
from nbcompile.observe import torch_logs
from nbcompile.observe.artifacts import ARTIFACTS, STEP_ARTIFACTS
from nbcompile.observe.component_logs import SUMMARIES
from nbcompile.record.model import CompiledFrame, Timing
from nbcompile.support.log_names import BY_TORCH, COMPONENTS, LIVE, NOT_HERE, TORCHS_COMPONENTS
from nbcompile.support.process_state import STATE, Lifetime

_loggers: dict[str, logging.Logger] = STATE.add("observe.artifact_logs._loggers", {}, Lifetime.PROCESS)


class ArtifactLogs:
    """The subscriber that prints the logs of ``TORCH_LOGS``."""

    def wants_frames(self) -> bool:
        """True if any log of a finished frame is on; logs that are not supported are reported now, once."""
        _report_silent()
        return bool(enabled() or _components())

    def wants_steps(self) -> bool:
        """True if each instruction of the trace is printed."""
        return not STEP_ARTIFACTS.isdisjoint(enabled())

    def during(self, compile_id: str) -> contextlib.AbstractContextManager[None]:
        """No-op: nothing is needed while a frame is compiled."""
        return contextlib.nullcontext()

    def receive(self, frame: CompiledFrame, timings: Sequence[Timing]) -> None:
        """Print one frame."""
        with _in_frame(frame.id):
            for component in _components():
                for message in SUMMARIES[component](frame, timings):
                    _handle(f"nbcompile.{component}", logging.INFO, message)
            for name in enabled():
                for message in ARTIFACTS[name](frame):
                    _print(name, message)


def enabled() -> list[str]:
    """The artifacts that are on: by name, or by the part of the compiler that they belong to (``+dynamo``)."""
    if not _loggers:
        _loggers.update({name: torch_internals.artifact_logger(name) for name in ARTIFACTS})
    on = {name for name, logger in _loggers.items() if logger.isEnabledFor(logging.DEBUG)}
    for component, level in torch_internals.enabled_components().items():
        on.update(COMPONENTS.get(component, ()) if level <= logging.DEBUG else ())
    return sorted(on)


def _components() -> list[str]:
    """The parts of the compiler of which a line about each frame is printed."""
    levels = torch_internals.enabled_components()
    return [name for name in SUMMARIES if levels.get(name, logging.ERROR) <= logging.INFO]


def _report_silent() -> None:
    """Warn once about logs that are not supported, and about those that torch itself prints, which may be empty."""
    for name in torch_internals.enabled_artifacts():
        if name in BY_TORCH:
            torch_logs.warn_of_output(
                f"TORCH_LOGS={name} is printed by torch itself, when it happens: {BY_TORCH[name]}"
            )
        elif name not in ARTIFACTS and name not in LIVE:
            reason = NOT_HERE.get(name, "it is not known here")
            torch_logs.warn_of_output(f"TORCH_LOGS={name} prints nothing of nbcompile: {reason}")
    for name, level in torch_internals.enabled_components(with_parts=False).items():
        if name in TORCHS_COMPONENTS and level <= logging.INFO:
            torch_logs.warn_of_output(f"TORCH_LOGS={name} prints nothing of nbcompile: {TORCHS_COMPONENTS[name]}")


def _print(name: str, message: str) -> None:
    _handle(_loggers[name].name, logging.DEBUG, message)


def _handle(logger: str, level: int, message: str) -> None:
    # Bypasses the level of nbcompile's logger, which is not enabled by a whole component (+dynamo).
    ours = logging.getLogger("nbcompile")
    ours.handle(ours.makeRecord(logger, level, __file__, 0, "%s", (message,), None))


@contextlib.contextmanager
def _in_frame(compile_id: str) -> Iterator[None]:
    """The compile id in the prefix of each line; a frame that a limit rejected (``3/-``) has none."""
    if not compile_id.replace("/", "").isdigit():
        yield
        return
    with torch_internals.compiling(compile_id):
        yield
