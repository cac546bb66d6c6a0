"""The folder that keeps outputs of executed pages: one for each state of the compiler and its versions.

    build/pages/3f2a9c...      `make docs CACHED=1` executes a page again if its cells changed, or a module of ours

MyST-NB compares only cells; a picture of an older compiler would stay. So the folder's name is a digest of everything
that an output may depend on: the package, the programs of the tests that pages list, Python and torch.

In torch: nothing. Read next: conf.py
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDERS = ("nbcompile", "tests/peer", "tests/behaviour", "tests/cases", "benchmarks")
SUFFIXES = (".py", ".toml", ".css", ".js", ".c", ".cpp", ".h")
KEPT = 3
"""Number of folders of older states that are kept, for changes between two states."""


def cache_folder(parent: Path) -> Path:
    """The folder of the present state; the oldest of the others are deleted."""
    folder = parent / digest(ROOT / name for name in FOLDERS)
    folder.mkdir(parents=True, exist_ok=True)
    folder.touch()
    for old in sorted(parent.iterdir(), key=lambda path: path.stat().st_mtime)[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)
    return folder


def digest(folders: Iterable[Path]) -> str:
    """Digest of 20 letters over the files and the versions of Python and torch."""
    found = hashlib.sha256(f"{sys.version} torch {importlib.metadata.version('torch')}".encode())
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.suffix in SUFFIXES and "__pycache__" not in path.parts:
                found.update(str(path.relative_to(folder.parent)).encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:20]
