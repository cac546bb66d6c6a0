"""torch's own loggers.

In torch: torch/_logging/_internal.py.
Read next: nbcompile/observe/torch_logs.py
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch._guards
import torch._logging._internal
import torch._logging.structured


def artifact_logger(artifact: str) -> logging.Logger:
    """The logger ``nbcompile.__<artifact>``: a log of torch's, which TORCH_LOGS and ``set_logs`` switch on."""
    logs = torch._logging._internal
    if "nbcompile" not in logs.log_registry.log_alias_to_log_qnames:
        # A log of torch's by registration: TORCH_LOGS="+nbcompile" works like "+dynamo".
        ours = logging.getLogger("nbcompile")
        logs.log_registry.register_log("nbcompile", "nbcompile")
        # The same setup as torch's for its own logs when it was imported.
        ours.setLevel(logging.WARNING)
        ours.propagate = False
        logs._setup_handlers(logging.StreamHandler, ours)
        if file := os.environ.get(logs.LOG_OUT_ENV_VAR):
            logs._setup_handlers(lambda: logging.FileHandler(file), ours)
    return logs.getArtifactLogger("nbcompile", artifact)


def has_trace_folder() -> bool:
    """True if TORCH_TRACE names a folder that structured records are written into."""
    return any(getattr(handler, "root_dir", None) for handler in logging.getLogger("torch.__trace").handlers)


def is_trace_open() -> bool:
    """True if a record was written: the handler has its file."""
    return any(getattr(handler, "stream", None) for handler in logging.getLogger("torch.__trace").handlers)


def trace(name: str, metadata: dict[str, Any], payload: str | None) -> None:
    """Write one structured record; an error of the folder ends the trace, with one line."""
    try:
        torch._logging._internal.trace_structured(name, lambda: metadata, payload_fn=lambda: payload)
    except OSError as error:
        give_up_trace()
        logging.getLogger("nbcompile").warning("TORCH_TRACE: nothing is written: %s", error)


def intern_string(text: str) -> int:
    """The number that replaces a text in the records of a trace."""
    return int(torch._logging.structured.intern_string(text))


def give_up_trace() -> None:
    """Write no structured trace from here on: its folder cannot be written."""
    trace = logging.getLogger("torch.__trace")
    for handler in list(trace.handlers):
        trace.removeHandler(handler)


def set_logs(**logs: Any) -> None:
    """``torch._logging.set_logs``."""
    torch._logging._internal.set_logs(**logs)


def choose_logs(text: str) -> None:
    """Set the logs in the language of TORCH_LOGS, with all its names: ``graph_code,+dynamo,-aot``; "" switches all off.

    Raises:
        ValueError: a name that torch does not know.
    """
    logs = torch._logging._internal
    unknown = [word for word in filter(None, map(str.strip, text.split(","))) if not _is_log(word.lstrip("+-"))]
    if unknown:
        raise ValueError(f"torch has no log {', '.join(unknown)}; %compile_config log=help lists the names")
    variable, before = logs.LOG_ENV_VAR, os.environ.get(logs.LOG_ENV_VAR)
    os.environ[variable] = text  # set_logs knows fewer names, and yields to the variable
    try:
        logs.log_state.clear()
        if not text.strip():
            del os.environ[variable]
        logs._init_logs()
    finally:
        os.environ.pop(variable, None)
        if before is not None:
            os.environ[variable] = before


def _is_log(name: str) -> bool:
    logs = torch._logging._internal
    if name == "all" or logs.log_registry.is_log(name) or logs.log_registry.is_artifact(name):
        return True
    try:
        return bool(logs._is_valid_module(name))
    except (ImportError, ValueError):
        return False


@contextmanager
def compiling(compile_id: str) -> Iterator[None]:
    """Let torch's logs have the compile id of a frame in the block."""
    frame, _, entry = compile_id.partition("/")
    context = torch._guards.CompileContext(torch._guards.CompileId(frame_id=int(frame), frame_compile_id=int(entry)))
    with torch._guards.compile_context(context):
        yield


def enabled_artifacts() -> tuple[str, ...]:
    """The artifacts that TORCH_LOGS or ``set_logs`` switched on, by torch's names."""
    return tuple(sorted(torch._logging._internal.log_state.artifact_names))


def enabled_components(*, with_parts: bool = True) -> dict[str, int]:
    """The parts of torch that TORCH_LOGS or ``set_logs`` switched on (``dynamo``, ``+aot``), with their levels.

    Args:
        with_parts: also those that another one contains, as ``dynamo`` contains ``dynamic``; ``all`` contains all.
    """
    logs = torch._logging._internal
    levels, known = logs.log_state.log_qname_to_level, logs.log_registry.log_alias_to_log_qnames
    enabled = {name: modules for name, modules in known.items() if modules and all(map(levels.__contains__, modules))}
    if "torch" in enabled and with_parts:  # TORCH_LOGS=all
        enabled = {**known, **enabled}
    if not with_parts:
        enabled = {
            name: modules
            for name, modules in enabled.items()
            if name != "torch" and not any(set(modules) < set(others) for others in enabled.values())
        }
    return {name: _level(levels.get(modules[0], levels.get("torch"))) for name, modules in enabled.items()}


def _level(level: Any) -> int:
    return int(level if isinstance(level, int) else logging.getLevelNamesMapping()[str(level)])
