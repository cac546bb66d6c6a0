"""Blocks of a simulated kernel that run together: registers, shared memory, and one instruction for all their threads.

    blocks = Blocks(...); blocks.run()      each step runs the threads that are at the earliest instruction

In torch: nothing. Read next: nbcompile/gpu/simulator.py
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from nbcompile.gpu import arithmetic, barriers, copies, matrices, tensor_copies
from nbcompile.gpu.costs import Costs
from nbcompile.gpu.memory import Actors, Bytes, Fault, GlobalMemory
from nbcompile.gpu.ptx import Function, Instruction, UnsupportedInstruction, register_names
from nbcompile.gpu.state import WARP, Copy, Product
from nbcompile.gpu.steps import PARAMETER_BYTES, STEPS, space_of
from nbcompile.gpu.values import UNSIGNED, Array, as_bits, as_type, bits_of, flush_subnormals, is_float, resize

WRITES = frozenset({"st", "atom", "red", "stmatrix", "cp"})
"""Instructions by which a warp has an effect outside of itself."""


@dataclass(frozen=True, slots=True)
class GridLaunch:
    """A kernel with its arguments, for all blocks of a grid."""

    function: Function
    grid: tuple[int, int, int]
    """Blocks along each dimension."""
    arguments: Sequence[int]
    memory: GlobalMemory
    shared_bytes: int
    """Shared memory of each block."""
    constants: Mapping[str, int]
    """Addresses of the kernel's constants, by name."""


