"""Casts from and to the floating types of 8 bits in Triton: kernels have their bits, as whole numbers.

    cast(x, float8_e4m3fn)        to_float8_e4m3fn(x, hardware=True, saturates=True)       uint8
    cast(b, float32)              from_float8_e4m3fn(b, hardware=True)

Triton's own cast saturates (``cvt.satfinite``), and NaN loses its sign; its interpreter rounds differently. So the
functions of triton_functions.py return the bits of eager mode, by the instruction from sm_89 on and by integer
arithmetic before. A number that is too large for ``float8_e4m3fn`` becomes NaN or the largest number, depending on the
version of torch.

In torch: torch/_inductor/codegen/triton.py (TritonOverrides.to_dtype). Read next:
nbcompile/codegen/triton_values.py
"""

from __future__ import annotations

import functools

import torch

from nbcompile import torch_internals

HARDWARE = 89
"""Lowest capability of a GPU with instructions that convert these types."""


def name_of(dtype: torch.dtype) -> str:
    """The name of a dtype without its module."""
    return str(dtype).removeprefix("torch.")


def widened(text: str, dtype: torch.dtype, capability: int) -> str:
    """Text of the bits of an 8-bit type as float32."""
    hardware = f", hardware={capability >= HARDWARE}" if dtype == torch.float8_e4m3fn else ""
    return f"from_{name_of(dtype)}({text}{hardware})"


def rounded(text: str, dtype: torch.dtype, capability: int) -> str:
    """Text of a float32 value as bits of an 8-bit type."""
    saturates = f", saturates={e4m3fn_saturates()}" if dtype == torch.float8_e4m3fn else ""
    return f"to_{name_of(dtype)}({text}, hardware={capability >= HARDWARE}{saturates})"


def bits_of(number: float, dtype: torch.dtype) -> int:
    """Bits of a constant."""
    with torch_internals.dispatch_modes()._disable_current_modes():
        return int(torch.tensor(number).to(dtype).view(torch.uint8))


@functools.cache
def e4m3fn_saturates() -> bool:
    """Return whether eager mode converts a number that is too large for ``float8_e4m3fn`` to the largest, not NaN."""
    with torch_internals.dispatch_modes()._disable_current_modes():
        return bool(torch.tensor(1e9).to(torch.float8_e4m3fn).float().isfinite())
