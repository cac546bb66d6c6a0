"""torch's own loggers.

In torch: torch/_logging/_internal.py.
Read next: nbcompile/logs.py
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

# The frame hook (PEP 523) and the guard tree live in torch's C extension.


def artifact_logger(artifact: str) -> logging.Logger:
    """The logger ``nbcompile.__<artifact>``: a log of torch's, which TORCH_LOGS and ``set_logs`` switch on."""
    logs = torch._logging._internal
    if "nbcompile" not in logs.log_registry.log_alias_to_log_qnames:
        ours = logging.getLogger("nbcompile")
        logs.log_registry.register_log("nbcompile", "nbcompile")
        # What torch did for its own logs when it was imported.
        ours.setLevel(logging.WARNING)
        ours.propagate = False
        logs._setup_handlers(logging.StreamHandler, ours)
        if file := os.environ.get(logs.LOG_OUT_ENV_VAR):
            logs._setup_handlers(lambda: logging.FileHandler(file), ours)
    return logs.getArtifactLogger("nbcompile", artifact)


def set_logs(**logs: Any) -> None:
    """``torch._logging.set_logs``."""
    torch._logging._internal.set_logs(**logs)


@contextmanager
def compiling(compile_id: str) -> Iterator[None]:
    """Inside, torch's logs say which frame they are about."""
    frame, _, entry = compile_id.partition("/")
    context = torch._guards.CompileContext(torch._guards.CompileId(frame_id=int(frame), frame_compile_id=int(entry)))
    with torch._guards.compile_context(context):
        yield
