"""Profile of compiled code: measured times of kernels and of the source lines that they compute, as plain data.

    profile.kernels[0]     KernelTime("0/0.inference.kernel0", "add, sin", (Place("model.py", 3),), calls=10, ...)
    profile.lines[0]       LineTime("model.py", 3, "y = (x + b).sin()", kernels=("0/0.inference.kernel0",), ...)

In torch: torch/_inductor/analysis/profile_analysis.py. Read next: nbcompile/tools/profile.py
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any

FRAME = "nbcompile "
"""Prefix of the range of a compiled frame in torch.profiler: ``nbcompile 0/0``."""
COMPILE = "nbcompile stage: "
"""Prefix of the range of a stage of compilation: ``nbcompile stage: lowering``."""


@dataclass(frozen=True, slots=True)
class Place:
    """A line of the program."""

    file: str
    line: int


@dataclass(frozen=True, slots=True)
class Machine:
    """Measured limits of this machine, with the threads that torch uses."""

    bytes_per_second: float
    """A large copy, read and written."""
    flops_per_second: float
    """A product of float32 matrices."""
    threads: int


@dataclass(frozen=True, slots=True)
class KernelTime:
    """One kernel, or one call of an operator, over all its calls."""

    id: str
    """Id in the record."""
    operators: str
    places: tuple[Place, ...]
    calls: int
    microseconds: float
    bytes: int
    """Size of its input and output tensors: each is read or written once, at least in part."""
    flops: int = 0
    """Floating-point operations of a matrix product or convolution; 0 where they are not known."""

    def least_microseconds(self, machine: Machine) -> float:
        """Least possible time: of memory or of arithmetic, whichever limits."""
        return max(self.bytes / machine.bytes_per_second, self.flops / machine.flops_per_second) * 1e6

    def roofline(self, machine: Machine) -> float:
        """Least possible time over the measured time."""
        return self.least_microseconds(machine) / self.microseconds if self.microseconds else 0.0


@dataclass(frozen=True, slots=True)
class LineTime:
    """A source line with the kernels that compute it."""

    place: Place
    text: str
    kernels: tuple[str, ...]
    microseconds: float
    """Total time of these kernels, including those that compute other lines, too (``shared``)."""
    bytes: int
    """Bytes of these kernels."""
    roofline: float
    """Least possible time of these kernels over their measured time."""
    shared: tuple[Place, ...] = ()


@dataclass(frozen=True, slots=True)
class Profile:
    """Everything that was measured."""

    title: str
    calls: int
    """Calls of compiled frames."""
    microseconds: float
    """Time inside compiled frames and their backward graphs, without the compilation of what they call."""
    compile_microseconds: float
    """Time of compilation while the profile was taken."""
    kernels: tuple[KernelTime, ...]
    lines: tuple[LineTime, ...]
    machine: Machine
    peak_bytes: int = 0
    """Most memory that tensors held at once, beyond what was held at the start."""

    @property
    def kernel_microseconds(self) -> float:
        """Time inside kernels and operators."""
        return sum(kernel.microseconds for kernel in self.kernels)

    def to_json(self, indent: int | None = None) -> str:
        """The profile as JSON."""
        plain: dict[str, Any] = dataclasses.asdict(self)
        return json.dumps(plain, indent=indent)
