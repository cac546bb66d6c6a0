"""Kernel store: built kernels in a cache directory on disk, shared by processes.

    key = key_of(source, compiler.identity)      "9f2c..."
    fetch(key, ".so")                            None: never built here
    add(key, ".so", build)                       /home/me/.cache/nbcompile/9f/9f2c....so
    fetch(key, ".so")                            the same path, in any later process
    obtain(key, ".so", build)                    fetch, else add; two threads that call it at once share one build

An entry is complete or absent. It is built under a temporary name and then renamed.
A rename is atomic, so neither Ctrl-C nor a second process that builds the same kernel
leaves a partial file (the later rename replaces a file by an equal one, so no lock is
needed). A file next to the entry has its checksum: a damaged entry is not loaded but
built again. A process that is killed during a build leaves files. After an hour, the
next process that builds removes them.
If all entries together are larger than ``config.kernel_store_megabytes``, the least recently used ones are removed,
except entries that this process has used, or any process within the last minute: it may be about to load them.

In torch: torch/_inductor/codecache.py (CppCodeCache, get_path)
Read next: nbcompile/runtime/cpp.py
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path

from nbcompile import config, errors
from nbcompile.runtime import least_used
from nbcompile.support import user_folders, users_line
from nbcompile.support.process_state import STATE, Lifetime

VARIABLE = "NBCOMPILE_CACHE_DIR"
FORMAT = "2"
"""Part of every key: increase it if entries of an older nbcompile must not be used."""
LARGEST = 1 << 30
"""Largest size of an entry, in bytes: a longer file is not read."""
DRAFT = ".draft"
"""Suffix of the name of a file that is being written."""
UNFINISHED = 3600.0
"""Seconds without a write after which a build counts as abandoned. A clock may jump in both directions."""

JUST_USED = 60.0
"""Seconds after its last use in which no process removes an entry, since another may be about to load it."""

#      nbcompile/9f/9f2c....so                     an entry
#               9f/9f2c....so.sha256               its checksum
#               9f/9f2c77aa-0123456789abcdef/      a build in progress, or one that was killed
#               9f/9f2c77aa-x1y2z3ab.draft         a checksum that is being written
_FOLDER_OF_ENTRIES = re.compile(r"[0-9a-f]{2}")
_ENTRY_NAME = re.compile(r"([0-9a-f]{40})\.[\w.]+")
_FOLDER_OF_A_BUILD = r"[0-9a-f]{8}-[0-9a-f]{16}"
_DRAFT_OF_A_CHECKSUM = rf"[0-9a-f]{{8}}-\w{{8}}{re.escape(DRAFT)}"
_UNFINISHED_NAME = re.compile(f"{_FOLDER_OF_A_BUILD}|{_DRAFT_OF_A_CHECKSUM}")
"""Names of files and folders that may be removed: others do not belong to the store."""


def directory() -> Path:
    """Cache directory: $NBCOMPILE_CACHE_DIR, else the user's; each only if it is safe."""
    chosen = os.environ.get(VARIABLE)
    return safe(Path(chosen).expanduser() if chosen else user_folders.user_cache_folder())


def files(folder: Path) -> Iterator[Path]:
    """The files below a folder; files that another process removes meanwhile are skipped (``glob`` would raise)."""
    for inner, _, names in os.walk(folder):
        yield from (Path(inner, name) for name in names)


def safe(folder: Path) -> Path:
    """The folder, if no other user can write into it; else a private folder of this process, with a warning."""
    reason = _danger(str(folder))
    return _private(str(folder), reason) if reason else folder


@functools.cache
def _danger(folder: str) -> str:
    """Reason why another user could write code that runs here into a directory; "" if no other user can. Cached."""
    if not hasattr(os, "geteuid"):
        return ""
    try:
        found = os.stat(folder)  # noqa: PTH116 - of what a link leads to: that is what is written and loaded
    except (OSError, ValueError):
        return ""  # it is created later
    # Files of the store are loaded as machine code: a user who can write there can run any code as this user.
    if found.st_uid not in (0, os.geteuid()):
        return "it belongs to another user"
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        return "other users may write to it; chmod go-w makes it safe"
    return ""


def is_abandoned(path: Path) -> bool:
    """True if a file, or a folder, has not been written to for ``UNFINISHED`` seconds."""
    try:
        written = [each.stat().st_mtime for each in (path, *files(path))]
    except OSError:  # another process has just renamed or removed it
        return False
    return all(abs(time.time() - when) > UNFINISHED for when in written)


