"""C++ source text to functions in this process.

    library = load('extern "C" EXPORT i64 kernel0(...) {...}', compiler)
    library.address("kernel0")          140735340871680

Source that was built before, by this process or any other, comes out of the
store. What is new costs one run of the compiler: about 60 ms for a small
graph, because generated code includes no header but our own, as text.

In torch: torch/_inductor/codecache.py (CppCodeCache), torch/_inductor/cpp_builder.py
Read next: nbcompile/runtime/launcher.py
"""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass
from pathlib import Path

from nbcompile.runtime import store, toolchain
from nbcompile.runtime.toolchain import Compiler


@dataclass(frozen=True, slots=True)
class Library:
    """A shared object that is mapped into this process (and stays so)."""

    path: Path
    handle: ctypes.CDLL

    def address(self, name: str) -> int:
        """Where a function begins."""
        return ctypes.cast(getattr(self.handle, name), ctypes.c_void_p).value or 0


def load(source: str, compiler: Compiler) -> Library:
    """The functions of a translation unit, built if that never happened before.

    Raises:
        toolchain.BuildError: the compiler refused the source (our mistake, never the user's).
    """
    return _load(source, compiler, str(store.directory()))


@functools.lru_cache(maxsize=4096)
def _load(source: str, compiler: Compiler, _directory: str) -> Library:
    key = store.key_of(source, compiler.identity)
    path = store.fetch(key, ".so")
    if path is None:
        path = store.add(key, ".so", lambda draft: toolchain.build(compiler, source, draft))
        store.add(key, ".cpp", lambda draft: _write(draft, source))
    return Library(path, ctypes.CDLL(str(path)))


def _write(path: Path, text: str) -> None:
    path.write_text(text)
