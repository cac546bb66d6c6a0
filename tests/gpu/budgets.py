"""The needs of each case page on three GPUs, by ptxas's report: one line per page in budgets.txt, in this folder.

    python -m tests.gpu.budgets              the lines that differ from the file
    python -m tests.gpu.budgets --write      the file again, of what is generated now

    softmax  sm_80 26 0 16 4 ex2.approx.f32  |  sm_90 ...
             registers of a thread, spilled bytes, bytes of shared memory, widest access in bytes, approximate instructions

Of several kernels it is the most registers, spills and shared memory, and the widest access of the kernel whose widest
is the narrowest. Nothing runs: the figures are those of machine code.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from nbcompile.backends import attribute_of, run_through_aten
from nbcompile.gpu import ptx, target
from nbcompile.gpu.chip import CHIPS, Chip
from nbcompile.gpu.graph_options import GraphOptions
from nbcompile.gpu.machine_code import MachineCode
from tests.cases import cases

FILE = Path(__file__).with_suffix(".txt")
TOLERANCE = 0.1
"""Of registers and shared memory: another release of ptxas may need so much more."""
APPROXIMATE = re.compile(r"(?:approx|^div\.full)")
_ACCESS = re.compile(r"^(?:ld|st)\.global\b")


@dataclass(frozen=True, slots=True)
class Budget:
    """The budget of one page on one GPU."""

    registers: int = 0
    spilled_bytes: int = 0
    shared_bytes: int = 0
    widest: int = 0
    approximate: tuple[str, ...] = ()

    def text(self) -> str:
        """The text of the budget in the file."""
        return (
            f"{self.registers} {self.spilled_bytes} {self.shared_bytes} {self.widest} "
            f"{','.join(self.approximate) or '-'}"
        )

    @classmethod
    def parse(cls, text: str) -> Budget:
        """The budget of a text from the file."""
        *numbers, names = text.split()
        return cls(*map(int, numbers), () if names == "-" else tuple(names.split(",")))

    def fits(self, found: Budget) -> bool:
        """Return whether ``found`` needs at most this budget, and is as exact."""
        return (
            found.registers <= self.registers * (1 + TOLERANCE)
            and found.shared_bytes <= self.shared_bytes * (1 + TOLERANCE)
            and found.spilled_bytes <= self.spilled_bytes
            and found.widest >= self.widest
            and set(found.approximate) <= set(self.approximate)
        )


def of(kernels: Sequence[MachineCode]) -> Budget:
    """The budget of the kernels of a page."""
    if not kernels:
        return Budget()
    parsed = [ptx.parse(kernel.ptx) for kernel in kernels]
    names = {instruction.name for function in parsed for instruction in function.instructions}
    return Budget(
        max(kernel.registers for kernel in kernels),
        max(kernel.spilled_bytes for kernel in kernels),
        max(kernel.shared_bytes for kernel in kernels),
        min(map(_widest, parsed)),
        tuple(sorted(name for name in names if APPROXIMATE.search(name))),
    )


def _widest(function: ptx.Function) -> int:
    """The bytes of a kernel's widest load or store."""
    return max((_bytes(access) for access in function.instructions if _ACCESS.match(access.name)), default=0)


def _bytes(access: ptx.Instruction) -> int:
    vector = next((int(part[1:]) for part in access.modifiers if re.fullmatch(r"v\d", part)), 1)
    return vector * int(access.type[1:]) // 8


def kernels(path: Path, chip: Chip) -> list[MachineCode]:
    """The machine code of a page's graphs."""
    found: list[MachineCode] = []

    def stage_compiler(_: Any, stage: str) -> Any:
        def compile_one(graph: torch.fx.GraphModule, examples: Sequence[Any]) -> Any:
            keep_sharing = stage == "inference"
            attribute = functools.partial(attribute_of, graph)
            made = target.compile_graph(graph, examples, chip, GraphOptions(attribute, keep_sharing=keep_sharing))
            found.extend(ready.built for ready in made.program.kernels.values())
            return run_through_aten(graph, examples, stage)

        return compile_one

    cases.made(path, stage_compiler)
    return found


def line(path: Path, chips: Iterable[Chip] = CHIPS.values()) -> str:
    """The line of a page."""
    return f"{path.stem}  " + "  |  ".join(f"{chip.name} {of(kernels(path, chip)).text()}" for chip in chips)


@functools.cache
def golden() -> dict[str, dict[str, Budget]]:
    """The budgets of the file, by page and GPU."""
    read = [text.split(maxsplit=1) for text in FILE.read_text(encoding="utf-8").splitlines() if text[:1] != "#"]
    by_page = {name: [part.split(maxsplit=1) for part in rest.split("|")] for name, rest in read}
    return {name: {chip: Budget.parse(text) for chip, text in parts} for name, parts in by_page.items()}


HEAD = "# Written by `python -m tests.gpu.budgets --write`; tests/gpu/budgets.py says what the columns are.\n"


def main(write: bool) -> None:
    """Write the file, or print the lines that differ from it."""
    lines = []
    for path in cases.CASES:
        lines.append(line(path))
        if write or lines[-1] not in FILE.read_text(encoding="utf-8").splitlines():
            print(lines[-1], flush=True)
    if write:
        FILE.write_text(HEAD + "".join(f"{text}\n" for text in lines), encoding="utf-8")


if __name__ == "__main__":
    main("--write" in sys.argv)