def unfinished(folder: Path) -> Iterator[Path]:
    """Files of processes that were killed during a build: folders of builds, drafts of checksums."""
    for inner in filter(_FOLDER_OF_ENTRIES.fullmatch, _names(folder)):
        for name in filter(_UNFINISHED_NAME.fullmatch, _names(folder / inner)):
            if is_abandoned(folder / inner / name):
                yield folder / inner / name


def remove_unfinished(folder: Path) -> None:
    """Remove the files of killed processes, but not the folders around them: another process may be using them."""
    for path in unfinished(folder):
        discard(path)


def discard(path: Path) -> bool:
    """Remove a file, or a folder with its contents; True if it no longer exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()
    return not os.path.lexists(path)


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - only names: a store may have tens of thousands
    except (OSError, ValueError):  # no folder, or not readable
        return []


def key_of(*parts: str) -> str:
    """The digest of all inputs that determine the content of an entry."""
    return hashlib.sha256("\0".join((FORMAT, *parts)).encode()).hexdigest()[:40]


def fetch(key: str, suffix: str) -> Path | None:
    """The entry's path, or None if it is absent or damaged."""
    path = _path(key, suffix)
    try:
        expected = read(path.with_suffix(suffix + ".sha256"), 64)
        content = read(path, LARGEST)
    except (OSError, ValueError):
        return None
    if checksum(path.name, content).encode() != expected:
        return None
    _used.add(key)
    least_used.touch(path)
    return path


def checksum(name: str, content: bytes) -> str:
    """Checksum of a file and its name, so that the file of another entry counts as damaged too."""
    return hashlib.sha256(name.encode() + b"\n" + content).hexdigest()


def read(path: Path, most: int) -> bytes:
    """The bytes of a file of the store.

    Raises:
        OSError: the file does not exist, is not readable, is longer than that, or is no regular file (a pipe blocks).
        ValueError: the path is not valid.
    """
    found = path.stat()
    if not stat.S_ISREG(found.st_mode) or found.st_size > most:
        raise OSError(f"{path} is no file of at most {most} bytes")
    return path.read_bytes()


def obtain(key: str, suffix: str, build: Callable[[Path], None]) -> Path:
    """Path of an entry, which is built on a cache miss.

    If another thread is building the entry, this thread waits and gets the same path or exception.
    """
    found = fetch(key, suffix)
    if found is not None:
        return found
    # setdefault is atomic: exactly one thread gets its own future.
    mine: Future[Path] = Future()
    # There is no lock between processes: two may build the same entry, and the later rename has equal content.
    in_progress = _in_progress.setdefault((directory(), key, suffix), mine)
    if in_progress is not mine:
        return in_progress.result()
    try:
        # Looked up again: another thread may have finished between the first look-up and setdefault.
        mine.set_result(fetch(key, suffix) or add(key, suffix, build))
    except BaseException as error:
        # Only this thread received Ctrl-C: the waiting threads get an error.
        mine.set_exception(error if isinstance(error, Exception) else OSError("the build was interrupted"))
        raise
    finally:
        _in_progress.pop((directory(), key, suffix), None)
    return mine.result()


_in_progress: dict[tuple[Path, str, str], Future[Path]] = STATE.add("runtime.store._in_progress", {}, Lifetime.TASK)
if hasattr(os, "register_at_fork"):  # the child process does not have the building threads
    os.register_at_fork(after_in_child=_in_progress.clear)


_looked_through: set[Path] = STATE.add("runtime.store._looked_through", set(), Lifetime.PROCESS)
"""The stores from which this process has removed the files of killed processes."""


_used: set[str] = STATE.add("runtime.store._used", set(), Lifetime.PROCESS)
"""Keys of the entries that this process has used: it may have loaded them."""
_added = STATE.add("runtime.store._added", [0], Lifetime.PROCESS)


def entries(folder: Path) -> Iterator[least_used.StoredEntry]:
    """Entries of a store: all files of one key, the checksums first."""
    for inner in filter(_FOLDER_OF_ENTRIES.fullmatch, _names(folder)):
        names: dict[str, list[str]] = {}
        for found in filter(None, map(_ENTRY_NAME.fullmatch, _names(folder / inner))):
            names.setdefault(found[1], []).append(found[0])
        for own in names.values():
            own.sort(key=lambda name: not name.endswith(".sha256"))
            yield least_used.entry(folder / inner / name for name in own)


