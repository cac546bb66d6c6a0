"""Memory of a simulated GPU: every access is checked, and every byte records its last writer and readers.

    memory = GlobalMemory()
    address = memory.copy_in(x, "x")          0x7f0000000000; a gap of 4 KiB before and after it
    memory.load(address + [0, 4, 8], 4, actors, "x1 = tl.load(...)")
    memory.store(address + 4 * n, ...)      Fault: 1 thread outside of every tensor; the first 4 bytes past the end of x

A fault is an access outside of all tensors, an address that is not a multiple of the access's width, or a race: two
threads of different warps access a byte, at least one of them writes, and no barrier is between the accesses (no
barrier orders threads of different blocks). Two writes of the same value are no race, nor are two atomic updates; an
atomic update races with any other access.

In torch: nothing; on a GPU compute-sanitizer finds the same. Read next: nbcompile/gpu/simulator.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from nbcompile.gpu import tiles
from nbcompile.gpu.values import Array


class Fault(RuntimeError):
    """An access that a GPU reports as a fault, or a race whose result is undefined."""


class Race(Fault):
    """Unordered accesses of two threads to one byte; at least one is a write."""


@dataclass(frozen=True, slots=True)
class Actors:
    """Threads of an access: for each its block, its warp in the block, and the number of barriers that it passed."""

    block: Array
    warp: Array
    barriers: Array

    def key(self) -> Array:
        """The three numbers in one: 32 bits of block, 8 of warp, 24 of barriers."""
        #     63 ... 32   31 ... 24   23 ... 0
        #     block       warp        barriers
        # A block has at most 32 warps (1024 threads), and a grid fewer than 2**31 - 1 blocks, so no thread has one of
        # the numbers for "several" below.
        return (self.block.astype(np.int64) << 32) | (self.warp.astype(np.int64) << 24) | self.barriers

    def take(self, at: Array) -> Actors:
        """The actors at some positions."""
        return Actors(self.block[at], self.warp[at], self.barriers[at])


NO_ACTOR = -1
SEVERAL_WARPS = 255
SEVERAL_BLOCKS = 2**31 - 1


def _unordered(before: Array, now: Array) -> Array:
    """Return whether two accesses are unordered: no barrier is between them."""
    # Accesses of a warp are ordered: here its threads execute one instruction after the other. A barrier orders the
    # warps of a block; nothing orders blocks while a kernel runs.
    same_block = before >> 32 == now >> 32
    ordered = (before >> 24 == now >> 24) | (before & 0xFFFFFF < now & 0xFFFFFF)
    return (before != NO_ACTOR) & ~(same_block & ordered)


@dataclass(slots=True)
class Bytes:
    """Bytes of memory with their last writers and readers."""

    content: Array
    check_races: bool = True
    # One writer and one reader for each byte are enough. A later access must be ordered after all earlier ones. Those
    # of one warp are ordered, so the last represents all; of several warps or blocks only their number matters: more
    # than one.
    writer: Array = field(init=False)
    reader: Array = field(init=False)
    updater: Array | None = field(init=False, default=None)
    """The last atomic update of each byte; None before the first."""
    was_read: Array = field(init=False)
    was_written: Array = field(init=False)

    def __post_init__(self) -> None:
        """Start with no reader and no writer of any byte."""
        size = self.content.size if self.check_races else 0
        self.writer = np.full(size, NO_ACTOR, np.int64)
        self.reader = np.full(size, NO_ACTOR, np.int64)
        self.was_read = np.zeros(self.content.size, bool)
        self.was_written = np.zeros(self.content.size, bool)

    def load(self, offsets: Array, width: int, actors: Actors, what: str, idle: Array | None = None) -> Array:
        """``uint8[threads, width]``; reads of threads that are idle are in no race."""
        at = offsets[:, None] + np.arange(width)
        self.was_read[at] = True
        if self.check_races:
            noted = slice(None) if idle is None else ~idle
            self._note_reads(at[noted], actors.key()[noted, None], what)
        return self.content[at]

    def _expect_no_update(self, at: Array, now: Array, what: str) -> None:
        if self.updater is not None and (race := _unordered(self.updater[at], now)).any():
            raise Race(f"{what}: {_threads(race)} what another warp or block updates, with no barrier between")

    def expect_no_reader(self, offsets: Array, width: int, actors: Actors, what: str) -> None:
        """Raise if a later write to these bytes would race with a read."""
        now = actors.key()[:, None]
        if self.check_races and (race := _unordered(self.reader[offsets[:, None] + np.arange(width)], now)).any():
            raise Race(f"{what}: {_threads(race)} over what another warp or block read, with no barrier between")

    def note_updates(self, offsets: Array, width: int, actors: Actors, what: str) -> None:
        """Check and record atomic updates: they race with plain reads and writes, not with one another."""
        if not self.check_races:
            return
        at, now = offsets[:, None] + np.arange(width), actors.key()[:, None]
        for before, did in ((self.reader, "read"), (self.writer, "wrote")):
            if (race := _unordered(before[at], now)).any():
                raise Race(f"{what}: {_threads(race)} what another warp or block {did}, with no barrier between")
        if self.updater is None:
            self.updater = np.full(self.content.size, NO_ACTOR, np.int64)
        several = _unordered(self.updater[at], now) & (self.updater[at] >> 32 != now >> 32)
        self.updater[at] = np.where(several, np.int64(SEVERAL_BLOCKS) << 32, now + 0 * at)
        # If several threads of this instruction update a byte, one is recorded, or "several" if they are of several
        # blocks. Other warps of a block are not distinguished: a race with a plain access of the warp that updated last
        # is missed.
        last = self.updater[at]
        self.updater[at[(last != now) & (last >> 32 != now >> 32)]] = np.int64(SEVERAL_BLOCKS) << 32

    def exchange(self, offset: int, width: int, change: Callable[[Array], Array], what: str) -> Array:
        """An atomic update of one element: what it was."""
        self.was_read[offset : offset + width] = self.was_written[offset : offset + width] = True
        before = self.content[offset : offset + width].copy()
        self.content[offset : offset + width] = change(before)
        return before

    def _note_reads(self, at: Array, now: Array, what: str) -> None:
        if (race := _unordered(self.writer[at], now)).any():
            raise Race(f"{what}: {_threads(race)} what another warp or block wrote, with no barrier between")
        self._expect_no_update(at, now, what)
        before = self.reader[at]
        #     last reader                          noted now
        #     none, or in order before this one    this one
        #     another warp, no barrier between     SEVERAL_WARPS, at this count of barriers
        #     another block                        SEVERAL_BLOCKS: no write is in order after both
        recent = _unordered(before, now)
        several = (SEVERAL_WARPS << 24) | (now & ~np.int64(0xFF << 24))
        elsewhere = (before >> 32 != now >> 32) & recent
        noted = np.where(elsewhere, np.int64(SEVERAL_BLOCKS) << 32, np.where(recent, several, now + 0 * at))
        self.reader[at] = noted
        shared = self.reader[at] != noted  # by another thread of the same instruction
        if shared.any():
            last = self.reader[at]
            blocks = last >> 32 != noted >> 32
            self.reader[at[shared]] = np.where(blocks, np.int64(SEVERAL_BLOCKS) << 32, several)[shared]

    def store(self, offsets: Array, values: Array, actors: Actors, what: str) -> None:
        """Write ``uint8[threads, width]``."""
        at = offsets[:, None] + np.arange(values.shape[1])
        now = actors.key()[:, None] + 0 * at
        if self.check_races:
            self._expect_no_update(at, now, what)
        if self.check_races and (race := _unordered(self.reader[at], now)).any():
            raise Race(f"{what}: {_threads(race)} over what another warp or block read, with no barrier between")
        # Several warps often store the same value to one address: Triton does so if a block has fewer elements than
        # threads. The memory has this value, whichever store comes last.
        if self.check_races and (race := _unordered(self.writer[at], now) & _differ(self.content[at], values)).any():
            raise Race(f"{what}: {_threads(race)} over what another warp or block wrote, with no barrier between")
        # If threads of several warps write to one address in this instruction, the last value remains: the threads that
        # wrote another value are in a race.
        self.content[at] = values
        self.was_written[at] = True
        if self.check_races:
            self.writer[at] = now
            if (race := _unordered(self.writer[at], now) & _differ(self.content[at], values)).any():
                raise Race(f"{what}: {_threads(race)} another value to the same address")


def _differ(before: Array, now: Array) -> Array:
    """Return where bytes differ by more than rounding.

    Several warps may compute and store one value. If the compiler contracts ``x * x + y * y`` to a fused
    multiply-add, the rounding may differ between warps.
    """
    different = before != now
    if now.shape[1] % 4 or not different.any():
        return different
    old, new = (np.ascontiguousarray(part).view(np.float32) for part in (before, now))
    # The type is unknown, so integers of some millions that differ by one are accepted, too.
    close = np.isclose(old, new, rtol=1e-5, atol=0, equal_nan=True)
    return different & ~np.repeat(close, 4, axis=1)


def _threads(race: Array) -> str:
    count = int(race.any(-1).sum())
    return f"{count} thread{'' if count == 1 else 's'} in a race, accessing"


FIRST_ADDRESS = 0x7F00_0000_0000
GAP = 4096
"""Bytes between two tensors, so that no tensor is aligned better than the gap implies."""
ALIGNMENT = 512
"""Alignment of torch's caching allocator."""


