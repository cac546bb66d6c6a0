"""A simulation of a later process: the program runs again in a new module, with nothing compiled in memory."""

from __future__ import annotations

import gc
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest

import nbcompile
from nbcompile import api, config
from nbcompile.fast.disk_cache import writer


class Process:
    """One run of a program: its module, and the record of its calls."""

    def __init__(self, source: str, name: str = "warm_program") -> None:
        nbcompile.reset()
        sys.modules.pop(name, None)
        if (
            "torch.library" in source
        ):  # an operator that is collected later would remove the registrations of its successor
            gc.collect()
        self.module = types.ModuleType(name)
        sys.modules[name] = self.module
        exec(compile(source, f"<{name}>", "exec"), vars(self.module))
        self.frames: list[Any] = []

    def call(self, name: str, *arguments: Any, **options: Any) -> Any:
        """Call a function of the program compiled; the caller compares the result."""
        function = getattr(self.module, name)
        frame_recorder = api.new_recorder(name)
        with frame_recorder.listening():
            result = nbcompile.compile(function, **options)(*arguments)
        writer.flush()
        self.frames += frame_recorder.record().frames
        return result

    @property
    def loaded(self) -> list[bool]:
        """For each frame, whether it was loaded from the store."""
        return [frame.cause.startswith("loaded") for frame in self.frames]

    @property
    def reasons(self) -> list[str]:
        """For each frame, whether it was stored, or the reason why not."""
        return [frame.store for frame in self.frames]


@pytest.fixture
def process(tmp_path, monkeypatch) -> Callable[[str], Process]:
    """``process(source)``: a run of a program, with a separate store for the test."""
    kernels = tmp_path / "store"
    monkeypatch.setenv("NBCOMPILE_CACHE_DIR", str(kernels))
    monkeypatch.delenv("NBCOMPILE_FRAMES_DIR", raising=False)
    with config.patch(warm_start=True):
        yield Process
    sys.modules.pop("warm_program", None)
    nbcompile.reset()