def used() -> list[Path]:
    """The files of the entries that this process has fetched or built, without their checksums."""
    folder = directory()
    found = (folder / key[:2] / name for key in sorted(_used) for name in _names(folder / key[:2]) if name[:40] == key)
    return [path for path in found if _ENTRY_NAME.fullmatch(path.name) and path.suffix != ".sha256"]


def shrink(folder: Path, limit: int) -> None:
    """Remove the least recently used entries until the rest is within a limit in bytes."""
    now, removable = time.time(), []
    for entry in entries(folder):
        if abs(now - entry.used) < JUST_USED or any(file.name[:40] in _used for file in entry.files):
            limit -= entry.size  # entries that stay count, too
        else:
            removable.append(entry)
    least_used.shrink(removable, limit)


def add(key: str, suffix: str, build: Callable[[Path], None]) -> Path:
    """Add an entry: ``build`` writes the file at the path it is given, which then becomes the entry."""
    path = _path(key, suffix)
    folder = _writable(path.parent)
    if directory() not in _looked_through:  # once per process: to list all folders takes some milliseconds
        _looked_through.add(directory())
        remove_unfinished(directory())
    drafts = folder / f"{key[:8]}-{secrets.token_hex(8)}"  # named before it exists: Ctrl-C may come in between
    # Written under another name and renamed at the end, so that no reader sees a partial file.
    draft = drafts / f"draft{suffix}"
    try:
        drafts.mkdir(mode=0o700)
        draft.touch(mode=0o600)
        build(draft)
        installed = _install(draft, folder / path.name)
    finally:
        try:
            _remove(drafts)
        finally:  # in case Ctrl-C came in the line above
            _remove(drafts)
    _used.add(key)
    _added[0] += 1
    if least_used.is_due(_added[0]):
        shrink(directory(), config.kernel_store_megabytes * least_used.MEGABYTE)
    return installed


def _remove(drafts: Path) -> None:
    """Remove the folder of a draft, so that a killed compiler can create no more files in it."""
    for _ in range(ATTEMPTS):
        shutil.rmtree(drafts, ignore_errors=True)
        if not drafts.exists():
            return


ATTEMPTS = 3
"""Number of attempts: a folder is not removed if a file is created in it at the same time."""


def _install(draft: Path, path: Path) -> Path:
    """Rename a finished file to its entry; if a directory has that name, use a private one."""
    digest = checksum(path.name, draft.read_bytes())
    digest_path = path.with_suffix(path.suffix + ".sha256")
    for target in (path, digest_path):
        if target.is_dir() and not target.is_symlink():
            private = Path(tempfile.mkdtemp(dir=_private(str(path.parent), f"{target.name} is a folder")))
            return Path(shutil.move(draft, private / path.name))
    # Written before anything is renamed: a full disk rejects it here, and no file is left without its checksum.
    digest_draft = _drafted(digest_path, digest)
    try:
        # The old checksum is removed first and the new one renamed last, so that readers in between find no entry.
        digest_path.unlink(missing_ok=True)
        draft.replace(path)
        digest_draft.replace(digest_path)
    except BaseException:
        digest_draft.unlink(missing_ok=True)
        raise
    return path


def _path(key: str, suffix: str) -> Path:
    return directory() / key[:2] / (key + suffix)


def _writable(folder: Path) -> Path:
    """The directory, created if necessary; a private temporary one for this process if that fails."""
    reason: object = "it cannot be written"
    try:
        directory().mkdir(parents=True, exist_ok=True, mode=0o700)  # ``mode`` does not apply to parents
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
    return _private(str(directory()), str(reason))


@functools.cache
def _private(folder: str, reason: str) -> Path:
    text = f"compiled kernels cannot be cached in {folder} ({reason}): every process builds its own"
    # Kernels are built nevertheless: a store that cannot be used only costs time.
    users_line.warn(text, errors.StoreWarning)
    folder = tempfile.mkdtemp(prefix="nbcompile-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _drafted(path: Path, text: str) -> Path:
    """The text in a file next to its path, to be renamed to it."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f"{path.name[:8]}-", suffix=DRAFT)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return Path(name)
