"""Values of PTX registers: bits, and their interpretation as numbers of a type.

    as_type(bits, "f32")          uint32[T] -> float32[T]
    as_type(bits, "bf16x2")       uint32[T] -> float32[T, 2]: the low half first
    as_bits(numbers, "bf16")      float32[T] -> uint16[T], rounded to nearest even

A register holds bits without a type, here an unsigned NumPy array with one element a thread; each instruction names the
type as which it reads them. NumPy has no bfloat16 and no fp8: their values are float32 here, and rounded when they are
written.

In torch: nothing. Read next: nbcompile/gpu/arithmetic.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Array = NDArray[Any]

UNSIGNED = {1: np.bool_, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
"""The type of a register's bits by their number."""
_NUMBERS = {
    "s8": np.int8, "s16": np.int16, "s32": np.int32, "s64": np.int64,
    "f16": np.float16, "f32": np.float32, "f64": np.float64,
}  # fmt: skip
_PAIRS = {
    "f16x2": "f16", "bf16x2": "bf16", "u16x2": "u16", "s16x2": "s16", "f32x2": "f32",
    "e4m3x2": "e4m3", "e5m2x2": "e5m2",
}  # fmt: skip
_FP8 = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


def bits_of(kind: str) -> int:
    """Width of a type in bits: ``bits_of("bf16x2") == 32``."""
    if kind == "pred":
        return 1
    if kind in _FP8:
        return 8
    if kind in _PAIRS:
        return 2 * bits_of(_PAIRS[kind])
    return int("".join(filter(str.isdigit, kind.removeprefix("bf").removeprefix("tf"))))


def is_float(kind: str) -> bool:
    """``f16, bf16, f32, f64, e4m3, e5m2`` and pairs of these."""
    return kind.startswith(("f", "bf", "e"))


def as_type(bits: Array, kind: str) -> Array:
    """Bits as numbers; they are as wide as the type.

    Args:
        bits: Unsigned integers, one a thread.
        kind: A PTX type: ``b32``, ``s64``, ``bf16x2``.

    Returns:
        Numbers, one a thread; of a type of pairs two, along a last dimension.
    """
    if kind in _PAIRS:
        one = _PAIRS[kind]
        # The view takes the lowest bytes first, as PTX numbers the parts of a register, on a little-endian machine.
        return as_type(np.ascontiguousarray(bits)[..., None].view(UNSIGNED[bits_of(one)]), one)
    if kind in _FP8:
        numbers: Array = torch.from_numpy(np.ascontiguousarray(bits)).view(_FP8[kind]).float().numpy()
        return numbers
    if kind == "bf16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return np.ascontiguousarray(bits).view(_NUMBERS.get(kind, UNSIGNED[bits_of(kind)]))


def as_bits(numbers: Array, kind: str) -> Array:
    """Numbers as bits, the other way round."""
    if kind in _PAIRS:
        return np.ascontiguousarray(as_bits(numbers, _PAIRS[kind])).view(UNSIGNED[bits_of(kind)])[..., 0]
    if kind in _FP8:
        return _round_to_fp8(np.ascontiguousarray(numbers, np.float32), _FP8[kind])
    if kind == "bf16":
        return _round_to_bfloat16(np.ascontiguousarray(numbers, np.float32))
    if numbers.dtype == np.bool_:
        return numbers
    return np.ascontiguousarray(numbers).view(UNSIGNED[numbers.dtype.itemsize * 8])


def _round_to_bfloat16(numbers: Array) -> Array:
    bits = numbers.view(np.uint32)
    #     kept 16 bits | dropped 16 bits
    # Adding 0x7FFF carries into the kept part where more than half is dropped. The last kept bit is
    # added as well: then exactly one half carries where that bit is 1, which makes it 0 (to even).
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    rounded = ((bits + np.uint32(0x7FFF) + odd) >> np.uint32(16)).astype(np.uint16)
    # The carry would turn a NaN with few bits set, 0x7F800001, into infinity.
    return np.where(np.isnan(numbers), np.uint16(0x7FFF), rounded)


def _round_to_fp8(numbers: Array, dtype: torch.dtype) -> Array:
    """Round; a number that is too large becomes the largest one (``.satfinite``, as these conversions have)."""
    most = np.float32(torch.finfo(dtype).max)
    found: Array = torch.from_numpy(np.clip(numbers, -most, most)).to(dtype).view(torch.uint8).numpy()
    return np.where(np.isnan(numbers), np.uint8(0x7F), found)


def flush_subnormals(numbers: Array) -> Array:
    """Subnormal float32 numbers as zeros of their sign, as ``.ftz`` flushes operands and results."""
    small = np.abs(numbers) < np.finfo(np.float32).tiny
    return np.where(small, np.copysign(np.float32(0), numbers), numbers)


def resize(bits: Array, width: int, signed: bool = False) -> Array:
    """Bits in a register of another width: cut off, or extended by zeros or the sign."""
    if bits.dtype.itemsize * 8 == width and bits.dtype != np.bool_:
        return bits
    # NumPy extends a signed type by its sign, so the bits are looked at as one in between.
    if signed and bits.dtype != np.bool_:
        return bits.view(f"i{bits.dtype.itemsize}").astype(f"i{width // 8}").view(UNSIGNED[width])
    return bits.astype(UNSIGNED[width])
