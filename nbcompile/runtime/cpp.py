"""C++ source text to functions in this process.

    library = load('extern "C" EXPORT i64 kernel0(...) {...}', compiler)
    library.address("kernel0")          140735340871680

Source that was built before, by this process or any other, comes out of the
store. What is new costs one run of the compiler: about 60 ms for a small
graph, because generated code includes no header but our own, as text. A large
graph's functions are shared out to several compilers, one on each core.

In torch: torch/_inductor/codecache.py (CppCodeCache), torch/_inductor/cpp_builder.py
Read next: nbcompile/runtime/launcher.py
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nbcompile import config
from nbcompile.runtime import store, toolchain
from nbcompile.runtime.toolchain import Compiler

PIECE = 20_000
"""Characters: source that takes a compiler some tenths of a second, compared with 30 ms for the header."""
FUNCTION = re.compile(r"^// kernel\d+.*\nEXPORT ", re.MULTILINE)
"""Start of a function, with the comment that names its fx nodes."""


@dataclass(frozen=True, slots=True)
class Library:
    """A shared object that is mapped into this process (and stays so)."""

    path: Path
    handle: ctypes.CDLL

    def address(self, name: str) -> int:
        """Address of a function in the shared object."""
        return ctypes.cast(getattr(self.handle, name), ctypes.c_void_p).value or 0


def load(source: str, compiler: Compiler) -> Library:
    """The functions of a translation unit, built if that never happened before.

    Raises:
        compiler_processes.BuildError: the compiler rejected the source (an error of the code
            generator, never the user's).
    """
    return _load(source, toolchain.for_kernels(compiler), str(store.directory()))


@functools.lru_cache(maxsize=4096)
# The directory is only part of the key of this cache: where the store moves, the library is looked up there again.
def _load(source: str, compiler: Compiler, _directory: str) -> Library:
    key = store.key_of(source, compiler.identity)
    path = store.fetch(key, ".so")
    if path is None:
        path = _added(key, source, compiler)
    try:
        return Library(path, ctypes.CDLL(str(path)))
    except OSError:
        if path.exists():
            raise
    path = _added(key, source, compiler)  # another process has removed it meanwhile
    return Library(path, ctypes.CDLL(str(path)))


def _added(key: str, source: str, compiler: Compiler) -> Path:
    path = store.add(key, ".so", lambda draft: _build(source, compiler, draft))
    # The text is kept next to it, for those who want to read what was built.
    store.add(key, ".cpp", lambda draft: _write(draft, source))
    return path


def _build(source: str, compiler: Compiler, target: Path) -> None:
    pieces = split(source, config.compile_threads or _cores())
    if len(pieces) > 1:
        toolchain.build_together(compiler, pieces, target)
    else:
        toolchain.build(compiler, source, target)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def split(source: str, cores: int) -> Sequence[str]:
    """The unit in as many pieces of about equal length as are worth a compiler of their own, each with the header."""
    first, *others = [found.start() for found in FUNCTION.finditer(source)] or [len(source)]
    header, functions = source[:first], len(source) - first
    count = min(cores, functions // PIECE)
    # No function is cut in two: a piece ends with the function that reaches its share of the characters.
    pieces, begun = [], first
    for at in (*others, len(source)):
        if at - begun >= functions / max(1, count) or at == len(source):
            pieces.append(header + source[begun:at])
            begun = at
    return pieces


def _write(path: Path, text: str) -> None:
    path.write_text(text)
