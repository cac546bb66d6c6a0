"""Entries on disk, between processes.

    <cache>/frames/9f2c.../1b77....json      what one compile wrote: guards, program, kernels' texts
    <cache>/frames/9f2c.../1b77....page      the record that was shown

A folder holds the entries of one key (one function, one way to compile it), the one that was used last first. A
file is a checksum and JSON, written under a name of its own and renamed to its final name: complete or absent, whatever
is killed when. What is damaged or truncated is passed over with one warning, and thrown away; what cannot be read
for a reason of the process (no file descriptor or memory is left, the stack is full) is passed over and stays. When
all entries together grow beyond the limit, those that were not used for longest go; before them, what killed
processes left.

In torch: torch/_inductor/codecache.py (FxGraphCache). Read next: nbcompile/fast/disk_cache/entry.py
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nbcompile import config, errors
from nbcompile.runtime import least_used, store
from nbcompile.support import users_line
from nbcompile.support.process_state import STATE, Lifetime

VARIABLE = "NBCOMPILE_FRAMES_DIR"
ENTRIES_OF_ONE_KEY = 16

_OF_THE_PROCESS = frozenset(
    (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EACCES, errno.EPERM, errno.EINTR, errno.EAGAIN, errno.EIO)
)
"""Errors that say nothing about what is in a file: no descriptor is left, no memory, no permission. The file stays."""

_added = STATE.add("fast.disk_cache.storage._added", [0], Lifetime.PROCESS)
_written: set[tuple[int, str]] = STATE.add("fast.disk_cache.storage._written", set(), Lifetime.PROCESS)
"""The entries that this process wrote, by process (a fork inherits the set) and name."""
_used: set[Path] = STATE.add("fast.disk_cache.storage._used", set(), Lifetime.PROCESS)
"""The entries that this process has loaded or written."""
_warned: set[str] = STATE.add("fast.disk_cache.storage._warned", set(), Lifetime.PROCESS)


def directory() -> Path:
    """The folder of all entries: $NBCOMPILE_FRAMES_DIR, if it is safe, else the one next to the kernels."""
    chosen = os.environ.get(VARIABLE)
    return store.safe(Path(chosen).expanduser()) if chosen else store.directory() / "frames"


def folder(key: str) -> Path:
    """The folder of the entries of a key."""
    return directory() / key


def entries(key: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The entries of a key, last used first; damaged ones are passed over."""
    for path in _by_age(folder(key), "*.json"):
        content = read(path)
        if content is not None:
            yield path, content


def read(path: Path) -> dict[str, Any] | None:
    """The contents of a file; None, and a warning, if it is damaged, or if this process cannot read it now."""
    try:
        whole = store.read(path, store.LARGEST)
        checksum, _, text = whole.partition(b"\n")
        content = _parsed(text) if _checksum(path, text) == checksum else None
    except FileNotFoundError:
        return None
    # An error of the process (no descriptor, no permission, no memory, no room on the stack) says nothing about
    # the file; any other one counts as damage.
    except OSError as error:
        if error.errno in _OF_THE_PROCESS:
            _unreadable(path, os.strerror(error.errno))
            return None
        content = None
    except ValueError:
        content = None
    except MemoryError:
        _unreadable(path, os.strerror(errno.ENOMEM))
        return None
    except RecursionError:  # of this call, which came near the limit before it
        _unreadable(path, "the call is too deep for the recursion limit")
        return None
    if content is None:
        warn("damaged", f"{path} is damaged: it is not used, and what it held is compiled again")
        with contextlib.suppress(OSError, ValueError):
            path.unlink()
    return content


def _unreadable(path: Path, reason: str) -> None:
    warn("unreadable", f"{path} is not used in this process: {reason}")


def _parsed(text: bytes) -> dict[str, Any] | None:
    content = json.loads(text)
    return content if isinstance(content, dict) else None


def _checksum(path: Path, text: bytes) -> bytes:
    """The checksum of a file at its path: the whole file of another function counts as damage, too."""
    return store.checksum(f"{path.parent.name}/{path.name}", text).encode()


def record(path: Path) -> dict[str, Any] | None:
    """The record of the frame of an entry; None where there is none."""
    return read(path.with_suffix(".page"))


def add(key: str, content: dict[str, Any], record: dict[str, Any] | None, where: Path | None = None) -> bool:
    """Store an entry and its record. False, and one warning, if it cannot be written.

    Args:
        key: of the entry.
        content: data that ``json`` can write.
        record: the same; None: no recorder was active.
        where: the folder that :func:`folder` returned when the function was compiled; None: what it returns now.
    """
    text = json.dumps(content).encode()
    # The name is the hash of the content: two processes that compile the same write the same file.
    name = hashlib.sha256(text).hexdigest()[:20]
    where = folder(key) if where is None else where
    entry = where / f"{name}.json"
    try:
        _write_both(entry, text, None if record is None else json.dumps(record).encode())
    except (OSError, ValueError) as error:
        warn("not written", f"nothing is kept for the next process: {error}")
        return False
    _written.add((os.getpid(), name))
    _used.add(entry)
    # Each key keeps the entries that were used last.
    for path in _by_age(where, "*.json")[ENTRIES_OF_ONE_KEY:]:
        _remove(path)
    _added[0] += 1
    if least_used.is_due(_added[0]):
        shrink(config.warm_start_megabytes * least_used.MEGABYTE, where.parent)
    return True


