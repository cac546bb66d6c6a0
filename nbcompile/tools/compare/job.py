"""Messages to and from a process that runs a program with one compiler.

    data = pickle_job(Job(CallJob(f, (((x,), {}),)), process_settings()))    by value: closures, cells of a notebook
    read_job(folder)                                                         the same, in the other process

Functions and classes that a process can import are pickled by reference; those of a notebook, of ``__main__`` and
closures are pickled by value, which needs cloudpickle. The text of cells is sent, too: both show source lines.

In torch: torch/_inductor/compile_worker sends work to processes in the same way. Read next:
nbcompile/tools/compare/child.py
"""

from __future__ import annotations

import importlib
import io
import linecache
import os
import pickle
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

JOB, RESULT, RECORD = "job.pickle", "result.pickle", "record.json"
MAX_CELL_CHARACTERS = 4 << 20
"""Maximum number of characters of notebook cells that are sent."""


@dataclass(frozen=True, slots=True)
class CallJob:
    """Calls of one function or module."""

    function: Callable[..., Any]
    calls: tuple[tuple[tuple[Any, ...], dict[str, Any]], ...]
    """Positional and keyword arguments of each."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Arguments of ``compile``."""


@dataclass(frozen=True, slots=True)
class CellJob:
    """A notebook cell; ``wrapper`` is the name that its definitions pass through (jupyter/wrapping.py)."""

    codes: tuple[bytes, ...]
    """Marshalled code objects, one a statement."""
    namespace: dict[str, Any]
    wrapper: str
    wrap: Callable[..., Any]
    """The function that creates the wrapper from a function that compiles."""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScriptJob:
    """A program with its arguments."""

    path: str
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """A program to run, and settings of the process."""

    work: CallJob | CellJob | ScriptJob
    process_settings: dict[str, Any]


class CannotSendError(TypeError):
    """A value cannot be pickled; the message says which, and what to do."""


_MATMULS: tuple[Any, ...] = (torch.backends.cuda.matmul, torch.backends.mkldnn.matmul)  # type: ignore[attr-defined]


def _matmul_precision() -> str | None:
    """The precision of all libraries; None where the user set that of one of them, and torch's function raises."""
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return None


def process_settings() -> dict[str, Any]:
    """Settings of this process on which results and graphs depend."""
    return {
        "path": list(sys.path), "folder": str(Path.cwd()), "default_dtype": torch.get_default_dtype(),
        "threads": torch.get_num_threads(), "grad": torch.is_grad_enabled(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "matmul_precision": _matmul_precision(),
        "precisions": [each.fp32_precision for each in _MATMULS], "texts": _cell_texts(),
    }  # fmt: skip


def apply_settings(settings: Mapping[str, Any]) -> None:
    """Apply the settings in the other process."""
    sys.path[:] = settings["path"]
    os.chdir(settings["folder"])
    torch.set_default_dtype(settings["default_dtype"])
    torch.set_num_threads(settings["threads"])
    torch.set_grad_enabled(settings["grad"])
    torch.use_deterministic_algorithms(settings["deterministic"])
    if settings["matmul_precision"] is not None:
        torch.set_float32_matmul_precision(settings["matmul_precision"])
    for matmul, precision in zip(_MATMULS, settings["precisions"], strict=True):
        if matmul.fp32_precision != precision:
            matmul.fp32_precision = precision
    for name, lines in settings["texts"].items():
        linecache.cache[name] = (sum(map(len, lines)), None, lines, name)


def _cell_texts() -> dict[str, list[str]]:
    """Lines of the sources that are no files: notebook cells, newest first, up to a limit."""
    found: dict[str, list[str]] = {}
    size = 0
    # Garbage collection may remove entries: copy before iterating.
    for name, entry in reversed(linecache.cache.copy().items()):
        # An entry of one element is a loader that was not called yet.
        if len(entry) == 4 and not Path(name).exists():
            size += sum(map(len, entry[2]))
            if size > MAX_CELL_CHARACTERS:
                break
            found[name] = list(entry[2])
    return found


def pickle_job(job: object) -> bytes:
    """Pickle a job, or a value of one.

    Raises:
        CannotSendError: a value cannot be pickled.
    """
    try:
        pickler: Any = importlib.import_module("cloudpickle")
    except ImportError:
        pickler = pickle
    try:
        data: bytes = pickler.dumps(job)
    except Exception as error:
        raise CannotSendError(_cannot_send(error, by_value=pickler is not pickle)) from error
    # ``pickle`` writes a function of ``__main__`` by reference, but the other process has another ``__main__``: reading
    # the bytes once detects that here.
    if pickler is pickle:
        _ByName(io.BytesIO(data)).load()
    return data


class _ByName(pickle.Unpickler):
    """Unpickler that raises an error for values that another process cannot import."""

    def find_class(self, module: str, name: str) -> Any:
        if module == "__main__":
            raise CannotSendError(_cannot_send(f"{name} is defined in a notebook or in __main__", by_value=False))
        return super().find_class(module, name)


def _cannot_send(reason: object, *, by_value: bool) -> str:
    text = f"the function or its arguments cannot be sent to another process: {reason}. "
    if not by_value:
        return text + (
            "Functions of a notebook and closures are pickled by value with cloudpickle: "
            "pip install 'nbcompile[compare]'"
        )
    return text + (
        "Open files, locks, generators, running threads and objects of C libraries without pickle support cannot "
        "be sent: make them inside of the function, or compare a script (python -m nbcompile compare script.py)"
    )


def read_job(folder: Path) -> Job:
    """Read the job."""
    found = pickle.loads((folder / JOB).read_bytes())  # noqa: S301 - written by our own parent process
    assert isinstance(found, Job)
    return found
