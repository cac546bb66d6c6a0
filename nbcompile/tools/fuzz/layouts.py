"""Random input tensors of every layout, dtype and kind of value.

    make_tensor((2, 3), torch.float32, "transposed", 7)                  values from a seed, strides (1, 2)
    make_tensor((2, 3), torch.float32, "contiguous", 7, special=True)    NaN, infinities, -0.0, denormals, extremes

In torch: torch/testing/_creation.py (make_tensor). Read next: nbcompile/tools/fuzz/tensors.py
"""

from __future__ import annotations

import torch

LAYOUTS = ("contiguous", "transposed", "strided", "overlapping", "channels last", "storage offset", "reversed dims")
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
OTHERS = (torch.bool, torch.complex64, torch.complex128, torch.uint16, torch.uint32)
DTYPES = FLOATS + INTEGERS + OTHERS


def make_tensor(
    shape: tuple[int, ...], dtype: torch.dtype, layout: str = "contiguous", seed: int = 0, special: bool = False
) -> torch.Tensor:
    """A tensor; the same for the same arguments."""
    generator = torch.Generator().manual_seed(seed)
    if layout == "overlapping" and shape and shape[-1] > 1:
        return make_tensor((*shape[:-1], 1), dtype, "contiguous", seed, special).expand(shape)
    values = _values(shape, dtype, generator, special)
    match layout:
        case "transposed" if len(shape) > 1:
            return values.mT.contiguous().mT
        case "reversed dims" if len(shape) > 1:
            order = tuple(reversed(range(len(shape))))
            return values.permute(order).contiguous().permute(order)
        case "strided" if shape:
            return torch.stack([values, values], -1).flatten(-2)[..., ::2]
        case "channels last" if len(shape) == 4:
            return values.contiguous(memory_format=torch.channels_last)
        # The last elements of a longer tensor: the first one has an offset of 3 in its storage.
        case "storage offset":
            return (
                torch.cat([values.flatten()[:1].expand(3), values.flatten()])[-values.numel() :].view(shape)
                if values.numel()
                else values
            )
    return values


def _values(shape: tuple[int, ...], dtype: torch.dtype, generator: torch.Generator, special: bool) -> torch.Tensor:
    if dtype.is_complex:
        part = torch.float32 if dtype == torch.complex64 else torch.float64
        return torch.complex(*(_values(shape, part, generator, special) for _ in range(2)))
    if not dtype.is_floating_point:
        values = torch.randint(
            0 if dtype in {torch.bool, torch.uint8, torch.uint16, torch.uint32} else -4, 5, shape, generator=generator
        )
        if special and dtype != torch.bool:
            edges = torch.tensor([torch.iinfo(dtype).min, torch.iinfo(dtype).max, 0, 1])
            values = _mixed(values, edges, generator)
        return values.to(dtype)
    # Half of the tensors hold multiples of 1/4: their sums are exact, and some of them are ties when they are rounded.
    values = (
        torch.randint(-12, 13, shape, generator=generator).double() / 4
        if torch.rand((), generator=generator) < 0.5
        else torch.randn(shape, generator=generator, dtype=torch.float64)
    )
    values = values.to(dtype)
    if special:
        info = torch.finfo(dtype)
        special_values = [
            0.0,
            -0.0,
            torch.nan,
            torch.inf,
            -torch.inf,
            info.max,
            info.min,
            info.tiny,
            info.tiny / 4,
            -info.tiny / 4,
            info.eps,
            1.0,
            -1.0,
            0.5,
        ]
        values = _mixed(values, torch.tensor(special_values, dtype=torch.float64).to(dtype), generator)
    return values


def _mixed(values: torch.Tensor, edges: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    chosen = edges[torch.randint(0, len(edges), values.shape, generator=generator)]
    return torch.where(torch.rand(values.shape, generator=generator) < 0.4, chosen, values)
