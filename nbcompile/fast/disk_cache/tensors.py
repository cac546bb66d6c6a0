"""Constants of a graph as data: small tensors that tracing created from literals.

    torch.tensor([1.0, 2.0])        ["float32", [2], [1], "0000803f00000040"]

What a user's program holds is never such a constant: it is an input of the graph, read anew at each call.

In torch: torch/_inductor/codecache.py (TensorMetadataAndValues). Read next: nbcompile/capture/literals.py
"""

from __future__ import annotations

from typing import Any

import torch

from nbcompile import torch_internals
from nbcompile.capture import literals
from nbcompile.capture.literals import NotStorable, Unreadable

MOST_BYTES = 1 << 16  # in hexadecimal, the text is twice as long


def encode(value: object) -> list[Any]:
    """A tensor as JSON.

    Raises:
        NotStorable: it is no constant, or a large one.
    """
    if type(value) is not torch.Tensor or value.layout is not torch.strided or value.device.type != "cpu":
        raise NotStorable(f"the graph holds a {type(value).__qualname__} of its own")
    # ``copy_`` cannot write to a tensor whose elements share memory (``expand``), so it could not be read back.
    if value.requires_grad or value.is_quantized or torch_internals.overlaps_itself(value):
        raise NotStorable("the graph holds a tensor that is no constant")
    size = value.numel() * value.element_size()
    if size > MOST_BYTES:
        raise NotStorable(f"the graph holds a constant of {size} bytes")
    plain = torch.empty(value.shape, dtype=value.dtype).copy_(value)  # conjugated and negated for real
    content = bytes(plain.reshape(-1).view(torch.uint8).tolist()).hex()
    return [literals.encode(value.dtype), list(value.shape), list(value.stride()), content]


def decode(data: list[Any]) -> torch.Tensor:
    """The tensor again.

    Raises:
        Unreadable: its text is not as long as it should be.
    """
    dtype_name, shape, stride, text = data
    dtype, content = literals.decode(dtype_name), bytes.fromhex(text)
    value = torch.empty_strided(shape, stride, dtype=dtype)
    if len(content) != value.numel() * value.element_size():
        raise Unreadable(f"a constant of {len(content)} bytes")
    if content:
        value.copy_(torch.tensor(list(content), dtype=torch.uint8).view(dtype).reshape(shape))
    return value
