"""The user's Triton kernels that a stored graph launches, by the numbers that torch's table gave them at the trace.

    kernels     [[3, 7]]                          kernel 3 is the value at source 7, which a guard has compared
    constants   [[5, [["BLOCK", 128], ["dtype", ["dtype", "fp32"]]]]]

In torch: KernelSideTable in torch/_higher_order_ops/triton_kernel_wrap.py. Read next:
nbcompile/capture/triton_kernels.py
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Any

from nbcompile import torch_internals
from nbcompile.capture.literals import Unreadable, decode, encode
from nbcompile.capture.source import Source
from nbcompile.capture.trace import Assumptions
from nbcompile.fast.disk_cache.addresses import SourceWriter
from nbcompile.guarding.accessors import SourceCache

_DTYPE = "dtype"
"""``tl.float32``: the one object of Triton's that is a constant argument and has its own name."""


@dataclass(slots=True)
class KernelTable:
    """Kernels and constants of one entry, in the process that reads it."""

    kernels: dict[int, Any] = field(default_factory=dict)
    constants: dict[int, dict[str, Any]] = field(default_factory=dict)

    def __call__(self, kernel: int, constants: int) -> tuple[Any, dict[str, Any]]:
        """The kernel and the constants that had these numbers."""
        return self.kernels[kernel], self.constants[constants]

    def numbers_here(self, kernel: int, constants: int) -> dict[str, int]:
        """Arguments of the operator that launches them in this process."""
        table = torch_internals.triton_kernel_wrap().kernel_side_table
        return {
            "kernel_idx": table.add_kernel(self.kernels[kernel]),
            "constant_args_idx": table.add_constant_args(self.constants[constants]),
        }


def write(assumed: Assumptions, written: SourceWriter) -> list[Any]:
    """The kernels and constants of a trace as JSON.

    Raises:
        NotStorable: a constant is an object of this process, or a kernel has no address.
    """
    kernels = [[number, written.number_of(source)] for number, source in assumed.kernels.items()]
    constants = [
        [number, [[name, _encoded(value)] for name, value in given.items()]]
        for number, given in assumed.launch_constants.items()
    ]
    return [kernels, constants]


def read(data: list[Any], sources: list[Source], known: SourceCache) -> KernelTable:
    """The table again, of the kernels that are at those addresses now.

    Raises:
        Unreadable: no constant was ever written so.
    """
    kernels, constants = data
    return KernelTable(
        {number: known.value(sources[source]) for number, source in kernels},
        {number: {name: _decoded(value) for name, value in given} for number, given in constants},
    )


def _encoded(value: Any) -> Any:
    if type(value).__name__ == _DTYPE and type(value).__module__.startswith("triton."):
        return [_DTYPE, value.name]
    return encode(value)


def _decoded(data: Any) -> Any:
    match data:
        case ["dtype", str(name)]:
            try:
                return importlib.import_module("triton.language").dtype(name)
            except AssertionError:
                raise Unreadable(f"Triton has no type {name}") from None
    return decode(data)
