"""Matrix instructions of a simulated GPU: fragments in the registers of a warp, and tiles in shared memory.

    mma.sync.m16n8k16 {d}, {a}, {b}, {c}      each lane holds 8 elements of a, 4 of b, 4 of c and d
    wgmma.mma_async.m64n64k16 {d}, %rd1, ...  128 threads; a and b are in shared memory, at their descriptors' addresses
    ldmatrix, stmatrix                        8 x 8 matrices of 16 bits between shared memory and registers

A ``wgmma`` is asynchronous: until ``wgmma.wait_group``, its result may not be used and the tiles that it reads may
not be written to. Both are faults here. Products are added in float32, in an order that no GPU guarantees.
Not checked: ``fence.proxy.async``. ``tcgen05`` (sm_100) is not simulated.

In torch: nothing. Read next: nbcompile/gpu/simulator.py
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from nbcompile.gpu import barriers
from nbcompile.gpu.memory import Fault
from nbcompile.gpu.ptx import Instruction, UnsupportedInstruction, register_names
from nbcompile.gpu.state import WARP, Product, State
from nbcompile.gpu.values import UNSIGNED, Array, as_bits, as_type, bits_of

WARP_GROUP = 128
_LANES = np.arange(WARP)
#     lane    0  1  2  3 | 4  5  6  7 | ... | 28 29 30 31
#     row     0  0  0  0 | 1  1  1  1 | ... |  7  7  7  7
#     quad    0  1  2  3 | 0  1  2  3 | ... |  0  1  2  3
_ROW, _QUAD = _LANES // 4, _LANES % 4
"""Each lane of a fragment belongs to one row, and to one of four positions in it."""
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")


def _shape(instruction: Instruction) -> tuple[int, int, int]:
    found = next(filter(None, map(_SHAPE.fullmatch, instruction.modifiers)), None)
    if found is None:
        raise UnsupportedInstruction(f"{instruction.name} in line {instruction.line}")
    m, n, k = map(int, found.groups())
    return m, n, k


_ELEMENTS = ("f16", "bf16", "tf32", "f64", "s8", "u8")
"""Types of factors that are simulated; fp8 (``e4m3``) and smaller types are not."""


def _elements(bits: Array, kind: str) -> Array:
    """Elements of a type that 32-bit words contain, in the order of their bits, as numbers to multiply."""
    if kind == "tf32":  # the lower bits of the fraction are ignored
        return (bits & np.uint32(0xFFFFE000)).view(np.float32)[..., None]
    parts: Array = np.ascontiguousarray(bits)[..., None].view(UNSIGNED[bits_of(kind)])
    return as_type(parts, kind).astype(np.int32 if kind[0] in "su" else np.float32)


def expect_supported(instruction: Instruction) -> None:
    """Raise if a matrix instruction has types or shapes that are not simulated."""
    if instruction.opcode == "wgmma" and instruction.modifiers[0] != "mma_async":
        return
    at = next(at for at, name in enumerate(instruction.modifiers) if _SHAPE.fullmatch(name))
    kinds = [name for name in instruction.modifiers[at + 1 :] if name not in ("row", "col", "satfinite")]
    factors = kinds[1:3]
    if any(kind not in _ELEMENTS or kind == "f64" for kind in factors) or kinds[0] not in ("f32", "f16", "s32"):
        raise UnsupportedInstruction(f"the simulator of GPU code lacks {instruction.name}")


# --- mma: all operands in registers ----------------------------------------------------------------------------------


def _words(blocks: State, operand: str, lanes: int) -> Array:
    """Registers of an operand: ``uint32[groups of lanes, lanes, registers]``."""
    # The registers of all groups are gathered, also of inactive ones: only active threads write results.
    words = [np.broadcast_to(blocks.read(name, "b32"), (blocks.count,)) for name in register_names(operand)]
    return np.stack(words, -1).reshape(-1, lanes, len(words))


def _left(words: Array, kind: str, rows: int, depth: int) -> Array:
    """The left factor, ``[warps, rows, depth]``: eight rows and half of the depth in each register."""
    elements = _elements(words, kind)
    size = elements.shape[-1]
    found = np.zeros((words.shape[0], rows, depth), elements.dtype)
    # The registers of the left factor are four quarters of 8 rows each, column by column:
    #     r0  r2      rows 0 to 7
    #     r1  r3      rows 8 to 15
    # Within a quarter a lane has adjacent elements of its row: as many as fit into 32 bits.
    for at in range(words.shape[-1]):
        column = _QUAD[:, None] * size + np.arange(size) + 4 * size * (at // 2)
        found[:, (_ROW + 8 * (at % 2))[:, None], column] = elements[:, :, at]
    return found


def _right(words: Array, kind: str, depth: int, columns: int) -> Array:
    """The right factor, ``[warps, depth, columns]``."""
    elements = _elements(words, kind)
    size = elements.shape[-1]
    found = np.zeros((words.shape[0], depth, columns), elements.dtype)
    # The right factor is stored by columns: a lane has elements of one column, r0 above r1.
    for at in range(words.shape[-1]):
        row = _QUAD[:, None] * size + np.arange(size) + 4 * size * at
        found[:, row, _ROW[:, None]] = elements[:, :, at]
    return found


def _multiply(blocks: State, instruction: Instruction, active: Array) -> None:
    """``mma.sync``: d = a @ b + c, of one warp."""
    m, n, k = _shape(instruction)
    total, left, right, _ = instruction.modifiers[-4:]
    _expect_whole(instruction, active, WARP)
    _count(blocks, instruction, left, int(active.sum()) // WARP)
    d, a, b, c = instruction.operands
    one = _left(_words(blocks, a, WARP), left, m, k)
    other = _right(_words(blocks, b, WARP), right, k, n)
    # In float16 a register has two adjacent elements of a row, in float32 one element.
    per = 2 if total == "f16" else 1
    #     element    0, 1: row _ROW        2, 3: row _ROW + 8        columns 2 * _QUAD and the next
    cells = [(_ROW + 8 * (at // 2), 2 * _QUAD + at % 2) for at in range(4)]
    given = as_type(_words(blocks, c, WARP), "f16x2" if per == 2 else total)
    # The order of the sum over the depth is NumPy's: a GPU guarantees none.
    product = one @ other
    for at, name in enumerate(register_names(d)):
        numbers = []
        for part in range(per):
            row, column = cells[at * per + part]
            start = given[:, :, at, part] if per == 2 else given[:, :, at]
            numbers.append((product[:, row, column] + start).reshape(-1))
        found = np.stack(numbers, -1).astype(np.float16) if per == 2 else numbers[0].astype(given.dtype)
        blocks.write(name, as_bits(found, "f16x2") if per == 2 else found, "b32" if per == 2 else total, active)


def _count(blocks: State, instruction: Instruction, kind: str, times: int) -> None:
    """Count the multiplications of an instruction that some warps, or groups of warps, execute."""
    m, n, k = _shape(instruction)
    bits = 32 if kind == "tf32" else bits_of(kind)
    blocks.costs[instruction.line].matrix_work += times * m * n * k * bits // 16


def _expect_whole(instruction: Instruction, active: Array, lanes: int) -> None:
    # PTX requires all threads of a warp (or warp group) to execute the same matrix instruction.
    groups = active.reshape(-1, lanes)
    if (groups.any(1) != groups.all(1)).any():
        raise UnsupportedInstruction(f"{instruction.name} in line {instruction.line}, in a part of the threads")


# --- wgmma: tiles in shared memory -----------------------------------------------------------------------------------


_SWIZZLES = {0: 16, 1: 128, 2: 64, 3: 32}
"""Width of a row of a tile in bytes, by the descriptor's mode; chunks of 16 bytes are permuted in it."""


