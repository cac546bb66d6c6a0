"""Semantics of the arithmetic instructions of PTX, as functions of NumPy arrays: one table.

    RESULTS["fma"](instruction, a, b, c)    a * b + c, rounded once
    RESULTS["prmt"](instruction, a, b, s)   four bytes picked out of eight

A function gets its operands as numbers of the types that ``operand_types`` gives, and returns numbers of
``result_type``. Approximate instructions (``ex2.approx``, ``rcp.approx``, ``div.full``) give the correctly rounded
result here; a GPU is allowed an error of some units in the last place.

In torch: nothing. Read next: nbcompile/gpu/memory.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from nbcompile.gpu.multiply_add import fused
from nbcompile.gpu.ptx import Instruction
from nbcompile.gpu.values import UNSIGNED, Array, as_type, bits_of, is_float

Function = Callable[..., Array]


def operand_types(instruction: Instruction) -> tuple[str, ...]:
    """Types of an instruction's operands; the last one is that of all further operands."""
    kind = instruction.type
    if instruction.opcode in ("mad", "madc") and "wide" in instruction.modifiers:
        # mad.wide adds a number that is twice as wide as those it multiplies.
        return kind, kind, f"{kind[0]}{2 * bits_of(kind)}"
    if _is_mixed(instruction):
        return (kind, kind, "f32") if instruction.opcode == "fma" else (kind, "f32")
    if instruction.opcode == "cvt":
        return (kind,)
    types = _OPERANDS.get(instruction.opcode)
    return types(kind) if types else (kind,)


def _is_mixed(instruction: Instruction) -> bool:
    """Return whether it computes in float32 with operands of 16 bits: ``fma.rn.f32.bf16``, ``add.f32.f16``."""
    is_sum = instruction.opcode in ("add", "sub", "fma")
    return is_sum and instruction.type in ("f16", "bf16") and instruction.modifiers[-2:-1] == ("f32",)


_OPERANDS: dict[str, Callable[[str], tuple[str, ...]]] = {
    "shl": lambda kind: (kind, "u32"),
    "shr": lambda kind: (kind, "u32"),
    "shf": lambda _: ("b32", "b32", "u32"),
    "bfe": lambda kind: (kind, "u32", "u32"),
    "bfi": lambda kind: (kind, kind, "u32", "u32"),
    "prmt": lambda _: ("b32",),
    "lop3": lambda _: ("b32",),
    "selp": lambda kind: (kind, kind, "pred"),
    "setp": lambda kind: (kind, kind, "pred"),
}
"""Operand types of instructions whose operands differ in type."""


def result_type(instruction: Instruction) -> str:
    """The type of its result."""
    kind = instruction.type
    if instruction.opcode in ("setp", "testp"):
        return "pred"
    if instruction.opcode in ("popc", "clz"):
        return "u32"
    if instruction.opcode == "cvt" or _is_mixed(instruction):
        return instruction.modifiers[-2]
    if instruction.opcode in ("mul", "mad") and "wide" in instruction.modifiers:
        return f"{kind[0]}{2 * bits_of(kind)}"
    return kind


# --- integers and floating point -------------------------------------------------------------------------------------


def _multiply(instruction: Instruction, a: Array, b: Array) -> Array:
    if "wide" in instruction.modifiers:
        wide = np.dtype(f"{a.dtype.kind}{2 * a.dtype.itemsize}")
        return a.astype(wide) * b.astype(wide)
    return _high(a, b) if "hi" in instruction.modifiers else a * b


def _high(a: Array, b: Array) -> Array:
    """The upper half of a product of integers."""
    size = a.dtype.itemsize
    if size < 8:
        wide = np.dtype(f"{a.dtype.kind}{2 * size}")
        return ((a.astype(wide) * b.astype(wide)) >> wide.type(8 * size)).astype(a.dtype)
    # There is no type of 128 bits, so the product is added up from those of halves:
    #                         x = x1 x0     y = y1 y0
    #                x0*y0                  only what it carries into the next 32 bits counts
    #         x1*y0                         first, with that carry
    #         x0*y1                         second, with the lower half of first
    #  x1*y1                                product, with the upper halves of both
    low, half = np.uint64(2**32 - 1), np.uint64(32)
    x, y = a.view(np.uint64), b.view(np.uint64)
    cross = (x & low) * (y & low) >> half
    first = (x >> half) * (y & low) + cross
    second = (x & low) * (y >> half) + (first & low)
    product = (x >> half) * (y >> half) + (first >> half) + (second >> half)
    if a.dtype.kind == "u":
        return product
    # As an unsigned number a negative a is a + 2**64, which adds 2**64 * b to the product: its upper half
    # is too large by b.
    correction = np.where(a < 0, y, np.uint64(0)) + np.where(b < 0, x, np.uint64(0))
    return (product - correction).view(np.int64)


