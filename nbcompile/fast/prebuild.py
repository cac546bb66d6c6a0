"""C files of ours are built, and modules imported, before their turn, while something else is done.

    start()         at the first call that has to be compiled; returns at once
    ...             the tracer, SymPy and torch's fake tensors are imported: seconds in which the other cores idle
    launcher.extension_module(compiler)      finds it in the store, or waits for what is left of the build

    start(WITH_SYMBOLS)      once a graph is symbolic: concurrently with the build of its kernels
    start(WITH_MANY_GUARDS)  once a graph has many guards (a module's parameters, say): the same

    import_while_building()  at the same call: while this thread waits for the compiler of its first kernels, it imports
                             what torch, or we, would import at some later function's first norm, loss or derivative

Once a machine: what is in the store is not built again. The thread only starts compilers and writes to the store;
nothing is loaded in it. If it fails, the stage that needs the file calls the compiler again, and reports the error.

In torch: the pool of compile workers, torch/_inductor/async_compile.py. Read next: nbcompile/runtime/extension.py
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import threading
from pathlib import Path

from nbcompile.capture.trace import Trace
from nbcompile.fast import fast_call, guard_cache
from nbcompile.fast.guard_groups import MANY_GUARDS
from nbcompile.runtime import compiler_processes, conditions, extension, launcher, toolchain
from nbcompile.support import lazy_import

SOURCES = (launcher.SOURCE, fast_call.SOURCE)
"""The extensions that every program needs. The first call needs the first, later calls the others."""
WITH_SYMBOLS = (conditions.SOURCE,)
"""The extension that evaluates guards on sizes."""
WITH_MANY_GUARDS = (guard_cache.SOURCE,)
"""The extension that caches the results of guards."""
MODULES = ("torch.distributed.tensor", "networkx")
"""torch imports the first (0.2 s) to check whether a class of tensors is DTensor; the second cuts graphs with
gradients."""


@functools.cache
def import_while_building() -> None:
    """Have it done, once in a process.

    No other thread does it: modules that two threads import at once may be seen half initialised.
    """
    compiler_processes.builds.concurrent_task = _import


def _import() -> None:
    for name in MODULES:
        with contextlib.suppress(Exception), lazy_import.importing():  # who needs it gets the error
            importlib.import_module(name)


@functools.cache
def start(sources: tuple[Path, ...] = SOURCES) -> threading.Thread:
    """Begin, once in a process."""
    # A daemon: a process that ends meanwhile does not wait for a compiler. Its draft is no entry of the store yet.
    thread = threading.Thread(target=_build, args=(sources,), name="nbcompile: builds ahead", daemon=True)
    thread.start()
    return thread


def start_for(trace: Trace) -> None:
    """Begin with what the guards of a traced frame will need, while the graph's kernels are built."""
    if trace.graph is None:
        return
    if trace.graph.symbolic:
        start(WITH_SYMBOLS)
    elif len(trace.guards()) >= MANY_GUARDS:
        start(WITH_MANY_GUARDS)


def _build(sources: tuple[Path, ...]) -> None:
    with contextlib.suppress(compiler_processes.BuildError, OSError):
        compiler = toolchain.find()
        if isinstance(compiler, toolchain.Compiler):
            for source in sources:
                extension.file(source, compiler)
