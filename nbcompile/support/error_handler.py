"""Context managers that catch an error of their block and keep nothing of it alive.

    with ErrorHandler(ValueError, print):
        int("?")                             prints the error; the block ends

In torch: nothing. Read next: nbcompile/fast/disk_cache/entry.py
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn

Classes = type[BaseException] | tuple[type[BaseException], ...]


# Not generators with ``contextlib.contextmanager``: from Python 3.12 on the frame of a generator that catches an error
# refers to the frame of contextlib, which has the error, whose traceback has the frame of the generator. This cycle
# keeps all variables of the traced frames alive, arguments of the program among them, until the collector runs.
class ErrorHandler:
    """Calls a function with an error of the block, which then ends without it."""

    def __init__(self, classes: Classes, handle: Callable[[Any], None]) -> None:
        self.classes, self.handle = classes, handle

    def __enter__(self) -> None:
        return

    def __exit__(
        self, cls: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if not isinstance(error, self.classes):
            return False
        self.handle(error)
        return True


class ErrorReplacement:
    """Calls a function with an error of the block; it raises another one."""

    def __init__(self, classes: Classes, replace: Callable[[Any], NoReturn], *, excluded: Classes = ()) -> None:
        self.classes, self.excluded, self.replace = classes, excluded, replace

    def __enter__(self) -> None:
        return

    def __exit__(
        self, cls: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, self.classes) and not isinstance(error, self.excluded):
            self.replace(error)
