"""Matrix products with long sums in parts: candidates, and their predicted time.

    64 x 64 by a sum over 65536      tiles of 64 x 64: one program, which is one of 132 multiprocessors
                                     in 64 parts: 64 programs, and a kernel that adds 64 numbers for each result

The parts are a product with a batch (lowering/products.py), in float32; what follows the product is in the kernel that
adds them. They are added in order, so that results are the same in every run. Libraries do so, too.

In torch: torch/_inductor/kernel/mm.py (decompose_k). Read next: nbcompile/gpu/templates.py
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from nbcompile.gpu.chip import Chip
from nbcompile.gpu.predict import LAUNCH_SECONDS, REACHED
from nbcompile.gpu.product_times import Shape, predict
from nbcompile.ir.kernel import ProductTile

MOST_PARTS = 128
LEAST_STEPS = 4
"""Steps of a part, at least: before the first one a program waits for memory."""
PARTIAL_BYTES = 4
"""Bytes of an element of a part's result, which is float32."""


def counts(tile: ProductTile, shape: Shape, chip: Chip) -> Iterator[int]:
    """Numbers of parts to try: more than one, as long as there are not two programs for each multiprocessor."""
    programs = shape.batch * -(-shape.rows // tile.rows) * -(-shape.columns // tile.columns)
    number = 2
    while number <= MOST_PARTS and shape.depth >= number * LEAST_STEPS * tile.depth:
        # Two programs for each multiprocessor keep it busy; more parts would only be more to add.
        if programs * number > 2 * chip.multiprocessors:
            return
        yield number
        number *= 2


def product_seconds(tile: ProductTile, shape: Shape, chip: Chip, factors: int, number: int) -> float:
    """Predicted time of the parts' products; ``factors`` are the bytes of both factors."""
    of_parts = replace(
        shape, batch=shape.batch * number, depth=-(-shape.depth // number), has_epilogue=False
    )  # fmt: skip
    return predict(tile, of_parts, chip, factors + _partial_bytes(shape, number)).seconds


def sum_seconds(shape: Shape, chip: Chip, others: int, number: int) -> float:
    """Predicted time of the kernel that adds them; ``others`` are the bytes of results and of what follows reads."""
    return LAUNCH_SECONDS + (_partial_bytes(shape, number) + others) / (REACHED * chip.bytes_per_second)


def _partial_bytes(shape: Shape, number: int) -> int:
    return number * shape.batch * shape.rows * shape.columns * PARTIAL_BYTES
