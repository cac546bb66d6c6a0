"""Blocks of Triton kernels: loop variables computed from a flat index."""

from __future__ import annotations

from nbcompile.codegen.triton_blocks import length, split
from nbcompile.codegen.writer import SourceWriter
from nbcompile.ir.index import index, loop_variable
from nbcompile.ir.kernel import Loop


def test_a_flat_index_is_split():
    """The last loop varies fastest, and the first loop needs no remainder."""
    writer = SourceWriter()
    split(writer, "element", [Loop(loop_variable(at), index(size)) for at, size in enumerate((4, 5, 6))])
    assert writer.text().split("\n")[:3] == [
        "i2 = (element) % (6)", "i1 = (element // (6)) % (5)", "i0 = element // (30)",
    ]  # fmt: skip
    assert length(index(6)) == 6