def is_own(path: Path) -> bool:
    """True if this process wrote an entry."""
    return (os.getpid(), path.stem) in _written


def touch(path: Path) -> None:
    """Note that an entry was used now."""
    _used.add(path)
    least_used.touch(path)


def used() -> list[Path]:
    """The files of the entries that this process has loaded or written, without those that were removed since."""
    files = (file for path in sorted(_used) for file in (path.with_suffix(".page"), path))
    return [file for file in files if file.is_file()]


def contents(path: Path) -> bytes | None:
    """The bytes of a complete file of the store, its checksum first; None if it is damaged or was removed."""
    try:
        whole = store.read(path, store.LARGEST)
    except (OSError, ValueError):
        return None
    return whole if is_complete(path, whole) else None


def is_complete(path: Path, whole: bytes) -> bool:
    """True of the bytes of a file that belongs at this path and has its checksum."""
    checksum, _, text = whole.partition(b"\n")
    return checksum == _checksum(path, text)


def install(entry: Path, whole: bytes | None, record: bytes | None) -> None:
    """Write the complete files of an entry and its record of another store, at the same paths in this one.

    Raises:
        OSError: a file cannot be written; an entry that was not here before leaves nothing.
    """
    text, page = (None if each is None else each.partition(b"\n")[2] for each in (whole, record))
    _write_both(entry, text, page)


def size(where: Path | None = None) -> int:
    """The size of all entries in bytes, in a folder of keys (``directory()``)."""
    where = directory() if where is None else where
    return sum(_size(path) for pattern in ("*/*.json", "*/*.page") for path in _by_age(where, pattern))


def shrink(limit: int, where: Path | None = None) -> None:
    """Throw away what was not used for longest, until the rest is within the limit."""
    where = directory() if where is None else where
    for path in unfinished(where):
        store.discard(path)
        with contextlib.suppress(OSError):
            path.parent.rmdir()  # only where it is empty
    paths = _by_age(where, "*/*.json")
    removed = least_used.shrink((least_used.entry((path, path.with_suffix(".page"))) for path in paths), limit)
    for parent in {file.parent for one in removed for file in one.files}:
        with contextlib.suppress(OSError):
            parent.rmdir()  # only where it is empty


def unfinished(where: Path | None = None) -> list[Path]:
    """Files of processes that were killed while they wrote: drafts, and records whose entries never came."""
    where = directory() if where is None else where
    # The records first: one whose entry comes meanwhile is no orphan.
    records, entries = _by_age(where, "*/*.page"), set(_by_age(where, "*/*.json"))
    orphans = [path for path in records if path.with_suffix(".json") not in entries]
    return [path for path in (*_by_age(where, f"*/*{store.DRAFT}"), *orphans) if store.is_abandoned(path)]


def warn(kind: str, text: str) -> None:
    """Warn once in a process for each kind of problem."""
    if kind not in _warned:
        _warned.add(kind)
        users_line.warn(text, errors.StoreWarning)


def _write_both(entry: Path, text: bytes | None, record: bytes | None) -> None:
    page = entry.with_suffix(".page")
    try:
        entry.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # The record first: an entry that is found has its record.
        if record is not None:
            _write(page, record)
        if text is not None:
            _write(entry, text)
        # A process that failed to write the same entry may have removed the record before the entry was here.
        if record is not None and not page.exists():
            _write(page, record)
    except (OSError, ValueError):
        _remove_orphan(entry)
        raise


def _write(path: Path, text: bytes) -> None:
    # Written under another name and renamed, which is atomic: a reader sees the whole file or none.
    descriptor, name = tempfile.mkstemp(dir=path.parent, suffix=store.DRAFT)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(_checksum(path, text) + b"\n" + text)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _remove_orphan(entry: Path) -> None:
    """Remove the record of an entry that is not here: on a full disk it would take room until it is abandoned."""
    page, renamed = entry.with_suffix(".page"), entry.parent / f"{secrets.token_hex(8)}{store.DRAFT}"
    if os.path.lexists(entry):  # a process that compiled the same may have written it
        return
    with contextlib.suppress(OSError):
        # Renamed before the entry is looked up again. If another process writes the entry before this look-up, the
        # record returns; if it writes the entry afterwards, it notices that the record is missing.
        page.replace(renamed)
        if os.path.lexists(entry):
            renamed.replace(page)
        else:
            store.discard(renamed)
    with contextlib.suppress(OSError):
        entry.parent.rmdir()  # only where it is empty


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
    _remove_orphan(path)


def _by_age(where: Path, pattern: str) -> list[Path]:
    try:
        depth = len(where.parts) + pattern.count("/") + 1
        found = (path for path in store.files(where) if len(path.parts) == depth and path.match(pattern))
        return sorted(found, key=_last_used, reverse=True)
    except (OSError, ValueError):  # no folder can be there, or none that may be read
        return []


def _last_used(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
