"""Code of the user's Triton kernels in the kernel store, so that a later process launches it without compiling.

    build_or_fetch(form, chip)    machine code, of the store or compiled now
    find_written(form, chip)      {"out"}, the parameters that the kernel writes

An entry's key has the kernel's text with all that it is compiled with (capture/triton_kernels.py), Triton's own key,
in which are the lines of its file, the types, constants and alignment of the form, and Triton's version and settings.
A kernel that reads an object of this process has no key: it is compiled in each process.

In torch: torch/_inductor/runtime/triton_heuristics.py. Read next: nbcompile/gpu/kernel_writes.py
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend

from nbcompile.capture import triton_kernels
from nbcompile.gpu import cubins, elf, kernel_writes, triton_settings
from nbcompile.gpu.build import build
from nbcompile.gpu.chip import Chip
from nbcompile.gpu.machine_code import MachineCode
from nbcompile.runtime import store
from nbcompile.runtime.gpu_launcher import Image

_PLAIN = (type(None), bool, int, float, str, bytes)
"""Types whose values are compared by type and text."""


class _NoKey(Exception):
    """A part of a kernel is known only to this process."""


class KernelForm(Protocol):
    """A kernel with the types of its arguments (``user_kernels.Form``)."""

    @property
    def function(self) -> Any: ...
    @property
    def signature(self) -> tuple[tuple[str, str], ...]: ...
    @property
    def constants(self) -> tuple[tuple[int, Any], ...]: ...
    @property
    def divisible(self) -> tuple[int, ...]: ...
    @property
    def options(self) -> tuple[tuple[str, int], ...]: ...
    @property
    def source(self) -> ASTSource: ...


def build_or_fetch(form: KernelForm, chip: Chip) -> MachineCode:
    """The machine code of a form.

    Raises:
        CannotBuild: Triton fails, or its machine code needs more than our launcher provides.
    """
    key = _key(form, chip, form.options)
    found = cubins.fetch(key) if key and not triton_settings.always_compile() else None
    if found is not None:
        return found.machine_code
    code = build(form.source, chip, dict(form.options))
    if key:
        name = form.function.__name__
        image = Image(code.cubin, name, code.threads, code.shared_bytes, elf.parameters(code.cubin, name))
        cubins.keep(key, code.ptx, image)
    return code


def find_written(form: KernelForm, chip: Chip) -> frozenset[str]:
    """The names of the parameters that a kernel writes.

    Raises:
        Exception: Triton cannot translate the kernel for these arguments.
    """
    key = _key(form, chip, ())  # options of a launch are not looked at
    path = store.fetch(key, ".writes") if key else None
    if path is not None:
        with contextlib.suppress(OSError, ValueError):
            return frozenset(json.loads(path.read_bytes()))
    found = kernel_writes.find(form.source, chip)
    if key:
        store.add(key, ".writes", lambda draft: _write(draft, json.dumps(sorted(found))))
    return found


def _write(path: Path, text: str) -> None:
    path.write_text(text)


def _key(form: KernelForm, chip: Chip, options: Sequence[tuple[str, int]]) -> str:
    """The name of an entry; "" where there is none."""
    try:
        kernel = triton_kernels.contents(form.function, _plain)
        constants = [[at, triton_kernels.constant(value, _plain)] for at, value in form.constants]
    except _NoKey:
        return ""
    facts = [
        kernel, constants, form.function.cache_key, form.signature, form.divisible, options, _parsed(options, chip),
    ]  # fmt: skip
    return store.key_of("user's kernel", cubins.triton_key(), chip.name, repr(facts))


def _parsed(options: Sequence[tuple[str, int]], chip: Chip) -> str:
    """The options with Triton's defaults, which its settings in this process change: ``triton.knobs`` may keep them."""
    backend = make_backend(GPUTarget("cuda", chip.capability, 32))
    try:
        return str(backend.parse_options(dict(options)).hash())
    except Exception:  # noqa: BLE001  it is the error of the build
        return ""


def _plain(value: Any) -> list[str]:
    if type(value) not in _PLAIN:
        raise _NoKey(f"it reads a {type(value).__qualname__}")
    return [type(value).__name__, value.hex() if isinstance(value, float) else repr(value)]
