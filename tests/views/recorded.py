"""Records that a compile makes, once in a process: of a program in a cell, run on the CPU in a folder of its own.

recorded(SOURCE, "f", backend="eager")        what the compiler says of f(ones(8))
"""

from __future__ import annotations

import contextlib
import functools
import linecache
import tempfile
from collections.abc import Callable
from typing import Any

import torch

import nbcompile
from nbcompile import api
from nbcompile.record.model import Record
from tests.views.sample_records import FILE


@functools.cache
def recorded(source: str, function: str, *more: object, **options: Any) -> Record:
    """The record of a call with a tensor of eight ones, and more arguments."""
    linecache.cache[FILE] = (len(source), None, source.splitlines(keepends=True), FILE)
    cell: dict[str, Any] = {"torch": torch, "nbcompile": nbcompile, "__name__": "cell"}
    exec(compile(source, FILE, "exec"), cell)
    nbcompile.reset()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        record = nbcompile.explain(cell[function], **options)(torch.ones(8), *more).record
    nbcompile.reset()
    return record


def recorded_calls(source: str, function: str, calls: Callable[[dict[str, Any]], list[tuple[object, ...]]]) -> Record:
    """The record of several calls of a function, which ``calls`` makes of the cell's names."""
    linecache.cache[FILE] = (len(source), None, source.splitlines(keepends=True), FILE)
    cell: dict[str, Any] = {"torch": torch, "__name__": "cell"}
    exec(compile(source, FILE, "exec"), cell)
    nbcompile.reset()
    compiled, frame_recorder = nbcompile.compile(cell[function], backend="eager"), api.new_recorder(function)
    with api.listening(frame_recorder):
        for arguments in calls(cell):
            compiled(*arguments)
    nbcompile.reset()
    return frame_recorder.record()
