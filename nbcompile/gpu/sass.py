"""SASS, the instructions that a GPU executes, by the line of generated Triton that they come from.

    sass.lines(built)[248]      ("LDG.E.128", "LDG.E.128", "LEA", ...)
    printer.begin("kernel0", built); ...; printer.lines("kernel0")      the same, while something else is done

``ptxas`` makes it of PTX, for one chip. ``nvdisasm``, which comes with Triton, prints it with the line of the PTX, and
PTX names the line of Triton.

In torch: nothing. Read next: nbcompile/gpu/figures.py
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import re
import subprocess
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path

from nbcompile.gpu import ptx
from nbcompile.gpu.machine_code import MachineCode
from nbcompile.runtime import store
from nbcompile.support import threads

#     //## File ".nv_debug_ptx_txt", line 57                   line of PTX, of all that follows
#         /*0070*/    @!P0 LDG.E.128 R4, desc[UR4][R2.64] ;    offset, condition, LDG.E.128
_PTX_LINE = re.compile(r'//## File "\.nv_debug_ptx_txt", line (\d+)')
_INSTRUCTION = re.compile(r"\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?([A-Z][\w.]*)")
_AROUND = frozenset({"NOP", "BRA"})
"""Instructions that fill the end of the code."""


AT_ONCE = 8
"""Processes that print, at most."""


class Printer:
    """Prints several kernels side by side, while this process continues."""

    def __init__(self) -> None:
        # Threads are enough: each waits for its own process.
        self._slots = threading.Semaphore(AT_ONCE)
        self._begun: dict[str, Future[dict[int, tuple[str, ...]]]] = {}

    def begin(self, name: str, built: MachineCode) -> None:
        """Begin with a kernel, unless that was done."""
        if name not in self._begun:
            self._begun[name] = threads.submit("nbcompile sass", self._print_in_turn, built)

    def lines(self, name: str) -> dict[int, tuple[str, ...]]:
        """The result of :func:`lines`; nothing where it was not begun."""
        return self._begun[name].result() if name in self._begun else {}

    def _print_in_turn(self, built: MachineCode) -> dict[int, tuple[str, ...]]:
        with self._slots:
            return lines(built)


@functools.cache
def disassembler() -> str:
    """The program that prints machine code; it comes with Triton, which is not imported for it."""
    found = importlib.util.find_spec("triton")
    home = Path(found.origin).parent if found is not None and found.origin else Path()
    return str(home / "backends" / "nvidia" / "bin" / "nvdisasm")


def lines(built: MachineCode) -> dict[int, tuple[str, ...]]:
    """Names of the instructions of each line, in order; empty where there is nothing to print them with."""
    try:
        # Cached: it takes a quarter of a second of a processor, even for the smallest kernel.
        key = store.key_of("sass", hashlib.sha256(built.cubin).hexdigest())
        text = store.obtain(key, ".sass", lambda draft: _print(built, draft)).read_text(encoding="utf-8")
    except (OSError, subprocess.SubprocessError):
        return {}
    found: dict[int, list[str]] = {}
    for line, name in _instructions(text, ptx.lines(built.ptx)):
        found.setdefault(line, []).append(name)
    return {line: tuple(names) for line, names in found.items()}


def _print(built: MachineCode, draft: Path) -> None:
    """Write the disassembler's output."""
    code = draft.with_suffix(".cubin")
    code.write_bytes(built.cubin)
    # -ndf: without an analysis of the flow of data, which takes a third of the time and changes nothing
    # that is read here.
    command = [disassembler(), "-ndf", "--print-line-info-ptx", "--print-code", str(code)]
    draft.write_bytes(subprocess.run(command, capture_output=True, check=True).stdout)


def _instructions(text: str, of_ptx: Sequence[int]) -> Iterator[tuple[int, str]]:
    """Iterate over the instructions, each with its line."""
    line = 0
    for row in text.split("\n"):
        if found_line := _PTX_LINE.search(row):
            #     SASS  --- line of the PTX --->  PTX  --- .loc --->  line of the Triton module
            line = of_ptx[int(found_line.group(1)) - 1]
        elif (instruction := _INSTRUCTION.match(row)) and instruction.group(1) not in _AROUND:
            yield line, instruction.group(1)
