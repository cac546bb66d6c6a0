"""What every program needs from the C++ compiler is built while the first one is traced.

    start()         at the first call that has to be compiled; returns at once
    ...             the tracer, SymPy and torch's fake tensors are imported: seconds in which the other cores idle
    launcher.extension_module(compiler)      finds it in the store, or waits for what is left of the build

Once a machine: what is in the store is not built again. The thread only starts compilers and writes to the store;
nothing is loaded in it. If it fails, whoever needs the file asks the compiler again, and tells.

In torch: the pool of compile workers, torch/_inductor/async_compile.py. Read next: nbcompile/runtime/extension.py
"""

from __future__ import annotations

import contextlib
import functools
import threading

from nbcompile.runtime import extension, launcher, shortcut, toolchain

SOURCES = (launcher.SOURCE, shortcut.SOURCE)
"""The first call needs the first, the calls after it the others."""


@functools.cache
def start() -> threading.Thread:
    """Begin, once in a process."""
    thread = threading.Thread(target=_build, name="nbcompile: builds ahead", daemon=True)
    thread.start()
    return thread


def _build() -> None:
    with contextlib.suppress(toolchain.BuildError, OSError):
        compiler = toolchain.find()
        if isinstance(compiler, toolchain.Compiler):
            for source in SOURCES:
                extension.file(source, compiler)
