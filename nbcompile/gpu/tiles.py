"""Tiles of a launch: which program reads and writes which elements of a tensor.

    x: float32[4, 1000], softmax over rows        program 0 reads row 0, program 1 row 1, ...
    b: float32[1000], added to each row           every program reads all of it

Accesses are recorded element by element while the simulator runs, and sampled to a small grid for the drawing. A tensor
is drawn as it is in memory: its rows are runs of adjacent addresses.

In torch: nothing. Read next: nbcompile/gpu/memory.py
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from nbcompile.gpu.values import Array

NO_PROGRAM, SEVERAL = -1, -2
"""Programs of an element that none accesses, or more than one."""
ROWS, COLUMNS, COLUMNS_OF_ONE_ROW = 16, 32, 64
"""Cells of the grid, at most."""
MOST_ELEMENTS = 1 << 26
"""Elements of a tensor that is watched, at most: each takes 8 bytes."""


@dataclass(slots=True)
class Watch:
    """One tensor while a kernel runs."""

    name: str
    start: int
    """Byte of its first element."""
    item: int
    """Bytes of an element."""
    height: int
    width: int
    first: Array = field(init=False)
    last: Array = field(init=False)
    is_read: bool = False
    is_written: bool = False

    def __post_init__(self) -> None:
        """Begin with no access."""
        # Lowest and highest program are enough to distinguish none, one and several: 8 bytes per element.
        self.first = np.full(self.height * self.width, np.iinfo(np.int32).max, np.int32)
        self.last = np.full(self.height * self.width, NO_PROGRAM, np.int32)

    def note(self, offsets: Array, width: int, programs: Array, *, written: bool) -> None:
        """Note an access of ``width`` bytes at each of some offsets, by one program each."""
        self.is_read, self.is_written = self.is_read or not written, self.is_written or written
        elements = (offsets - self.start) // self.item
        # A vector access covers several elements, a store of one byte of a wider element still one.
        for step in range(max(width // self.item, 1)):
            inside = (elements + step >= 0) & (elements + step < self.first.size)
            at, by = (elements + step)[inside], programs[inside].astype(np.int32)
            # Unbuffered: an element may occur several times among the threads.
            np.minimum.at(self.first, at, by)
            np.maximum.at(self.last, at, by)

    def tile(self) -> Tile:
        """The grid."""
        by = np.where(self.last == NO_PROGRAM, NO_PROGRAM, np.where(self.first == self.last, self.first, SEVERAL))
        most = COLUMNS if self.height > 1 else COLUMNS_OF_ONE_ROW
        rows, columns = min(self.height, ROWS), min(self.width, most)
        down, across = (
            np.arange(count) * size // count for count, size in ((rows, self.height), (columns, self.width))
        )
        sampled = by.reshape(self.height, self.width)[down[:, None], across[None, :]]
        access = " and ".join(word for word, does in (("read", self.is_read), ("written", self.is_written)) if does)
        return Tile(self.name, access, self.height, self.width, rows, columns, tuple(map(int, sampled.ravel())))


@dataclass(frozen=True, slots=True)
class Tile:
    """The programs of some elements of a tensor, in a grid."""

    name: str
    access: str
    """``read``, ``written``, or both."""
    height: int
    width: int
    rows: int
    columns: int
    programs: tuple[int, ...]
    """Row by row."""


def watch(tensor: torch.Tensor, name: str) -> Watch | None:
    """Begin to note the accesses to a tensor; None if it has no element, or covers too many to note each."""
    if not tensor.numel():
        return None
    sizes = sorted(zip(tensor.stride(), tensor.shape, strict=True))
    #     float32[4, 1000] with strides (1000, 1)       4 rows of 1000
    #     its transpose                                 the same: in memory order
    #     the same with strides (1024, 1)               one row, as there are gaps
    adjacent = [size for stride, size in sizes if stride == 1 and size > 1]
    elements = 1 + sum((size - 1) * stride for stride, size in sizes)
    if elements > MOST_ELEMENTS:
        return None
    width = adjacent[-1] if adjacent else 1
    if elements % width or width == 1:
        width = elements
    item = tensor.element_size()
    return Watch(name, int(tensor.storage_offset()) * item, item, elements // width, width)
