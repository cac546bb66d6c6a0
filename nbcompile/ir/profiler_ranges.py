"""Ranges of a compiled graph in torch.profiler: the names of its kernels there.

    with of_frame(code) as origin:            while a frame is compiled, or loaded from the store
        ...                                   programs that are loaded here belong to it
        origin.compile_id = "0/0"
    range_.label(origin)                      "0/0.inference.kernel0 add, sin (model.py:3)"

A label begins with the id that the record has for the kernel. Lines in the frame's own file are counted from its first
line, so that they are right for a function that moved in its file since it was stored.

In torch: RECORD_FUNCTION in generated kernels (config.cpp.enable_kernel_profile). Read next:
nbcompile/runtime/program.py
"""

from __future__ import annotations

import contextvars
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import PurePath
from types import CodeType

import torch

from nbcompile.record.profile import COMPILE
from nbcompile.support.context_variables import bound

OWN = ""
"""The file of the frame itself; lines in it are relative."""


@dataclass(slots=True)
class FrameOrigin:
    """The frame that programs were compiled for."""

    file: str = ""
    first_line: int = 0
    compile_id: str = ""
    """Set once it is known: a program is loaded before it has one."""


@dataclass(frozen=True, slots=True)
class ProfilerRange:
    """One kernel, or one call of an operator, as a profiler shows it."""

    name: str
    """``inference.kernel0``."""
    operators: str
    """``add, sin``."""
    lines: tuple[tuple[str, int], ...] = ()
    """Files and lines of the program."""

    def source_lines(self, origin: FrameOrigin) -> tuple[tuple[str, int], ...]:
        """Files and lines as they are in the program now."""
        return tuple(
            (origin.file, origin.first_line + line) if file == OWN else (file, line) for file, line in self.lines
        )

    def label(self, origin: FrameOrigin) -> str:
        """The whole name of the range."""
        name = f"{origin.compile_id}.{self.name}" if origin.compile_id else self.name
        source_lines: dict[str, list[str]] = {}
        for file, line in self.source_lines(origin):
            source_lines.setdefault(PurePath(file).name, []).append(str(line))
        where = "; ".join(f"{file}:{','.join(lines)}" for file, lines in source_lines.items())
        return f"{name} {self.operators}" + (f" ({where})" if where else "")


_origin: contextvars.ContextVar[FrameOrigin | None] = contextvars.ContextVar("nbcompile_profiler_origin", default=None)


@contextmanager
def of_frame(code: CodeType, compile_id: str = "") -> Iterator[FrameOrigin]:
    """Inside, programs are compiled or loaded for a frame."""
    origin = FrameOrigin(code.co_filename, code.co_firstlineno, compile_id)
    with bound(_origin, origin):
        yield origin


def current_origin() -> FrameOrigin:
    """The frame that is being compiled or loaded; an unknown one outside of any."""
    return _origin.get() or FrameOrigin()


def stage_range(name: str) -> AbstractContextManager[object]:
    """The range of a stage of compilation, where a profiler is active."""
    if not torch.autograd._profiler_enabled():  # type: ignore[attr-defined]
        return nullcontext()
    range_: AbstractContextManager[object] = torch._C._profiler._RecordFunctionFast(COMPILE + name)
    return range_
