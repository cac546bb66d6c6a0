"""SASS, the instructions that a GPU executes, by the line of generated Triton that they come from.

    sass.lines(built)[248]      ("LDG.E.128", "LDG.E.128", "LEA", ...)

``ptxas`` makes it of PTX, for one chip. ``nvdisasm``, which comes with Triton, prints it with the line of the PTX, and
PTX names the line of Triton.

In torch: nothing. Read next: nbcompile/gpu/figures.py
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import triton

from nbcompile.gpu import ptx
from nbcompile.gpu.machine_code import MachineCode

DISASSEMBLER = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "nvdisasm"
#     //## File ".nv_debug_ptx_txt", line 57                   line of PTX, of all that follows
#         /*0070*/    @!P0 LDG.E.128 R4, desc[UR4][R2.64] ;    offset, condition, LDG.E.128
_PTX_LINE = re.compile(r'//## File "\.nv_debug_ptx_txt", line (\d+)')
_INSTRUCTION = re.compile(r"\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?([A-Z][\w.]*)")
_AROUND = frozenset({"NOP", "BRA"})
"""Instructions that fill the end of the code."""


def of_all(kernels: Mapping[str, MachineCode]) -> dict[str, dict[int, tuple[str, ...]]]:
    """Instructions of several kernels, by name, printed side by side."""
    if not kernels:
        return {}
    # Threads are enough: each waits for a process of its own.
    with ThreadPoolExecutor(len(kernels)) as threads:
        return dict(zip(kernels, threads.map(lines, kernels.values()), strict=True))


def lines(built: MachineCode) -> dict[int, tuple[str, ...]]:
    """Names of the instructions of each line, in order; empty where there is nothing to print them with."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(built.cubin)
        file.flush()
        command = [str(DISASSEMBLER), "--print-line-info-ptx", "--print-code", file.name]
        try:
            text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        except (OSError, subprocess.SubprocessError):
            return {}
    found: dict[int, list[str]] = {}
    for line, name in _instructions(text, ptx.lines(built.ptx)):
        found.setdefault(line, []).append(name)
    return {line: tuple(names) for line, names in found.items()}


def _instructions(text: str, of_ptx: Sequence[int]) -> Iterator[tuple[int, str]]:
    """Iterate over the instructions, each with its line."""
    line = 0
    for row in text.split("\n"):
        if found_line := _PTX_LINE.search(row):
            #     SASS  --- line of the PTX --->  PTX  --- .loc --->  line of the Triton module
            line = of_ptx[int(found_line.group(1)) - 1]
        elif (instruction := _INSTRUCTION.match(row)) and instruction.group(1) not in _AROUND:
            yield line, instruction.group(1)
