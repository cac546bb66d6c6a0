"""Predicted time of attention on a GPU: as one kernel, or as two products and a kernel between them.

    choose(AttentionShape(heads=16, rows=1024, keys=1024, width=64, element_bytes=2, kind="narrow"), CHIPS["sm_90"])
    AttentionChoice(fused=5.2e-06, separate=3.4e-05)

One kernel never writes the scores to memory; both multiply the same numbers. Where there are fewer tiles of rows than
multiprocessors, only as many of these multiply. No predicted time was compared with a measured one.

In torch: nothing; torch fuses wherever the pattern matches. Read next: nbcompile/aot/attention.py
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from nbcompile.gpu.chip import Chip
from nbcompile.gpu.predict import LAUNCH_SECONDS, MATRIX_REACHED, REACHED
from nbcompile.gpu.product_times import rate

FUSED_REACHED = 0.75
"""Share of the matrix units' rate that a fused kernel reaches, as FlashAttention-3 reports for an H100."""
MOST_WIDTH = 256
"""Width of a head, at most, for which there is a fused kernel of 16-bit types: FlashAttention's."""
TILE_ROWS = 128
"""Rows of the query that a program of a fused kernel has. An assumption."""


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """Sizes and types of an attention."""

    heads: int
    """Number of matrices: batch times heads."""
    rows: int
    keys: int
    width: int
    element_bytes: int
    kind: str
    """``narrow`` (16 bits), ``tf32`` or ``float32``, as in product_times.py"""
    bias_bytes: int = 0
    """Bytes of the tensors that are added to the scores, masks included."""

    @property
    def multiplications(self) -> int:
        """Number of multiplications in one of the two products."""
        return self.heads * self.rows * self.keys * self.width

    @property
    def score_bytes(self) -> int:
        """Bytes of the scores in memory."""
        return self.heads * self.rows * self.keys * self.element_bytes


@dataclass(frozen=True, slots=True)
class AttentionChoice:
    """Predicted seconds of a fused kernel, and of separate ones."""

    fused: float
    """Infinite where there is no such kernel."""
    separate: float

    @property
    def is_fused(self) -> bool:
        """Return whether one kernel is faster."""
        return self.fused < self.separate

    def text(self) -> str:
        """Both predicted times as text."""
        if self.fused == math.inf:
            return f"no fused kernel has heads of more than {MOST_WIDTH} columns"
        return (
            f"predicted {self.fused * 1e6:.1f} us as one kernel, {self.separate * 1e6:.1f} us as two products and a "
            "kernel between them"
        )


def choose(shape: AttentionShape, chip: Chip) -> AttentionChoice:
    """Predict the time of a fused kernel, and of two products with a kernel between them."""
    bandwidth = REACHED * chip.bytes_per_second
    query, keys = (shape.heads * count * shape.width * shape.element_bytes for count in (shape.rows, shape.keys))
    # A program has 128 rows of one head; multiprocessors without a program are idle.
    busy = min(1.0, shape.heads * -(-shape.rows // TILE_ROWS) / chip.multiprocessors)
    library = rate(chip, shape.kind)
    one_kernel = library / MATRIX_REACHED * FUSED_REACHED * busy
    moved = 2 * query + 2 * keys + shape.bias_bytes  # query, keys, values, result
    #     fused       one launch:     2 products, or query, keys, values and result moved once
    #     separate    three launches: product, softmax, product; the scores go through memory
    fused = LAUNCH_SECONDS + max(2 * shape.multiplications / one_kernel, moved / bandwidth)
    product = max(shape.multiplications / library, (query + keys + shape.score_bytes) / bandwidth)
    # The kernel between reads the scores and writes weights of the same size.
    between = (2 * shape.score_bytes + shape.bias_bytes) / bandwidth
    if shape.width > MOST_WIDTH:
        fused = math.inf
    return AttentionChoice(fused, 3 * LAUNCH_SECONDS + 2 * product + between)
