"""``cache``: the entries that are stored on disk between processes.

    python -m nbcompile cache                where it is, how many entries, how large
    python -m nbcompile cache clear          delete all entries of nbcompile
    python -m nbcompile cache list --json    one entry a line
    python -m nbcompile cache save FILE      pack all complete entries into a zip file, for other machines of this kind
    python -m nbcompile cache load FILE      install the entries of such a file

In torch: torch/_inductor/runtime/cache_dir_utils.py. Read next: nbcompile/fast/disk_cache/storage.py
"""

from __future__ import annotations

import argparse
import contextlib
import re
import stat
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from nbcompile import config, errors
from nbcompile.fast.disk_cache import archives, storage, writer
from nbcompile.runtime import least_used, store
from nbcompile.tools.commands import terminal

OWN_NAMES = re.compile(r"[0-9a-f]{8,64}(\.[\w.]+)?")
"""File names that the two stores give; nothing else is deleted."""


TRANSFERS = ("save", "load")
"""Actions that need a file."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of a store; or the folder of a build whose process was killed."""

    store: str
    path: str
    bytes: int
    unfinished: bool = False
    """True if it was left by a process that was killed; it never becomes an entry."""


def add(commands: argparse._SubParsersAction) -> None:
    """Declare the command and its options."""
    text = "what is stored on disk: show, list or clear it, save it to a file or load one"
    parser = commands.add_parser("cache", help=text, allow_abbrev=False)
    actions = ("show", "list", "clear", *TRANSFERS)
    parser.add_argument("action", nargs="?", choices=actions, default="show", help="default: show")
    parser.add_argument("file", nargs="?", help="of save and load: the archive; load only what you trust, it is code")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_cache)


def _cache(options: argparse.Namespace) -> int:
    # Entries are written in the background: wait for those that this process has begun.
    writer.flush(timeout=writer.TIMEOUT)
    if options.file is not None or options.action in TRANSFERS:
        return _transfer(options)
    entries = list(find_entries())
    if options.action == "clear":
        removed = clear(entries)
        terminal.print_json({"removed": removed}) if options.json else print(f"removed {removed} files")
        return 0 if removed == len(entries) else 1
    if options.action == "list":
        if options.json:
            terminal.print_json([asdict(entry) for entry in entries])
        for entry in [] if options.json else entries:
            print(f"{entry.bytes:>10}  {entry.store:9}  {entry.path}")
        return 0
    summaries = [_summary(name, folder, entries) for name, folder in _folders()]
    if options.json:
        terminal.print_json(summaries)
    else:
        _print_summaries(summaries, [entry for entry in entries if entry.unfinished])
    return 0


def _transfer(options: argparse.Namespace) -> int:
    """Save the stores to a file, or load one; report an error of the file in one line."""
    if options.file is None or options.action not in TRANSFERS:
        expected = "expected no file" if options.file else "expected the name of a file"
        print(f"nbcompile cache {options.action}: {expected}", file=sys.stderr)
        return 2
    path = Path(options.file)
    try:
        if options.action == "load":
            artifacts = archives.load_cache_artifacts(path.read_bytes())
        else:
            functions, kernels = ([Path(e.path) for e in find_entries() if e.store == name] for name, _ in _folders())
            content, artifacts = archives.pack(functions, kernels)
            path.write_bytes(content)
    except (OSError, errors.InvalidArchive) as error:
        print(f"nbcompile cache {options.action}: {error}", file=sys.stderr)
        return 1
    if options.json:
        terminal.print_json(asdict(artifacts))
    else:
        size = artifacts.size / least_used.MEGABYTE
        counts = f"{artifacts.functions} files of functions and {artifacts.kernels} of kernels"
        print(f"{'saved' if options.action == 'save' else 'loaded'} {counts}, {size:.1f} MiB: {path}")
    return 0


def _print_summaries(summaries: list[dict[str, object]], left: list[Entry]) -> None:
    for summary in summaries:
        size, limit = (int(str(summary[name])) / least_used.MEGABYTE for name in ("bytes", "limit"))
        print(f"{summary['store']:9}  {summary['files']:>6} files  {size:8.1f} MiB of {limit:.0f}  {summary['folder']}")
    if left:
        size = sum(entry.bytes for entry in left) / least_used.MEGABYTE
        print(
            f"left by processes that were killed: {len(left)} of these ({size:.1f} MiB); the next process that compiles"
            " something new removes them, `cache clear` now, with all entries"
        )


def _folders() -> tuple[tuple[str, Path], ...]:
    return ("functions", storage.directory()), ("kernels", store.directory())


def _summary(name: str, folder: Path, entries: list[Entry]) -> dict[str, object]:
    own = [entry for entry in entries if entry.store == name]
    return {
        "store": name,
        "folder": str(folder),
        "files": len(own),
        "limit": (config.warm_start_megabytes if name == "functions" else config.kernel_store_megabytes)
        * least_used.MEGABYTE,
        "bytes": sum(entry.bytes for entry in own),
        "unfinished": sum(entry.unfinished for entry in own),
    }


def find_entries() -> Iterator[Entry]:
    """Every file of both stores, without files of other names and files that are being written."""
    functions = storage.directory()
    left = {"functions": storage.unfinished(), "kernels": list(store.unfinished(store.directory()))}
    for name, paths in left.items():
        yield from (Entry(name, str(path), _size(path), unfinished=True) for path in paths)
    for name, folder in _folders():
        for path in sorted(path for path in store.files(folder) if path.parent.parent == folder):
            inside_functions = name == "kernels" and path.is_relative_to(functions)
            # The folder of one store may be inside that of the other, and a folder may hold a user's
            # files: only files with names that nbcompile gives are counted or deleted.
            if inside_functions or path in left[name] or not OWN_NAMES.fullmatch(path.name):
                continue
            with contextlib.suppress(FileNotFoundError):  # another process has just removed it
                status = path.lstat()
                if stat.S_ISREG(status.st_mode):
                    yield Entry(name, str(path), status.st_size)


def _size(path: Path) -> int:
    """The size of a file, or of all files in a folder."""
    size = 0
    for file in store.files(path) if path.is_dir() else (path,):
        with contextlib.suppress(FileNotFoundError):
            size += file.lstat().st_size
    return size


def clear(entries: list[Entry]) -> int:
    """Delete entries and the folders that become empty; return the number of deleted files."""
    removed = 0
    for entry in entries:
        path = Path(entry.path)
        # A file that another process has removed counts as deleted; one that may not be removed does not.
        removed += store.discard(path)
        with contextlib.suppress(OSError):
            path.parent.rmdir()  # only where it is empty
    return removed
