"""The key of an entry: everything that must be equal, bit for bit, before it is loaded.

    the function      bytecode, constants, names, lines, nested functions; not its file
    how               options, settings, environment variables
    with what         nbcompile's own source, torch and what its functions are, Python, the compiler, the processor

Everything else that an entry depends on is in its guards and is checked value by value.

In torch: torch/_inductor/codecache.py (FxGraphHashDetails). Read next: nbcompile/fast/disk_cache/stored_guards.py
"""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

import torch

from nbcompile import config, torch_internals
from nbcompile.capture.literals import NotStorable, encode
from nbcompile.fast.disk_cache import library
from nbcompile.fast.disk_cache.descriptions import code_digest, digest_of
from nbcompile.options import OWN_BACKENDS, Options
from nbcompile.runtime import toolchain

FORMAT = 1
VARIABLES = ("TORCH", "NBCOMPILE_", "PYTORCH_", "OMP_", "CUDA_VISIBLE", "CXX", "ATEN_", "MKL_", "DNNL_", "ONEDNN_")
NO_PART = ("NBCOMPILE_CACHE_DIR", "NBCOMPILE_FRAMES_DIR", "TORCHINDUCTOR_CACHE_DIR")
"""Variables that are no part of the key: they say only where something is stored."""
OF_THE_LAUNCHER = "TORCHELASTIC_"
"""Prefix of the variables that torchrun sets for its processes: some differ in each run, as the run's id."""
OF_THE_CACHE = ("warm_start", "kernel_store", "background")
"""Beginnings of the settings of the disk cache and the background: they change when code is compiled, not what."""
_OF_THE_CACHE = tuple(f"NBCOMPILE_{name.upper()}" for name in OF_THE_CACHE)


def key(code: CodeType, options: Options) -> str:
    """The name of the folder of one function's entries.

    Raises:
        NotStorable: it is compiled in a way that has no name, or a function of torch is replaced.
    """
    # Everything that changes the compiled code, except for the values of the call: those are compared entry by entry.
    return digest_of((code_digest(code), _how(options), surroundings(), library.state()))


def _how(options: Options) -> list[object]:
    if options.backend != "inductor":
        known = options.backend in OWN_BACKENDS
        raise NotStorable(f"the backend {options.backend!r} generates no code" if known else "the backend is not ours")
    if options.backend_options.get("target"):
        # Before the properties of this machine are read, since its compiler is not needed then.
        raise NotStorable(f"its code is for {options.backend_options['target']}")
    if options.guard_filter is not None:
        raise NotStorable("guard_filter_fn is a function of the user")
    chosen = [[name, encode(value)] for name, value in sorted(options.backend_options.items())]
    requested = [options.fullgraph, options.dynamic, options.mode, chosen, *buckets()]
    settings = [
        [name, _setting(value)] for name, value in sorted(config.current().items()) if not name.startswith(OF_THE_CACHE)
    ]
    variables = [
        (name, value)
        for name, value in sorted(os.environ.items())
        if name.startswith(VARIABLES) and name not in NO_PART and not name.startswith((OF_THE_LAUNCHER, *_OF_THE_CACHE))
    ]
    return [*requested, settings, variables]


def buckets() -> list[int]:
    """Bytes of the gradient buckets at which graphs are split here, and of the first one; [] if they are not split."""
    splits = config.optimize_ddp in (True, "ddp_optimizer")
    cap = torch_internals.bucket_bytes() if splits else 0
    return [cap, torch_internals.first_bucket_bytes()] if cap else []


def _setting(value: object) -> object:
    if isinstance(value, set | frozenset):
        if value:
            raise NotStorable("functions are named in the settings")
        return []
    return encode(value)


@functools.cache
def surroundings() -> str:
    """Properties of the machine and of what is installed on it that compiled code depends on."""
    compiler = toolchain.find()
    return digest_of(
        (
            FORMAT, own_source(), torch.__version__, torch.version.git_version, torch.version.cuda, sys.version,
            sys.flags.optimize, platform.node(), toolchain.processor_model(), getattr(compiler, "identity", ""),
        )
    )  # fmt: skip


@functools.cache
def own_source() -> str:
    """Our own files, by name, size and time of change of each file (a tenth of reading them all)."""
    # Times and sizes instead of contents: hundreds of files at each start.
    home = str(Path(__file__).parents[2])
    return digest_of(sorted(_files(home, "")))


def _files(folder: str, where: str) -> Iterator[tuple[str, int, int]]:
    # Of whatever suffix: C++ and its headers are parts of kernels, tables say what is lowered. With ``scandir``, as
    # there are some hundred files at each start: 3.3 ms, where ``walk`` takes 4.1.
    with contextlib.suppress(OSError), os.scandir(folder) as found:  # it may be removed meanwhile
        for entry in found:
            if entry.is_dir(follow_symlinks=False):
                if entry.name != "__pycache__":
                    yield from _files(entry.path, f"{where}/{entry.name}")
            else:
                with contextlib.suppress(OSError):  # an editor's lock file is a dangling link
                    facts = entry.stat()
                    yield f"{where}/{entry.name}", facts.st_size, facts.st_mtime_ns
