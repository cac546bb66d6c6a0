"""A program, run in this process as ``python train.py`` runs it.

    run("train.py", ["--epochs", "3"])     its module is __main__, sys.argv ["train.py", "--epochs", "3"]

Programs read in ``__package__`` whether they are run or imported, and find their files by ``__file__`` and the first
entry of ``sys.path``. So these are what the command ``python`` sets, which :func:`runpy.run_path` does not do for
``__package__`` and ``sys.argv``. It runs the other kinds of programs: archives, and files without source.

In torch: torch/distributed/run.py. Read next: nbcompile/tools/commands/run.py
"""

from __future__ import annotations

import builtins
import importlib.machinery
import io
import runpy
import sys
import threading
import zipfile
from collections.abc import Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

OWN_FILES = (__file__, runpy.__file__, "<frozen runpy>")


def run(path: str, arguments: Sequence[str]) -> None:
    """Run a program, and wait for its threads; sets ``sys.argv`` and the first entry of ``sys.path``, and leaves them.

    Args:
        path: the program's path as the user wrote it.
        arguments: its arguments.

    Raises:
        BaseException: whatever the program raises, SystemExit included.
    """
    file = str(Path(path).absolute())
    sys.argv = [path, *arguments]
    if not sys.flags.safe_path:  # python -P, under which no folder of a program is on the path
        sys.path[0] = str(Path(path).resolve().parent)
    prior = threading.enumerate()
    try:
        _run_as_main(file)
    except SystemExit:
        _wait_for_threads(prior)
        raise
    _wait_for_threads(prior)


def _run_as_main(file: str) -> None:
    if file.endswith(".pyc") or zipfile.is_zipfile(file):
        runpy.run_path(file, run_name="__main__")
        return
    with io.open_code(file) as source:
        code = compile(source.read(), file, "exec", dont_inherit=True)
    with _main_module(file) as module:
        exec(code, vars(module))


def _wait_for_threads(prior: Sequence[threading.Thread]) -> None:
    """Wait as Python does when the main thread has ended: for each thread that is no daemon, and those it starts."""
    while own := [thread for thread in threading.enumerate() if not thread.daemon and thread not in prior]:
        for thread in own:
            thread.join()


@contextmanager
def _main_module(file: str) -> Iterator[ModuleType]:
    """A new ``__main__`` for the duration of a block: pickle finds the classes of a program there."""
    module, prior = ModuleType("__main__"), sys.modules["__main__"]
    loader = importlib.machinery.SourceFileLoader("__main__", file)
    vars(module).update(__annotations__={}, __builtins__=builtins, __file__=file, __cached__=None, __loader__=loader)
    sys.modules["__main__"] = module
    try:
        yield module
    finally:
        sys.modules["__main__"] = prior


def without_own_frames(frames: TracebackType | None) -> TracebackType | None:
    """The traceback of an exception of a program, from the program's first frame on; None if it has no frame of it."""
    while frames is not None and frames.tb_frame.f_code.co_filename in OWN_FILES:
        frames = frames.tb_next
    return frames
