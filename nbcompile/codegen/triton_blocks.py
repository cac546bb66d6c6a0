"""Blocks of Triton kernels: the loop variables of a block's elements, and the mask of those that exist.

    a block of 1024 elements of loops 64 x 100      i1 = element % 100; i0 = element // 100; mask (element < 6400)

In torch: torch/_inductor/codegen/simd.py (IterationRanges). Read next:
nbcompile/codegen/triton.py
"""

from __future__ import annotations

from collections.abc import Sequence

from nbcompile.codegen.triton_values import TritonEmitter, index_text
from nbcompile.codegen.writer import SourceWriter
from nbcompile.ir import index as indexing
from nbcompile.ir.index import Index
from nbcompile.ir.kernel import Loop


def length(size: Index) -> int | str:
    """A length as a number, or as an expression of the kernel's sizes."""
    known = indexing.constant(size)
    return index_text(size) if known is None else known


def begin_block(emitter: TritonEmitter, name: str, length: Index, block: int, loops: Sequence[Loop]) -> None:
    """Begin a block: define the loop variables of its elements, and the mask of those that exist."""
    known = indexing.constant(length)
    # No mask where every block is full. A loop of no iteration needs one: 0 is a multiple of any block.
    emitter.mask = f"({name} < {index_text(length)})" if known is None or known % block or not known else ""
    emitter.block_mask, emitter.axes = emitter.mask, ()
    emitter.block, emitter.loops = name, tuple(loops)
    emitter.block_variables = frozenset(loop.variable for loop in loops)
    split(emitter.writer, name, loops)


def end_block(emitter: TritonEmitter) -> None:
    """End a block: the next statements are outside of it."""
    emitter.axes, emitter.block_mask = (), ""
    emitter.mask, emitter.block, emitter.loops, emitter.block_variables = "", "", (), frozenset()


def per_thread(emitter: TritonEmitter, elements: int) -> int:
    """Elements of a block that each thread has."""
    return max(elements // (32 * emitter.warps), 1)


def split(writer: SourceWriter, flat: str, loops: Sequence[Loop]) -> None:
    """Define the loop variables from a flat index."""
    #     loops 4 x 8 x 100    i2 = flat % 100    i1 = flat // 100 % 8    i0 = flat // 800
    # The first variable needs no remainder: elements beyond the last one are masked.
    step: Index = indexing.ONE
    for at, loop in reversed(list(enumerate(loops))):
        text = flat if step == indexing.ONE else f"{flat} // ({index_text(step)})"
        writer.line(
            f"{loop.variable.name} = {text}"
            if at == 0
            else f"{loop.variable.name} = ({text}) % ({index_text(loop.size)})"
        )
        step = step * loop.size