def _tile(blocks: State, descriptor: Array, rows: int, depth: int, size: int, transposed: bool) -> Array:
    """Byte offsets in shared memory of a tile's elements, ``[groups, rows, depth]``, as the descriptor gives them.

    Args:
        blocks: The running blocks.
        descriptor: 64 bits for each warp group.
        rows: Rows of the left factor, or columns of the right one.
        depth: The dimension that is summed over.
        size: Bytes of an element.
        transposed: Whether elements that are adjacent in memory are adjacent along ``rows``.
    """
    #     bits    0-13 start    16-29 leading offset    32-45 stride    62-63 swizzle
    # Offsets are in units of 16 bytes, so 14 bits address 256 KiB.
    start = ((descriptor & np.uint64(0x3FFF)) << np.uint64(4)).astype(np.int64)
    leading = ((descriptor >> np.uint64(16) & np.uint64(0x3FFF)) << np.uint64(4)).astype(np.int64)[:, None, None]
    stride = ((descriptor >> np.uint64(32) & np.uint64(0x3FFF)) << np.uint64(4)).astype(np.int64)[:, None, None]
    width = _SWIZZLES[int(descriptor.flat[0] >> np.uint64(62))]
    row, column = np.arange(rows)[None, :, None], np.arange(depth)[None, None, :]
    # Along "across" elements are adjacent. A tile consists of strips as wide as the swizzle's row, and a strip of
    # groups of eight rows:
    #     strip 0                          strip 1 at + leading
    #     row 0 ... 7    at 0              row 0 ... 7
    #     row 8 ... 15   at + stride       row 8 ... 15
    across, down = (row, column) if transposed else (column, row)
    position = across * size
    found = (
        start[:, None, None] + position // width * leading + position % width + down % 8 * width + down // 8 * stride
    )
    # Swizzle: in rows of 128 bytes, chunk c (of 16 bytes) of row r is at c ^ (r % 8), so that eight rows of one column
    # of chunks are in different banks. Bits 7 and up of the offset are the row, or the line of 128 bytes if several
    # narrower rows share a line.
    if width > 16:
        found = found ^ ((found >> 7) % (width // 16) << 4)
    return found


def _multiply_group(blocks: State, instruction: Instruction, active: Array) -> None:
    """``wgmma``: products of a warp group. They are committed and waited for in groups, as asynchronous copies are."""
    match instruction.modifiers[0]:
        case "fence":
            return
        case "commit_group":
            blocks.products_committed = blocks.products_committed + active
        case "wait_group":
            _wait(blocks, int(instruction.operands[0]), active)
        case _:
            _start_product(blocks, instruction, active)


def _wait(blocks: State, pending: int, active: Array) -> None:
    # A group of products completes as a whole, for the threads that waited for it.
    blocks.products = [product for product in blocks.products if not _is_done(blocks, product, pending, active)]
    blocks.registers_in_flight = frozenset().union(*(product.registers for product in blocks.products))


def _is_done(blocks: State, product: Product, pending: int, active: Array) -> bool:
    waited = active[product.threads] & (product.group < blocks.products_committed[product.threads] - pending)
    return bool(waited.all())


def _start_product(blocks: State, instruction: Instruction, active: Array) -> None:
    m, n, k = _shape(instruction)
    total, left, right = instruction.modifiers[-3:]
    _expect_whole(instruction, active, WARP_GROUP)
    d, a, b, *flags = instruction.operands
    _count(blocks, instruction, right, int(active.sum()) // WARP_GROUP)
    size = bits_of(right) // 8 if right != "tf32" else 4
    threads = np.nonzero(active)[0]
    # All threads of a group have the same descriptor: the first thread's is used.
    first = threads[::WARP_GROUP]
    of_b = _tile(blocks, _descriptors(blocks, b, first), n, k, size, len(flags) > 3 and flags[-1] == "1")
    read = [of_b]
    other = _from_shared(blocks, instruction, of_b, first, right).swapaxes(1, 2)
    # The left factor may be in registers: each of the four warps has 16 of the 64 rows.
    if a.startswith("{"):
        words = _words(blocks, a, WARP)[active.reshape(-1, WARP)[:, 0]]
        one = _left(words, left, 16, k).reshape(-1, m, k)
    else:
        of_a = _tile(blocks, _descriptors(blocks, a, first), m, k, size, len(flags) > 4 and flags[-2] == "1")
        read.append(of_a)
        one = _from_shared(blocks, instruction, of_a, first, left)
    # Two immediate operands give the signs of the factors, 1 or -1.
    product = one @ other * (int(flags[1]) * int(flags[2]))
    if total != "f32":
        raise UnsupportedInstruction(f"{instruction.name} in line {instruction.line}")
    # The predicate scale-d: false starts a sum, true adds to the values in the registers.
    keep = np.broadcast_to(blocks.read(flags[0], "pred"), (blocks.count,))
    names = register_names(d)
    lane, warp = threads % WARP, threads % WARP_GROUP // WARP
    group = np.repeat(np.arange(len(first)), WARP_GROUP)
    for at, name in enumerate(names):
        #     register    0  1      2  3          4  5 ...
        #     row         r  r    r+8  r+8        r  r           r = 16 * warp + lane // 4
        #     column      c c+1     c  c+1      c+8 c+9          c = 2 * (lane % 4)
        row = 16 * warp + lane // 4 + 8 * (at // 2 % 2)
        column = 8 * (at // 4) + 2 * (lane % 4) + at % 2
        found = np.zeros(blocks.count, np.float32)
        before = np.where(keep, np.broadcast_to(blocks.bits(name).view(np.float32), (blocks.count,)), np.float32(0))
        found[threads] = product[group, row, column] + before[threads]
        blocks.write(name, found, "f32", active)
    # The result is in the registers already, but may not be read: on a GPU it is undefined until the wait, and so is
    # the result of a product whose tiles were overwritten.
    offsets = np.unique(np.concatenate([part.reshape(-1) for part in read]))
    blocks.products.append(Product(blocks.products_committed[threads], threads, frozenset(names), offsets))
    blocks.registers_in_flight |= frozenset(names)


def _descriptors(blocks: State, operand: str, first: Array) -> Array:
    return np.broadcast_to(blocks.read(operand, "b64"), (blocks.count,))[first]


def _from_shared(blocks: State, instruction: Instruction, offsets: Array, first: Array, kind: str) -> Array:
    """Elements of a tile; a read of bytes that are not in memory yet, or that another warp may write, is a fault."""
    size = 4 if kind == "tf32" else bits_of(kind) // 8
    if (offsets < 0).any() or (offsets + size > blocks.shared_bytes).any():
        raise Fault(f"{blocks.describe(instruction)}: a tile past the end of shared memory")
    # The read is recorded for the first thread of a group, so that a store of another warp without a barrier in between
    # is a race.
    flat = (offsets + (blocks.block[first] * blocks.shared_bytes)[:, None, None]).reshape(-1)
    threads = np.repeat(first, offsets[0].size)
    for warp in range(WARP_GROUP // WARP):
        what = blocks.describe(instruction)
        barriers.expect_waited(blocks, flat, blocks.warp_of_all[threads] + warp, what)
    if blocks.arriving[flat].any():
        raise Fault(f"{blocks.describe(instruction)}: an asynchronous copy to these bytes is not waited for")
    found = blocks.shared.load(flat, size, blocks.actors(threads), blocks.describe(instruction))
    if kind == "tf32":
        return _elements(np.ascontiguousarray(found).view(np.uint32)[:, 0], kind).reshape(offsets.shape)
    numbers = as_type(np.ascontiguousarray(found).view(UNSIGNED[8 * size])[:, 0], kind)
    return numbers.astype(np.float32).reshape(offsets.shape)


def expect_not_read(blocks: State, offsets: Array, width: int, threads: Array, what: str) -> None:
    """Raise if a product in flight reads bytes that are about to be written."""
    for product in blocks.products:
        mine = np.isin(blocks.block[threads], blocks.block[product.threads])
        # Words of 4 bytes are compared, since elements may be narrower; of a wide store only the first word.
        if mine.any() and np.isin(offsets[mine] // 4 * 4, product.read // 4 * 4).any():
            raise Fault(f"{what}: written while a wgmma reads it, with no wgmma.wait_group between")


# --- matrices of 8 x 8 -----------------------------------------------------------------------------------------------

_ROWS, _ROW_BYTES = 8, 16
"""Lanes and bytes of a row of an 8 x 8 matrix of 16-bit elements."""


def _load_matrix(blocks: State, instruction: Instruction, active: Array) -> None:
    """``ldmatrix``: each row of up to four matrices is read by one lane, and each lane gets two adjacent elements."""
    count = _expect_matrices(instruction, active)
    warps = active.reshape(-1, WARP)[:, 0]
    threads = np.nonzero(np.repeat(warps, WARP) & np.tile(_ROWS * count > _LANES, blocks.count // WARP))[0]
    rows = blocks.load_bytes(instruction, instruction.operands[1], _ROW_BYTES, threads)
    matrices = np.ascontiguousarray(rows).view(np.uint16).reshape(-1, count, _ROWS, _ROWS)
    if "trans" in instruction.modifiers:
        matrices = matrices.swapaxes(2, 3)
    for at, register in enumerate(register_names(instruction.operands[0])):
        #     row 0: lanes 0 1 2 3, two elements each        row 1: lanes 4 5 6 7        ...
        # That is the layout of a quarter of an operand of mma: one ldmatrix loads a whole left factor.
        pairs = np.ascontiguousarray(matrices[:, at].reshape(-1, WARP, 2)).view(np.uint32)
        words: Array = np.zeros(blocks.count, np.uint32)
        words[active] = pairs.reshape(-1)
        blocks.write(register, words, "b32", active)


def _store_matrix(blocks: State, instruction: Instruction, active: Array) -> None:
    """``stmatrix``: the inverse of ``ldmatrix``."""
    count = _expect_matrices(instruction, active)
    warps = active.reshape(-1, WARP)[:, 0]
    words = np.ascontiguousarray(_words(blocks, instruction.operands[1], WARP)[warps].swapaxes(1, 2))
    matrices = words.view(np.uint16).reshape(-1, count, _ROWS, _ROWS)
    if "trans" in instruction.modifiers:
        matrices = matrices.swapaxes(2, 3)
    rows = np.ascontiguousarray(matrices).view(np.uint8).reshape(-1, _ROW_BYTES)
    threads = np.nonzero(np.repeat(warps, WARP) & np.tile(_ROWS * count > _LANES, blocks.count // WARP))[0]
    blocks.store_bytes(instruction, instruction.operands[0], rows, threads)


def _expect_matrices(instruction: Instruction, active: Array) -> int:
    """Number of matrices moved; whole warps must be active, and elements must have 16 bits."""
    spaces = [name.partition("::")[0] for name in instruction.modifiers]
    if instruction.type != "b16" or "m8n8" not in spaces or "shared" not in spaces:
        raise UnsupportedInstruction(f"{instruction.name} in line {instruction.line}")
    _expect_whole(instruction, active, WARP)
    return next(int(name[1:]) for name in spaces if name in ("x1", "x2", "x4"))


STEPS: dict[str, Callable[[State, Instruction, Array], None]] = {
    "mma": _multiply, "wgmma": _multiply_group, "ldmatrix": _load_matrix, "stmatrix": _store_matrix,
}  # fmt: skip
"""Matrix instructions, by opcode."""