@dataclass(slots=True)
class GlobalMemory:
    """Global memory: copies of tensors, at invented addresses."""

    check_races: bool = True
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    contents: list[Bytes] = field(default_factory=list)
    storages: dict[int, int] = field(default_factory=dict)
    """Positions by the address of the storage: views of one storage share its bytes."""
    watches: dict[int, tiles.Watch] = field(default_factory=dict)
    """Records, by position, of the threads that access the elements of a tensor."""
    scratch: int = -1
    """Position of scratch memory, which is no part of a result."""

    def copy_in(self, tensor: torch.Tensor, name: str) -> int:
        """Copy a tensor in; return the address of its first element. Its whole storage is accessible, as on a GPU.

        Args:
            tensor: On the CPU, dense or a view.
            name: For messages of faults.
        """
        #     storage of x    [ . . x0 x1 x2 x3 . . ]    x and x[1:] are two addresses in one range
        #     start             a multiple of 512, as torch's allocator gives it
        storage = tensor.untyped_storage()
        at = self.storages.get(storage.data_ptr()) if storage.nbytes() else None
        if at is None:
            content = torch.empty(0, dtype=torch.uint8).set_(storage).numpy()
            at = self.copy_bytes_in(content, name)
            self.storages[storage.data_ptr()] = at
            if (watch := tiles.watch(tensor, name)) is not None:
                self.watches[at] = watch
        return self.starts[at] + int(tensor.storage_offset()) * tensor.element_size()

    def take_scratch(self, size: int) -> int:
        """Return the address of scratch memory for the programs of one launch."""
        self.scratch = self.copy_bytes_in(np.zeros(size, np.uint8), "scratch memory")
        return self.starts[self.scratch]

    def copy_bytes_in(self, content: Array, name: str) -> int:
        """Copy bytes to a new range after all others; return its position."""
        # With a gap between tensors, an access past the end is a fault. On a GPU it would usually read the next
        # allocation.
        start = FIRST_ADDRESS if not self.ends else -(-(self.ends[-1] + GAP) // ALIGNMENT) * ALIGNMENT
        self.starts.append(start)
        self.ends.append(start + content.size)
        self.names.append(name)
        self.contents.append(Bytes(content, self.check_races))
        return len(self.starts) - 1

    def load(self, addresses: Array, width: int, actors: Actors, what: str, idle: Array | None = None) -> Array:
        """``uint8[threads, width]``; reads of threads that are idle are in no race.

        Raises:
            Fault: outside of every tensor, misaligned, or a race.
        """
        found = np.empty((len(addresses), width), np.uint8)
        for at, chosen, offsets in self._by_tensor(addresses, width, what):
            found[chosen] = self.contents[at].load(
                offsets, width, actors.take(chosen), what, None if idle is None else idle[chosen]
            )
            if at in self.watches:
                self.watches[at].note(offsets, width, actors.block[chosen], written=False)
        return found

    def store(self, addresses: Array, values: Array, actors: Actors, what: str) -> None:
        """Write ``uint8[threads, width]``; raises as :meth:`load`."""
        for at, chosen, offsets in self._by_tensor(addresses, values.shape[1], what):
            self.contents[at].store(offsets, values[chosen], actors.take(chosen), what)
            if at in self.watches:
                self.watches[at].note(offsets, values.shape[1], actors.block[chosen], written=True)

    def note_updates(self, addresses: Array, width: int, actors: Actors, what: str) -> None:
        """Check and record atomic updates; raises as :meth:`load`."""
        for at, chosen, offsets in self._by_tensor(addresses, width, what):
            self.contents[at].note_updates(offsets, width, actors.take(chosen), what)
            if at in self.watches:
                self.watches[at].note(offsets, width, actors.block[chosen], written=True)

    def exchange(self, address: int, width: int, change: Callable[[Array], Array], what: str) -> Array:
        """An atomic update of one element: what it was."""
        ((at, _, (offset,)),) = self._by_tensor(np.array([address], np.uint64), width, what)
        return self.contents[at].exchange(int(offset), width, change, what)

    def touched(self) -> int:
        """Bytes that were read, and bytes that were written, each counted once: a lower bound of the traffic."""
        tensors = (content for at, content in enumerate(self.contents) if at != self.scratch)
        return sum(int(content.was_read.sum()) + int(content.was_written.sum()) for content in tensors)

    def _by_tensor(self, addresses: Array, width: int, what: str) -> Sequence[tuple[int, Array, Array]]:
        starts, ends = np.array(self.starts, np.uint64), np.array(self.ends, np.uint64)
        # The last tensor that begins at or before the address. It is the right one only if the
        # access ends before that tensor does.
        at = np.searchsorted(starts, addresses, "right").astype(np.int64) - 1
        inside = (at >= 0) & (addresses + np.uint64(width) <= ends[np.maximum(at, 0)])
        if not inside.all():
            raise Fault(f"{what}: {self._outside(addresses[~inside], at[~inside], width)}")
        if (addresses % np.uint64(width)).any():
            raise Fault(f"{what}: an address is no multiple of the {width} bytes that are accessed")
        return [
            (int(index), chosen, (addresses[chosen] - starts[index]).astype(np.int64))
            for index in np.unique(at)
            for chosen in (np.nonzero(at == index)[0],)
        ]

    def _outside(self, addresses: Array, at: Array, width: int) -> str:
        """Describe an address out of bounds: the nearest tensor, and whether the address is before or after it."""
        count, first, index = len(addresses), int(addresses[0]), int(at[0])
        threads = f"{count} thread{'' if count == 1 else 's'} outside of every tensor; the first "
        if index + 1 < len(self.starts) and (index < 0 or self.starts[index + 1] - first < first - self.ends[index]):
            return f"{threads}{self.starts[index + 1] - first} bytes before {self.names[index + 1]}"
        return f"{threads}{first + width - self.ends[index]} bytes past the end of {self.names[index]}"