class Blocks:
    """Some thread blocks of a launch, with their registers, shared and local memory."""

    def __init__(self, launch: GridLaunch, blocks: Array, costs: dict[int, Costs]) -> None:
        """Number the threads block after block."""
        function, grid = launch.function, launch.grid
        self.function, self.memory, self.costs = function, launch.memory, costs
        size = function.threads
        self.count = len(blocks) * size
        self.warps = -(-size // WARP)
        #     thread of the array  0 1 ... size-1 | size ... 2*size-1
        #     thread in its block  0 1 ... size-1 | 0    ... size-1
        #     self.block           0 0 ... 0      | 1    ... 1
        #     self.blocks          first block    | the next one, by its number in the grid
        thread = np.tile(np.arange(size, dtype=np.uint32), len(blocks))
        self.block = np.repeat(np.arange(len(blocks)), size)
        self.warp = thread.astype(np.int64) // WARP
        self.warp_of_all = self.block * self.warps + self.warp
        self.barriers = np.zeros(self.count, np.int64)
        self.writing = np.zeros(len(blocks) * self.warps, bool)
        self.idle: Array | None = None
        self.blocks = np.repeat(blocks, size)
        self.shared_bytes = max(launch.shared_bytes, 16)
        self.shared = Bytes(np.zeros(len(blocks) * self.shared_bytes, np.uint8))
        self.local = np.zeros((self.count, max(function.local_bytes, 1)), np.uint8)
        self.registers: dict[str, Array] = {}
        self.carry = np.zeros(self.count, bool)
        self.loaded: set[str] = set()
        """Registers that were loaded from global memory, and not used yet."""
        self.waits = 0
        self.committed = np.zeros(self.count, np.int64)
        """Groups of asynchronous copies that each thread has closed."""
        self.copies: list[Copy] = []
        self.arriving = np.zeros(self.shared.content.size, bool)
        """Bytes of shared memory that a copy in ``copies`` will write."""
        self.products_committed = np.zeros(self.count, np.int64)
        self.products: list[Product] = []
        self.registers_in_flight: frozenset[str] = frozenset()
        self.memory_barriers = barriers.MemoryBarriers.empty(
            len(blocks) * self.warps, self.shared.content.size, self.count
        )
        self.bulk_committed = np.zeros(self.count, np.int64)
        self.outgoing: list[Copy] = []
        self.at = np.zeros(self.count, np.int64)
        self.waiting = np.zeros(self.count, bool)
        # Triton adds parameters of its own at the end, for scratch memory: they are 0.
        self.parameters = dict(
            zip(function.parameters, [*launch.arguments, *[0] * len(function.parameters)], strict=False)
        )
        # The address of a parameter, where code selects one of several: its number, as each has eight bytes.
        of_parameters = {name: PARAMETER_BYTES * at for at, name in enumerate(function.parameters)}
        self.symbols = {**function.shared, **function.local, **launch.constants, **of_parameters}
        zero = np.zeros(1, np.uint32)
        self.special = {
            # Triton launches blocks of one dimension: threads have only an x.
            "%tid.x": thread, "%tid.y": zero, "%tid.z": zero, "%laneid": thread % np.uint32(WARP),
            "%ntid.x": zero + np.uint32(size), "%ctaid.x": (self.blocks % grid[0]).astype(np.uint32),
            "%ctaid.y": (self.blocks // grid[0] % grid[1]).astype(np.uint32),
            "%ctaid.z": (self.blocks // (grid[0] * grid[1])).astype(np.uint32),
            "%nctaid.x": zero + np.uint32(grid[0]), "%nctaid.y": zero + np.uint32(grid[1]),
            "%nctaid.z": zero + np.uint32(grid[2]),
        }  # fmt: skip

    # --- control ---------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run until all threads have returned.

        thread   0  1  2  3
        at       7  7  4  4      a branch divided them: threads 2 and 3 go first, to 5, 6, 7
        at       7  7  7  7      and all continue together
        """
        # The threads with the lowest program counter run first: threads that took another branch reconverge at its end.
        # A loop ends in a branch to a lower address, so threads that are still in it run first,
        # too, until the last of them has left it.
        code, end = self.function.instructions, len(self.function.instructions)
        while (
            position := int(np.where(still := self.waiting | self.memory_barriers.asleep, end, self.at).min())
        ) < end:
            here = (self.at == position) & ~still
            self.at[here] = position + 1
            instruction = code[position]
            active = here & self._holds(instruction) if instruction.predicate else here
            costs = self.costs.setdefault(instruction.line, Costs(instruction.line))
            costs.instructions += (
                len(np.unique(self.warp_of_all[active]))
                if not active.all()
                else self.warps * (self.count // self.function.threads)
            )
            if active.any():
                if instruction.opcode in WRITES:
                    self.writing[self.warp_of_all[active]] = True
                self._wait(instruction)
                if self.registers_in_flight and instruction.opcode != "wgmma":
                    self._expect_finished(instruction)
                step = STEPS.get(instruction.opcode)
                if step is not None:
                    step(self, instruction, active)
                elif instruction.opcode in arithmetic.RESULTS:
                    self.compute(instruction, active)
                else:
                    raise UnsupportedInstruction(f"{instruction.name} in line {instruction.line}")
        barriers.expect_no_deadlock(self)

    def _wait(self, instruction: Instruction) -> None:
        """Count a wait if the instruction uses a loaded value: then all loads in flight have completed."""
        # The first use stalls, not the load. An address that was itself loaded is such a use: a
        # chain of dependent loads costs a wait for each link, independent loads one in all.
        if self.loaded and any(name in self.loaded for name in instruction.reads):
            # Triton unpacks pairs of 16 bits right after their load. In the machine code that is done where a half is
            # used, after the loads that follow in PTX: a value that is moved is still in flight, too.
            if instruction.opcode == "mov":
                self.loaded.update(register_names(instruction.operands[0]))
                return
            self.waits += 1
            self.loaded.clear()
        if instruction.opcode in ("ld", "atom") and "global" in instruction.modifiers:
            self.loaded.update(register_names(instruction.operands[0]))

    def _expect_finished(self, instruction: Instruction) -> None:
        used = self.registers_in_flight.intersection(instruction.reads)
        if used:
            name = min(used)
            raise Fault(f"{self.describe(instruction)}: {name} is used before wgmma.wait_group")

    def _holds(self, instruction: Instruction) -> Array:
        found = self.read(instruction.predicate, "pred")
        return ~found if instruction.negated else found

    def describe(self, instruction: Instruction) -> str:
        """Name for the texts of faults."""
        return f"line {instruction.line}, {instruction.name}"

    # --- registers -------------------------------------------------------------------------------------------------

    def read(self, operand: str, kind: str) -> Array:
        """An operand as numbers of a type: one a thread, or one for all."""
        if operand.startswith("!"):
            return ~self.read(operand[1:], kind)
        if operand in self.special:
            return as_type(resize(self.special[operand], bits_of(kind)), kind)
        if operand.startswith("%") or operand in self.function.registers:
            return as_type(resize(self.bits(operand), bits_of(kind)), kind)
        return as_type(np.array([self.literal(operand, kind)], UNSIGNED[bits_of(kind)]), kind)

    def literal(self, operand: str, kind: str) -> int:
        """A number in the text, or the address of a variable."""
        if operand in self.symbols:
            return self.symbols[operand]
        if re.match(r"0[fd][0-9a-fA-F]+$", operand):
            return int.from_bytes(bytes.fromhex(operand[2:]))
        return int(operand.rstrip("U"), 0) & (2 ** bits_of(kind) - 1)

    def bits(self, register: str) -> Array:
        """Bits of a register; 0 before it is written."""
        found = self.registers.get(register)
        if found is None:
            width = self.function.registers[register.rstrip("0123456789")]
            found = self.registers[register] = np.zeros(self.count, UNSIGNED[width])
        return found

    def write(self, register: str, numbers: Array, kind: str, active: Array) -> None:
        """Give a register a new value in the active threads."""
        if register == "_":
            return
        before = self.bits(register)
        width = before.dtype.itemsize * 8 if before.dtype != np.bool_ else 1
        after = resize(as_bits(numbers, kind), width, signed=kind.startswith("s"))
        # A new array, never in place: the old one may be what another instruction has just read as
        # its operand, or the register that was moved from.
        self.registers[register] = np.where(active, after, before)

    def compute(self, instruction: Instruction, active: Array) -> None:
        """An instruction of the table: operands in, result out."""
        kinds = arithmetic.operand_types(instruction)
        flushes = "ftz" in instruction.modifiers
        values = []
        for at, operand in enumerate(instruction.operands[1:]):
            value = self.read(operand, kinds[min(at, len(kinds) - 1)])
            values.append(flush_subnormals(value) if flushes and value.dtype == np.float32 else value)
        if "cc" in instruction.modifiers or instruction.opcode in arithmetic.CARRIES:
            found, carry = arithmetic.with_carry(instruction, self.carry, *values)
            if "cc" in instruction.modifiers:
                self.carry = np.where(active, carry, self.carry)
        else:
            found = arithmetic.RESULTS[instruction.opcode](instruction, *values)
        if flushes and found.dtype == np.float32:
            found = flush_subnormals(found)
        if "sat" in instruction.modifiers and is_float(instruction.type):
            found = np.where(
                np.isnan(found), found.dtype.type(0), np.clip(found, found.dtype.type(0), found.dtype.type(1))
            )
        kind = arithmetic.result_type(instruction)
        target, _, second = instruction.operands[0].partition("|")
        self.write(target, found, kind, active)
        if second:
            self.write(second, arithmetic.second_predicate(instruction, *values), kind, active)

    # --- memory ----------------------------------------------------------------------------------------------------

    def address(self, operand: str) -> Array:
        """``[%rd1+16]`` as a number of bytes."""
        base, _, offset = operand.strip("[] ").replace("+ -", "-").replace("+-", "-").replace(" ", "").partition("+")
        if not offset and "-" in base:
            base, _, offset = base.partition("-")
            offset = f"-{offset}"
        kind = "u64" if not base.startswith("%") or self.bits(base).dtype == np.uint64 else "u32"
        found = self.read(base, kind).astype(np.uint64) + np.uint64(int(offset or "0", 0) & (2**64 - 1))
        found = found & np.uint64(2**32 - 1) if kind == "u32" else found
        return np.broadcast_to(found, (self.count,))

    def actors(self, threads: Array) -> Actors:
        """Block, warp and barrier count of each thread."""
        return Actors(self.blocks[threads], self.warp[threads], self.barriers[threads])

    def load_bytes(self, instruction: Instruction, operand: str, width: int, threads: Array) -> Array:
        """``uint8[threads, width]`` from the memory that the instruction names."""
        what, addresses = self.describe(instruction), self.address(operand)[threads]
        match space_of(instruction):
            case "global":
                return self.load_from_global(instruction, operand, width, threads)
            case "shared":
                offsets = self.in_shared(instruction, addresses, width, threads)
                at = offsets[:, None] + np.arange(width)
                copies.expect_arrived(self, at, what)
                barriers.expect_waited(self, at, self.warp_of_all[threads][:, None], what)
                return self.shared.load(offsets, width, self.actors(threads), what)
            case "local":
                return self.local[threads[:, None], addresses.astype(np.int64)[:, None] + np.arange(width)]
        raise UnsupportedInstruction(f"{instruction.name} in line {instruction.line}")

    def load_from_global(self, instruction: Instruction, operand: str, width: int, threads: Array) -> Array:
        """``uint8[threads, width]`` from global memory."""
        addresses = self.address(operand)[threads]
        self.count_global(instruction, addresses, width, threads)
        idle = None if self.idle is None else self.idle[self.warp_of_all[threads]]
        return self.memory.load(addresses, width, self.actors(threads), self.describe(instruction), idle)

    def store_bytes(self, instruction: Instruction, operand: str, values: Array, threads: Array) -> None:
        """Write ``uint8[threads, width]``."""
        what, addresses, width = self.describe(instruction), self.address(operand)[threads], values.shape[1]
        match space_of(instruction):
            case "global":
                self.count_global(instruction, addresses, width, threads)
                self.memory.store(addresses, values, self.actors(threads), what)
            case "shared":
                offsets = self.in_shared(instruction, addresses, width, threads)
                at = offsets[:, None] + np.arange(width)
                copies.expect_arrived(self, at, what)
                tensor_copies.expect_not_outgoing(self, at, what)
                barriers.note_stores(self, at)
                if self.products:
                    matrices.expect_not_read(self, addresses.astype(np.int64), width, threads, what)
                self.shared.store(offsets, values, self.actors(threads), what)
            case "local":
                self.local[threads[:, None], addresses.astype(np.int64)[:, None] + np.arange(width)] = values
            case _:
                raise UnsupportedInstruction(f"{instruction.name} in line {instruction.line}")

    def count_global(self, instruction: Instruction, addresses: Array, width: int, threads: Array) -> None:
        """Count the sectors of an access to global memory."""
        self.costs[instruction.line].count_global(addresses, width, self.warp_of_all[threads])

    def in_shared(self, instruction: Instruction, addresses: Array, width: int, threads: Array) -> Array:
        """Offsets in the shared memory of all blocks, checked."""
        if (addresses + np.uint64(width) > self.shared_bytes).any():
            raise Fault(f"{self.describe(instruction)}: past the end of the {self.shared_bytes} bytes of shared memory")
        if (addresses % np.uint64(width)).any():
            raise Fault(f"{self.describe(instruction)}: an address is no multiple of the {width} bytes accessed")
        self.costs[instruction.line].count_shared(addresses, width, self.warp_of_all[threads])
        return self.block[threads] * self.shared_bytes + addresses.astype(np.int64)
