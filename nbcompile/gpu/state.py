"""State of simulated thread blocks, for copies and matrix instructions: registers, shared memory, what is in flight.

    state.read("%r1", "u32")       one number a thread
    state.copies                   asynchronous copies that have begun

In torch: nothing. Read next: nbcompile/gpu/copies.py
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from nbcompile.gpu.costs import Costs
from nbcompile.gpu.memory import Actors, Bytes, GlobalMemory
from nbcompile.gpu.ptx import Function, Instruction
from nbcompile.gpu.values import Array

if TYPE_CHECKING:
    from nbcompile.gpu.barriers import MemoryBarriers

WARP = 32
"""Threads of a warp."""


@dataclass(slots=True)
class Copy:
    """Asynchronous copy that some threads began with one instruction."""

    threads: Array
    offsets: Array
    """Offsets in the shared memory of all blocks."""
    values: Array
    group: Array
    """Group of copies, for each of ``threads``."""
    what: str


@dataclass(slots=True)
class Product:
    """Matrix product in flight, with the memory and registers that must not be accessed meanwhile."""

    group: Array
    """Group of products, for each of ``threads``."""
    threads: Array
    registers: frozenset[str]
    read: Array
    """Bytes of shared memory that it reads."""


# A protocol, because the simulator imports the modules that execute copies and products, and these
# must not import it in turn.
class State(Protocol):
    """Interface of ``simulator.Blocks``."""

    function: Function
    parameters: dict[str, int]
    """Arguments of the kernel, by name."""
    memory: GlobalMemory
    count: int
    """Threads of all blocks."""
    at: Array
    """Position of each thread in the instructions."""
    waiting: Array
    """True for threads that wait at a barrier."""
    block: Array
    """Block of each thread, counted from the first one that is simulated at once."""
    shared: Bytes
    shared_bytes: int
    """Bytes of shared memory of a block."""
    committed: Array
    """Groups of asynchronous copies that each thread has closed."""
    copies: list[Copy]
    arriving: Array
    """Bytes of shared memory that a copy in ``copies`` will write."""
    products_committed: Array
    products: list[Product]
    registers_in_flight: frozenset[str]
    barriers: Array
    """Number of barriers that each thread has passed."""
    warp_of_all: Array
    """Warp of each thread, counted through all blocks."""
    memory_barriers: MemoryBarriers
    bulk_committed: Array
    """Groups of stores of tiles that each thread has closed."""
    outgoing: list[Copy]
    """Stores of tiles that may still read shared memory."""
    costs: dict[int, Costs]
    """Costs by the line of the module."""

    def describe(self, instruction: Instruction) -> str:
        """Instruction and line, for the texts of faults."""

    def count_global(self, instruction: Instruction, addresses: Array, width: int, threads: Array) -> None:
        """Count the sectors of an access to global memory."""

    def read(self, operand: str, kind: str) -> Array:
        """Operand as numbers of a type."""

    def bits(self, register: str) -> Array:
        """Bits of a register."""

    def write(self, register: str, numbers: Array, kind: str, active: Array) -> None:
        """Give a register a new value in the active threads."""

    def address(self, operand: str) -> Array:
        """``[%rd1+16]`` as a number of bytes."""

    def actors(self, threads: Array) -> Actors:
        """Block, warp and barrier count of each thread."""

    def in_shared(self, instruction: Instruction, addresses: Array, width: int, threads: Array) -> Array:
        """Offsets in the shared memory of all blocks, checked."""

    def load_bytes(self, instruction: Instruction, operand: str, width: int, threads: Array) -> Array:
        """``uint8[threads, width]`` from the memory that the instruction names."""

    def load_from_global(self, instruction: Instruction, operand: str, width: int, threads: Array) -> Array:
        """``uint8[threads, width]`` from global memory."""

    def store_bytes(self, instruction: Instruction, operand: str, values: Array, threads: Array) -> None:
        """Write ``uint8[threads, width]``."""
