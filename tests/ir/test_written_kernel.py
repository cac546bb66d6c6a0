"""A kernel that was written for a node, as the target of an extern call."""

from __future__ import annotations

from nbcompile.ir.buffer import Extern
from nbcompile.ir.printer import print_buffer
from nbcompile.ir.written_kernel import WrittenKernel


def test_it_is_printed_by_its_name():
    """A written kernel is printed by its name; the record has its text."""
    kernel = WrittenKernel("copied", "import triton\n", ("x",), 3, 4, 3)
    assert print_buffer(Extern("copied0", kernel, (), {}, "because")) == "copied0 = copied()    # because"
