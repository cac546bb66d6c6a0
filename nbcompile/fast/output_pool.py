"""Memory of results, used again: what output_pool.h keeps, seen from Python.

    y = compiled(x)         a softmax of 32 MiB, memory mapped by the system page by page     20.8 ms
    del y
    y = compiled(x)         the same memory, already there                                   3.7 ms

At most ``config.output_pool_megabytes`` are kept, in use or not; 0 switches it
off, and ``nbcompile.reset()`` gives everything back. output_pool.h says why this is
sound. Here the offsets are found from which it reads who owns a storage: inside a
TensorImpl the pointer to the storage, inside a storage the words that change when
it is shared, or referenced weakly. A torch that keeps them elsewhere has no pool.

In torch: torch/_inductor has none; c10/cuda/CUDACachingAllocator.cpp for GPUs
Read next: nbcompile/runtime/output_pool.h
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from types import ModuleType

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from nbcompile import config
from nbcompile.support.process_state import STATE, Lifetime

SEARCHED_TENSOR, SEARCHED_STORAGE = 16, 4
"""Number of words of a TensorImpl and of a storage that are searched."""
FLAGS = 0xFFFF_0000_0000_0000
"""The bits of a count that no number of owners reaches."""
SETTING = "output_pool_megabytes"

_switched_on: dict[str, ModuleType] = STATE.add("fast.output_pool._switched_on", {}, Lifetime.PROCESS)
"""The launchers that keep memory, by file: one for each compiler that was used. What is loaded twice has one pool."""


@dataclass(frozen=True, slots=True)
class State:
    """The blocks that are kept at the moment."""

    blocks: int
    idle: int
    """Number of free blocks among them."""
    bytes: int
    hits: int
    """Number of times that a block was reused."""


@dataclass(frozen=True, slots=True)
class WordOffsets:
    """Offsets of the words that say who owns a storage, in words of eight bytes."""

    storage: int
    """Pointer to the storage, in a TensorImpl."""
    owners: int
    """Number of tensors that share it, in a storage."""
    weak: int
    """The number of weak references; the same word, in some versions of torch."""
    has_object: int
    """Bits of ``owners`` that are set while a Python object represents the storage; 0 where that is not known."""


def switch_on(extension: ModuleType) -> str:
    """Have the launcher keep memory: "" if it does, else why it does not."""
    offsets = find_offsets()
    if offsets is None:
        return "torch counts the owners of a storage where they were not found"
    extension.pool_setup(offsets.storage, offsets.owners, offsets.weak, offsets.has_object, vars(config), SETTING)
    _switched_on[str(extension.__file__)] = extension
    return ""


def state() -> State:
    """The state of all pools."""
    return State(*map(sum, zip((0, 0, 0, 0), *(each.pool_state() for each in _switched_on.values()), strict=True)))


@STATE.on_reset
def clear() -> None:
    """Free the unused memory, and forget the memory that is in use."""
    for extension in _switched_on.values():
        extension.pool_clear()


def find_offsets() -> WordOffsets | None:
    """The offsets, seen by what changes there; None if it is not seen clearly."""
    sample = torch.ones(3)
    # Torch's layout is not known but measured: a word that changes exactly when an owner is added or
    # removed is the count.
    storage = sample.untyped_storage()
    in_tensor = [at for at, word in enumerate(_words(sample._cdata, SEARCHED_TENSOR)) if word == storage._cdata]
    if len(in_tensor) != 1:
        return None
    tensor = torch.ones(3)  # its storage was not accessed yet
    address = _words(tensor._cdata, SEARCHED_TENSOR)[in_tensor[0]]
    before = _words(address, SEARCHED_STORAGE)
    shared = tensor.view(3)
    strong = _changed(before, _words(address, SEARCHED_STORAGE))
    del shared
    # Back to what it was, and one word only: else something else was seen.
    if _words(address, SEARCHED_STORAGE) != before or len(strong) != 1:
        return None
    storage = tensor.untyped_storage()
    with_object = _words(address, SEARCHED_STORAGE)
    weak_reference = StorageWeakRef(storage)
    weak = _changed(with_object, _words(address, SEARCHED_STORAGE))
    del weak_reference
    if _words(address, SEARCHED_STORAGE) != with_object or len(weak) != 1:
        return None
    # The bits that a Python object for the storage sets in the count.
    return WordOffsets(in_tensor[0], strong[0], weak[0], (before[strong[0]] ^ with_object[strong[0]]) & FLAGS)


def _words(address: int, count: int) -> list[int]:
    return list((ctypes.c_uint64 * count).from_address(address))


def _changed(before: list[int], after: list[int]) -> list[int]:
    return [at for at, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]]
