"""Predicted time of a matrix product on a GPU, before its kernel is compiled: a model over tiles.

    m = n = k = 4096, bfloat16, tiles of 128 x 128 x 64       matrix units: 182 us
    m = 64, n = 4096, k = 4096, the same tiles                 memory: 9.8 us; 32 of 132 multiprocessors have a tile

A multiprocessor goes through the steps of its tiles. A step takes as long as the slowest of three:

    matrix units         the multiplications
    shared memory        the factors, written once and read by each warp (or group of warps) that multiplies them
    latency              a load, divided by the steps that are loaded ahead

All tiles come in rounds of as many as are resident. In addition, memory moves factors, operands and results once, and
the cache in front of it each tile's own factors. No predicted time was compared with a measured one.

In torch: torch/_inductor/analysis/, and benchmarks on the GPU. Read next: nbcompile/gpu/templates.py
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from nbcompile.gpu.chip import Chip
from nbcompile.gpu.predict import LAUNCH_SECONDS, MATRIX_REACHED, REACHED
from nbcompile.ir.kernel import ProductTile

SHARED_BYTES_PER_CYCLE = 128
"""Bytes that a multiprocessor's shared memory moves in a cycle: 32 banks of 4 bytes."""
CACHE_RATIO = 2.0
"""Rate of the cache in front of memory, over that of memory. An assumption."""
GROUP_ROWS = 64
"""Rows that a group of four warps multiplies at once (``wgmma``), from sm_90 on."""
STEP_CYCLES = 40
"""Cycles of a step that are neither: addresses, barriers, the wait for the last product. An assumption."""
OTHER_REGISTERS = 48
"""Registers of a thread in addition to the tile of the result. An assumption."""
REGISTERS = 255
"""Registers of a thread, at most."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes and types of a product."""

    batch: int
    rows: int
    columns: int
    depth: int
    factor_bytes: int
    """Bytes of an element of a factor, as the matrix units take it."""
    kind: str
    """``narrow`` (16 bits), ``tf32`` or ``float32``, which has no matrix units."""
    has_epilogue: bool = False
    """True if something is computed from the result, which takes registers for another tile: with more warps instead,
    the instructions of the matrix units would be smaller ones."""
    is_convolution: bool = False
    """True if the rows are pixels, and the sum goes over windows around them."""

    @property
    def multiplications(self) -> int:
        """Number of multiplications of numbers."""
        return self.batch * self.rows * self.columns * self.depth


@dataclass(frozen=True, slots=True)
class Prediction:
    """Predicted times of a launch, in seconds."""

    tiles: float
    """The multiprocessors' own."""
    cache: float
    memory: float

    @property
    def seconds(self) -> float:
        """Predicted time of the launch."""
        return LAUNCH_SECONDS + max(self.tiles, self.cache, self.memory)


def rate(chip: Chip, kind: str) -> float:
    """Multiplications a second that a chip reaches."""
    if kind == "float32":
        # A multiplication and an addition are two operations of the data sheet, hence the halves.
        return chip.float_flops / 2 * MATRIX_REACHED
    return chip.matrix_flops * MATRIX_REACHED / (4 if kind == "tf32" else 2)


def shared_bytes(tile: ProductTile, factor_bytes: int) -> int:
    """Shared memory of a program: the factors of all steps that are loaded ahead."""
    return (tile.rows + tile.columns) * tile.depth * factor_bytes * max(tile.stages - 1, 1)


def fits(tile: ProductTile, shape: Shape, chip: Chip) -> bool:
    """Return whether a program has enough shared memory and registers."""
    # The result's tile is spread over the threads' registers, one number of 32 bits in each.
    of_thread = tile.rows * tile.columns // (32 * tile.warps) * (2 if shape.has_epilogue else 1) + OTHER_REGISTERS
    whole = replace(tile, stages=tile.stages + 1)  # one step more is in flight with matrix units that run on
    return shared_bytes(whole, shape.factor_bytes) <= chip.block_shared_bytes and of_thread <= REGISTERS


def resident(tile: ProductTile, shape: Shape, chip: Chip) -> int:
    """Number of programs that a multiprocessor runs at once."""
    of_thread = tile.rows * tile.columns // (32 * tile.warps) + OTHER_REGISTERS
    threads = 32 * tile.warps
    by_shared = chip.shared_bytes // max(shared_bytes(tile, shape.factor_bytes), 1)
    return max(1, min(chip.registers // (threads * of_thread), chip.threads // threads, by_shared, chip.blocks))


def predict(tile: ProductTile, shape: Shape, chip: Chip, moved: int) -> Prediction:
    """The model; ``moved`` are the bytes of factors, operands and results, each once."""
    programs = shape.batch * -(-shape.rows // tile.rows) * -(-shape.columns // tile.columns)
    steps = -(-shape.depth // tile.depth)
    at_once = resident(tile, shape, chip)
    #     300 programs, one at once on each of 132 multiprocessors: two rounds, and 36 are left
    # In the last round most multiprocessors wait.
    rounds, rest = divmod(programs, chip.multiprocessors * at_once)
    seconds = rounds * _round(tile, shape, chip, steps, at_once)
    if rest:
        seconds += _round(tile, shape, chip, steps, -(-rest // chip.multiprocessors))
    bandwidth = REACHED * chip.bytes_per_second
    # Each program loads its rows of one factor and its columns of the other, over the whole depth.
    of_tiles = programs * (tile.rows + tile.columns) * shape.depth * shape.factor_bytes
    return Prediction(seconds, of_tiles / (CACHE_RATIO * bandwidth), moved / bandwidth)


def _round(tile: ProductTile, shape: Shape, chip: Chip, steps: int, at_once: int) -> float:
    """Time in which a multiprocessor has done some tiles at once."""
    multiplied = tile.rows * tile.columns * tile.depth
    cycle_rate = rate(chip, shape.kind) / chip.multiprocessors / chip.cycles_per_second
    busy = at_once * max(multiplied / cycle_rate, _shared_cycles(tile, shape, chip))
    # The steps of one tile depend on each other; several tiles on a multiprocessor overlap.
    one_tile = multiplied / cycle_rate + STEP_CYCLES
    #     stages 4: three steps are loaded ahead, so a step waits for a third of a load at most
    waiting = chip.load_cycles / max(tile.stages - 1, 1)
    # At the beginning and the end nothing overlaps: one latency each.
    return (steps * max(busy, one_tile, waiting) + 2 * chip.load_cycles) / chip.cycles_per_second


def _shared_cycles(tile: ProductTile, shape: Shape, chip: Chip) -> float:
    """Cycles in which shared memory moves the factors of a step."""
    #     128 x 128 on sm_90: rows are read once, columns once by each of 2 groups of 64 rows
    #     4 warps before that, as 2 x 2: each reads 64 rows and 64 columns
    written = tile.rows + tile.columns
    if chip.capability >= 90 and shape.kind == "narrow" and tile.rows >= GROUP_ROWS and tile.warps % 4 == 0:
        read = tile.rows + tile.columns * tile.rows // GROUP_ROWS
    else:  # warps in a grid, as square as may be; each reads its rows and its columns
        down = 1 << (tile.warps.bit_length() // 2)
        read = tile.rows * max(tile.warps // down, 1) + tile.columns * down
    return (written + read) * tile.depth * shape.factor_bytes / SHARED_BYTES_PER_CYCLE
