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
    """A kernel and its launch; its arguments are tensors, and sizes that only a call knows."""

    name: str
    """Name of the function in the text."""
    source: str
    """Text of its module."""
    parameters: tuple[str, ...]
    """Names of the arguments, in order."""
    programs: int | str
    """Number of programs, as Python over the sizes."""
    warps: int
    stages: int
    rounds: int | str = 1
    """Rounds of the loops of one program, at most."""
    sizes: tuple[str, ...] = ()
    """Names of symbolic sizes, arguments after the tensors."""

    def __str__(self) -> str:
        return self.name
