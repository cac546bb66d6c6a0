"""Tensors between two pages that cannot be accessed: a kernel that reads or writes outside of one ends the process.

x = at_start(x)      one element before the first is on such a page
x = at_end(x)        one element after the last is
"""

from __future__ import annotations

import ctypes
import mmap

import torch

_LIBC = ctypes.CDLL(None, use_errno=True)
_PAGE = mmap.PAGESIZE
_MAPPINGS: list[mmap.mmap] = []
"""Kept for the process: a tensor of ``frombuffer`` holds the memory, but unmapping would also take its guards."""


def _pages(size: int) -> tuple[mmap.mmap, int, int]:
    """A mapping, and the first and the last address of its middle, which alone can be accessed."""
    middle = -(-size // _PAGE) * _PAGE
    mapping = mmap.mmap(-1, middle + 2 * _PAGE)
    first = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
    for guard in (first, first + _PAGE + middle):
        if _LIBC.mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(_PAGE), 0):
            raise OSError(ctypes.get_errno(), "mprotect")
    _MAPPINGS.append(mapping)
    return mapping, _PAGE, _PAGE + middle


def _placed(x: torch.Tensor, offset_of: str) -> torch.Tensor:
    whole = x.detach().as_strided((x.untyped_storage().nbytes() // x.element_size(),), (1,), 0)
    size = whole.numel() * whole.element_size()
    if size == 0 or x.layout != torch.strided:
        return x
    mapping, first, last = _pages(size)
    at = first if offset_of == "start" else last - size
    memory = torch.frombuffer(mapping, dtype=torch.uint8, count=size, offset=at).view(whole.dtype)
    memory.copy_(whole)
    placed = memory.as_strided(x.size(), x.stride(), x.storage_offset())
    return placed.requires_grad_(x.requires_grad)


def at_start(x: torch.Tensor) -> torch.Tensor:
    """A copy of the tensor, with its strides, whose storage begins where its first page does."""
    return _placed(x, "start")


def at_end(x: torch.Tensor) -> torch.Tensor:
    """A copy of the tensor, with its strides, whose storage ends where its last page does."""
    return _placed(x, "end")
