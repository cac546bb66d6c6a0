"""A Triton kernel whose text was written for one node before the graph is lowered: a template.

    Extern("triton_grouped_mm0", WrittenKernel("triton_grouped_mm", "import ...", ("left", ...), 24, ...), (x, ...))

It is the target of an extern call: nothing is fused with it. Code generation launches it as a generated kernel, so its
machine code is compiled and stored as theirs.

In torch: torch/_inductor/select_algorithm.py (TritonTemplate). Read next: nbcompile/codegen/written_kernels.py
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WrittenKernel:
    """A kernel and its launch; its arguments are tensors."""

    name: str
    """Name of the function in the text."""
    source: str
    """Text of its module."""
    parameters: tuple[str, ...]
    """Names of the arguments, in order."""
    programs: int
    warps: int
    stages: int
    rounds: int = 1
    """Rounds of the loops of one program, at most."""

    def __str__(self) -> str:
        return self.name
