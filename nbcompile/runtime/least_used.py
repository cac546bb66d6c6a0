"""Size limit of a cache on disk: least recently used entries are removed first.

    is_due(count)                  True now and then: to look at all files takes long
    shrink(entries, limit)         entries are removed, and with them all their files, until the others fit

Both stores use it: kernels, and compiled functions. An entry is used when it is read, which its time of change says.

In torch: nothing; its stores grow. Read next: nbcompile/runtime/store.py
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

EVERY = 32
"""Number of added entries after which the size of a store is looked at."""
MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """Files that are of use together only."""

    files: tuple[Path, ...]
    """Files in the order in which they are removed: without the first of them the entry counts as absent."""
    size: int
    used: float
    """Time of the last use, in seconds."""


def is_due(count: int) -> bool:
    """True for the first added entry of a process, and then once in a while."""
    return count % EVERY == 1


def entry(files: Iterable[Path]) -> StoredEntry:
    """An entry of those files that are there; another process may have removed some."""
    found, size, used = [], 0, 0.0
    for file in files:
        with contextlib.suppress(OSError):
            status = file.lstat()
            found.append(file)
            size, used = size + status.st_size, max(used, status.st_mtime)
    return StoredEntry(tuple(found), size, used)


def touch(path: Path) -> None:
    """Note that an entry was used now, by the time of one of its files."""
    with contextlib.suppress(OSError):
        os.utime(path)


def shrink(entries: Iterable[StoredEntry], limit: int) -> list[StoredEntry]:
    """Remove the least recently used entries, until the rest is within a limit in bytes.

    Two processes may do so at once, and one may be killed meanwhile: each file is removed by itself.
    """
    waiting = sorted(entries, key=lambda one: one.used)
    excess, removed = sum(one.size for one in waiting) - limit, []
    for one in waiting:
        if excess <= 0:
            break
        # Another process that shrinks the store now removes the same
        # entries: a file that does not exist any more counts as removed.
        for file in one.files:
            with contextlib.suppress(OSError):
                file.unlink()
        excess -= one.size
        removed.append(one)
    return removed