def _multiply_add(instruction: Instruction, a: Array, b: Array, c: Array) -> Array:
    if is_float(instruction.type):
        return fused(a, b, c, result_type(instruction))
    return _multiply(instruction, a, b) + c


def _divide(_: Instruction, a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return a / b
    # PTX does not define a division by zero: any result is valid, here the number with all bits set.
    divisor = np.where(b == 0, b.dtype.type(1), b)
    quotient = a // divisor
    if a.dtype.kind == "i":  # NumPy rounds down, C towards zero
        quotient = quotient + ((quotient < 0) & (quotient * divisor != a)).astype(a.dtype)
    return np.where(b == 0, ~a.dtype.type(0), quotient)


def _remainder(_: Instruction, a: Array, b: Array) -> Array:
    return np.where(b == 0, a, np.fmod(a, np.where(b == 0, b.dtype.type(1), b)))


def _extreme(take: Function, take_number: Function, zero_bits: Function) -> Function:
    """Minimum or maximum; NaN operands are ignored, unless the modifier is ``.NaN``."""

    def extreme(instruction: Instruction, a: Array, b: Array) -> Array:
        if a.dtype.kind != "f":
            return take(a, b)
        found = take(a, b) if "NaN" in instruction.modifiers else take_number(a, b)
        # To PTX -0 is less than +0, while NumPy returns its first operand of two that are equal.
        zeros = np.copysign(a.dtype.type(0), np.where(zero_bits(np.signbit(a), np.signbit(b)), -1, 1).astype(a.dtype))
        return np.where((a == 0) & (b == 0), zeros, found)

    return extreme


def _unary(function: Function) -> Function:
    return lambda _, a: function(a)


def _binary(function: Function) -> Function:
    return lambda _, a, b: function(a, b)


def with_carry(instruction: Instruction, carry: Array, a: Array, b: Array, *other: Array) -> tuple[Array, Array]:
    """``add.cc``, ``subc``, ``madc.hi.cc``, ...: a part of a number that is wider than a register.

    Args:
        instruction: What runs.
        carry: Of the part before, one truth value a thread; ``addc``, ``subc`` and ``madc`` add or subtract it.
        a: The first operand.
        b: The second operand.
        *other: The third operand, which is added to the product of both.

    Returns:
        The result, and whether the next part has to add (or subtract) one more.
    """
    bits = np.dtype(UNSIGNED[8 * a.dtype.itemsize])
    left, right = (
        (_multiply(instruction, a, b).view(bits), other[0].view(bits)) if other else (a.view(bits), b.view(bits))
    )
    taken = (carry if instruction.opcode in CARRIES else np.zeros(1, bool)).astype(bits)
    if instruction.opcode.startswith("sub"):
        found = left - right - taken
        return found, (left < right) | ((left == right) & (taken > 0))
    # Two additions, at most one overflows: then the sum is less than the first operand.
    partial = left + right
    found = partial + taken
    return found, (partial < left) | (found < partial)


CARRIES = ("addc", "subc", "madc")
"""The instructions that read the carry of the one before."""


# --- bits ------------------------------------------------------------------------------------------------------------


def _shift_left(_: Instruction, a: Array, count: Array) -> Array:
    width = 8 * a.dtype.itemsize
    # PTX shifts everything out by a count as large as the register; C and NumPy leave that undefined.
    shifted = a << np.minimum(count, width - 1).astype(a.dtype)
    return np.where(count >= width, a.dtype.type(0), shifted)


def _shift_right(_: Instruction, a: Array, count: Array) -> Array:
    width = 8 * a.dtype.itemsize
    shifted = a >> np.minimum(count, width - 1).astype(a.dtype)
    if a.dtype.kind == "i":
        return shifted  # by width - 1 all bits are the sign already
    return np.where(count >= width, a.dtype.type(0), shifted)


def _funnel(instruction: Instruction, low: Array, high: Array, count: Array) -> Array:
    """32 of 64 bits: the upper ones after a shift to the left, the lower ones after one to the right."""
    count = np.minimum(count, 32) if "clamp" in instruction.modifiers else count & np.uint32(31)
    word = (high.astype(np.uint64) << np.uint64(32)) | low
    left = "l" in instruction.modifiers
    shift = (np.uint64(32) - count.astype(np.uint64)) if left else count.astype(np.uint64)
    return (word >> shift).astype(np.uint32)


def _extract(_: Instruction, a: Array, position: Array, length: Array) -> Array:
    """``bfe``: a field of bits, extended by zeros or its sign."""
    width = 8 * a.dtype.itemsize
    position, length = (np.minimum(number & 255, width).astype(np.int64) for number in (position, length))
    # Rare in generated code, so a loop over threads is fast enough.
    fields = [
        _field(int(value), int(start), int(size), width, a.dtype.kind == "i")
        for value, start, size in np.broadcast(a, position, length)
    ]
    return np.array(fields, a.dtype)


def _field(value: int, start: int, size: int, width: int, signed: bool) -> int:
    size = min(size, width - start)
    if size <= 0:
        return 0
    field = (value >> start) & ((1 << size) - 1)
    return field - (1 << size) if signed and field >> (size - 1) else field


def _insert(_: Instruction, a: Array, b: Array, position: Array, length: Array) -> Array:
    """``bfi``: the lower bits of a in b."""
    one = b.dtype.type(1)
    mask = ((one << length.astype(b.dtype)) - one) << position.astype(b.dtype)
    return (b & ~mask) | ((a << position.astype(b.dtype)) & mask)


def _permute(_: Instruction, a: Array, b: Array, selector: Array) -> Array:
    """``prmt``: byte k of the result is selected by digit k of the selector, whose upper bit replicates the sign."""
    a, b, selector = np.broadcast_arrays(a, b, selector)
    #     digit    0 1 2 3: a byte of a    4 5 6 7: a byte of b    + 8: its sign, eight times
    eight = np.concatenate([np.ascontiguousarray(word)[..., None].view(np.uint8) for word in (a, b)], -1)
    digits = (selector[..., None] >> (np.arange(4, dtype=np.uint32) * np.uint32(4))) & np.uint32(15)
    bytes_ = np.take_along_axis(eight, (digits & np.uint32(7)).astype(np.int64), -1)
    signs = np.where(bytes_ >> 7, 255, 0).astype(np.uint8)
    return np.ascontiguousarray(np.where(digits & np.uint32(8), signs, bytes_)).view(np.uint32)[..., 0]


def _logic(_: Instruction, a: Array, b: Array, c: Array, table: Array) -> Array:
    """``lop3``: any function of three bits, by its truth table."""
    found = np.zeros_like(a | b | c)
    for entry in range(8):
        if int(table.flat[0]) >> entry & 1:
            #     a b c      0 0 0   0 0 1   ...   1 1 1
            #     bit of the table  0       1       ...       7
            parts = [word if entry >> at & 1 else ~word for word, at in ((a, 2), (b, 1), (c, 0))]
            found = found | (parts[0] & parts[1] & parts[2])
    return found


def _invert(_: Instruction, a: Array) -> Array:
    return ~a


def _leading_zeros(_: Instruction, a: Array) -> Array:
    width = 8 * a.dtype.itemsize
    return np.array([width - int(value).bit_length() for value in a], np.uint32)


# --- comparisons -----------------------------------------------------------------------------------------------------

_COMPARE: dict[str, Function] = {
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "lo": np.less, "ls": np.less_equal, "hi": np.greater, "hs": np.greater_equal,
}  # fmt: skip
_COMBINE: dict[str, Function] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


def compare(instruction: Instruction, a: Array, b: Array, *other: Array) -> Array:
    """``setp.lt.and.f32``: a comparison, combined with a predicate if there is one; of lower parts for pairs."""
    found = _compared(instruction.modifiers[0], a, b)
    return _combined(instruction, found[:, 0] if found.ndim == 2 else found, other)


def second_predicate(instruction: Instruction, a: Array, b: Array, *other: Array) -> Array:
    """The second predicate that ``setp`` writes: the opposite, or for pairs what their upper parts give."""
    found = _compared(instruction.modifiers[0], a, b)
    # PTX combines the opposite, too: with "and" both predicates may be false.
    return _combined(instruction, found[:, 1] if found.ndim == 2 else ~found, other)


def _combined(instruction: Instruction, found: Array, other: Sequence[Array]) -> Array:
    return _COMBINE[instruction.modifiers[1]](found, other[0]) if other else found


def _compared(how: str, a: Array, b: Array) -> Array:
    # A comparison with NaN is false, unless it ends in u: then it is true.
    unordered = np.isnan(a) | np.isnan(b) if a.dtype.kind == "f" else np.zeros(1, bool)
    if how in ("nan", "num"):
        return unordered if how == "nan" else ~unordered
    if how in _COMPARE:
        return _COMPARE[how](a, b) & ~unordered
    return _COMPARE[how[:2]](a, b) | unordered  # equ, neu, ltu ...: true if either is nan


def _test(instruction: Instruction, a: Array) -> Array:
    finite = np.isfinite(a)
    subnormal = finite & (a != 0) & (np.abs(a) < np.finfo(a.dtype).tiny)
    return {
        "finite": finite,
        "infinite": np.isinf(a),
        "number": ~np.isnan(a),
        "notanumber": np.isnan(a),
        "normal": finite & (a != 0) & ~subnormal,
        "subnormal": subnormal,
    }[instruction.modifiers[0]]


def _select(_: Instruction, a: Array, b: Array, condition: Array) -> Array:
    return np.where(condition, a, b)


# --- conversions -----------------------------------------------------------------------------------------------------

_ROUND: dict[str, Function] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


def convert(instruction: Instruction, *values: Array) -> Array:
    """``cvt``: from the last type to the one before it. The first of two values is the upper half of a pair."""
    target, source = instruction.modifiers[-2:]
    if target.endswith("x2"):
        is_pair = len(values) == 1
        # Of two operands the first is the upper half, and as_bits takes the lower half first.
        pair = values[0] if is_pair else np.stack(np.broadcast_arrays(values[1], values[0]), -1)
        return pair.astype(np.float16) if target == "f16x2" else pair
    (value,) = values
    how: Function | None = next((_ROUND[name] for name in instruction.modifiers if name in _ROUND), None)
    if is_float(source) and not is_float(target):
        return _saturated((how or np.trunc)(value.astype(np.float64)), target)
    if is_float(source) and how:
        value = how(value)
    return value.astype(as_type(np.zeros(1, f"u{bits_of(target) // 8}"), target).dtype)


def _saturated(value: Array, target: str) -> Array:
    """A whole number in the range of an integer type; nan is 0."""
    number = as_type(np.zeros(1, f"u{bits_of(target) // 8}"), target).dtype
    limits = np.iinfo(number)
    with np.errstate(invalid="ignore"):
        inside = np.where(np.isnan(value), 0, value).astype(number)
    # As a float64 the largest int64 is 2**63, one more than it is: hence "or equal".
    inside = np.where(value >= float(limits.max), number.type(limits.max), inside)
    return np.where(value <= float(limits.min), number.type(limits.min), inside)


RESULTS: dict[str, Function] = {
    "add": _binary(np.add), "sub": _binary(np.subtract), "mul": _multiply, "mad": _multiply_add, "fma": _multiply_add,
    "addc": _binary(np.add), "subc": _binary(np.subtract), "madc": _multiply_add,
    "div": _divide, "rem": _remainder, "neg": _unary(np.negative), "abs": _unary(np.abs),
    "min": _extreme(np.minimum, np.fmin, np.logical_or), "max": _extreme(np.maximum, np.fmax, np.logical_and),
    "and": _binary(np.bitwise_and), "or": _binary(np.bitwise_or), "xor": _binary(np.bitwise_xor), "not": _invert,
    "shl": _shift_left, "shr": _shift_right, "shf": _funnel, "bfe": _extract, "bfi": _insert, "prmt": _permute,
    "lop3": _logic, "clz": _leading_zeros, "popc": lambda _, a: np.bitwise_count(a).astype(np.uint32),
    "setp": compare, "testp": _test, "cvt": convert,
    "selp": _select,
    "copysign": lambda _, sign, magnitude: np.copysign(magnitude, sign),
    "ex2": _unary(np.exp2), "lg2": _unary(np.log2), "sqrt": _unary(np.sqrt), "sin": _unary(np.sin),
    "cos": _unary(np.cos), "tanh": _unary(np.tanh), "rcp": _unary(np.reciprocal),
    "rsqrt": _unary(lambda value: np.reciprocal(np.sqrt(value))),
}  # fmt: skip
"""Numbers of ``result_type`` by opcode."""
