"""``nbcompile.report(path)``: everything that a program compiles, as one file that opens anywhere.

    with nbcompile.report("out.html"):       what is compiled inside of the block
        train()

    nbcompile.report("out.html")             from here to the end of the program
    python -m nbcompile script.py --html out.html        the same for a program that is not changed

In torch: TORCH_TRACE writes a log, tlparse makes pages of it. Read next: nbcompile/views/report.py
"""

from __future__ import annotations

import atexit
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from nbcompile import api
from nbcompile.record.model import Record
from nbcompile.support import lazy_import

if TYPE_CHECKING:
    from nbcompile.views import report as pages
else:
    pages = lazy_import.module("nbcompile.views.report")


class Report:
    """Recorder of everything that is compiled from its creation on; ``report(path)`` creates one."""

    def __init__(self, path: str | Path, title: str = "") -> None:
        self.path = Path(path).absolute()  # the program may change the working directory
        self._frame_recorder = api.new_recorder(title or self.path.stem)
        self._listening = ExitStack()
        self._listening.enter_context(self._frame_recorder.listening(threads="all"))
        atexit.register(self.close)

    @property
    def record(self) -> Record:
        """The record so far, as data."""
        return self._frame_recorder.record()

    def close(self) -> None:
        """Stop recording and write the file; a second call does nothing."""
        atexit.unregister(self.close)
        if self._listening is not _CLOSED:
            self._listening.close()
            self._listening = _CLOSED
            self.path.write_text(pages.of_record(self.record), encoding="utf-8")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


_CLOSED = ExitStack()


def report(path: str | Path, title: str = "") -> Report:
    """Record from here on, and write one self-contained HTML file.

    Args:
        path: the file. Its folder has to exist.
        title: the title of the page; "": the file's name.

    Returns:
        A context manager: the file is written at the end of its block, or else of the program.

    Raises:
        FileNotFoundError: there is no such folder: raised now, and not after hours of training.
    """
    folder = Path(path).absolute().parent
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder} to write the report to")
    return Report(path, title)
