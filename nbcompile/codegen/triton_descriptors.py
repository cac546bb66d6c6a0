"""Factors of a matrix product by tensor descriptors: the copy engine of newer GPUs (TMA) loads a tile at once.

    x[512*i0 + r0], rows 0 to 99
    ->  d1 = tl.make_tensor_descriptor(p0, [100, 512], [512, 1], [64, 32])      once for each program
        x1 = d1.load([row_block * 64, begin])                                   in the loop over the sum

A descriptor has the sizes of the tensor, so a tile needs no masks: elements beyond the end are 0. The kernel itself
creates it, in scratch memory of the launcher (128 bytes for each descriptor and program). So sizes and addresses are
those of the launch: the CPU encodes nothing, and a recorded CUDA graph has no stale addresses.
The engine requires contiguous elements along one side; all other strides and the address are multiples of 16 bytes.

In torch: torch/_inductor/kernel/mm.py (a persistent template with TMA). Read next: nbcompile/gpu/tensor_copies.py
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from nbcompile.codegen.triton_values import TritonEmitter, assign, index_text
from nbcompile.ir import index as indexing, strides
from nbcompile.ir.expr import Expr, Load
from nbcompile.ir.index import Index
from nbcompile.ir.kernel import Kernel, Loop

ENGINE = 90
"""Capability from which there is such an engine."""
BYTES = 16
"""Strides and addresses are multiples of it."""
LARGEST = 2**31 - 1
"""Coordinates have 32 bits."""


@dataclass(frozen=True, slots=True)
class FactorTensor:
    """A factor as a tensor of two dimensions, or of three with a batch."""

    load: Load
    start: Index
    """Offset of the first element in the buffer."""
    sizes: tuple[Index, ...]
    strides: tuple[Index, ...]
    is_transposed: bool
    """True if elements are adjacent along the first side of the tile: the descriptor has the sides exchanged."""


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A descriptor that has been written."""

    name: str
    factor: FactorTensor


def describe_factor(
    kernel: Kernel, factor: Expr, batch: Sequence[Loop], sides: tuple[Sequence[Loop], Sequence[Loop]]
) -> FactorTensor | None:
    """The factor as a tensor; None if the engine cannot load it.

    Args:
        kernel: It may not write to the factor's buffer.
        factor: An expression.
        batch: Loops over products.
        sides: Loops of the tile's rows and columns.
    """
    if not isinstance(factor, Load) or factor.gathers or factor.buffer in kernel.writes:
        return None
    offset, dimensions = factor.index[0], [batch, *sides] if batch else [*sides]
    strides = [_stride(offset, loops) for loops in dimensions]
    start = offset.xreplace({loop.variable: indexing.ZERO for loop in itertools.chain(*dimensions)})
    # All terms must be strides of the whole index: any other term (a
    # gather, a second term of a variable) cannot be in a descriptor.
    known = [stride for stride in strides if stride is not None]
    if len(known) < len(strides) or _remaining(offset - start, dimensions, known):
        return None
    # The engine copies along contiguous elements: if those are along the rows of
    # the tile, the sides are exchanged, and the tile is transposed after the load.
    is_transposed = indexing.is_one(known[-2]) and not indexing.is_one(known[-1])
    if is_transposed:
        dimensions[-2:], known[-2:] = dimensions[:-3:-1], known[:-3:-1]
    if not indexing.is_one(known[-1]) or not _are_aligned(start, known[:-1], factor.dtype.itemsize):
        return None
    return FactorTensor(factor, start, tuple(map(_size, dimensions)), tuple(known), is_transposed)


def _are_aligned(start: Index, strides: Sequence[Index], size: int) -> bool:
    """Return whether the copy engine takes these strides: 0, as of an expanded dimension, is none of them."""
    # Only static strides: a symbolic one may be a multiple of 16 bytes in this call, and not in the next one.
    numbers = [indexing.constant(value) for value in (start, *strides)]
    return all(number is not None and number * size % BYTES == 0 for number in numbers) and all(numbers[1:])


def _size(loops: Sequence[Loop]) -> Index:
    return indexing.product([loop.size for loop in loops])


def _stride(offset: Index, loops: Sequence[Loop]) -> Index | None:
    """The stride over some loops as one; None if they have none in common."""
    #     loops 4 x 10 of an index 640*i0 + 64*i1      64, as 640 = 10 * 64
    found: Index | None = indexing.ZERO
    inner: Index = indexing.ONE
    for at, loop in enumerate(reversed(loops)):
        step = strides.stride_along(offset, loop.variable)
        if step is None or found is None:
            return None
        if at == 0:
            found = step
        elif not indexing.known_equal(step, found * inner):
            return None
        inner = inner * loop.size
    return found


def _remaining(offset: Index, loops: Sequence[Sequence[Loop]], strides: Sequence[Index]) -> bool:
    """Return whether an offset is more than the sum of its strides, or depends on another variable."""
    total: Index = indexing.ZERO
    for some, stride in zip(loops, strides, strict=True):
        inner: Index = indexing.ONE
        for loop in reversed(some):
            total = total + stride * inner * loop.variable
            inner = inner * loop.size
    return not indexing.known_equal(offset, total)


def make(emitter: TritonEmitter, factor: FactorTensor, shape: tuple[int, int]) -> Descriptor:
    """Emit the descriptor of a factor, whose tiles have this shape."""
    block = [*([1] if len(factor.sizes) == 3 else []), *(reversed(shape) if factor.is_transposed else shape)]
    name = emitter.fresh("d")
    pointer, start = emitter.pointers[factor.load.buffer], index_text(factor.start)
    address = pointer if factor.start == indexing.ZERO else f"{pointer} + ({start})"
    sizes = ", ".join(_whole(size, "tl.int32") for size in factor.sizes)
    strides = ", ".join(_whole(stride, "tl.int64") for stride in factor.strides)
    emitter.line(f"{name} = tl.make_tensor_descriptor({address}, [{sizes}], [{strides}], {block})")
    return Descriptor(name, factor)


def _whole(value: Index, kind: str) -> str:
    known = indexing.constant(value)
    return str(known) if known is not None else f"({index_text(value)}).to({kind})"


def load(
    emitter: TritonEmitter, descriptor: Descriptor, batch: Sequence[str], first: tuple[str, str], shape: tuple[int, int]
) -> str:
    """Emit the load of a tile that begins at this row and column; return its name."""
    factor = descriptor.factor
    begins = list(reversed(first) if factor.is_transposed else first)
    text = f"{descriptor.name}.load([{', '.join((*batch, *begins))}])"
    stored = tuple(reversed(shape)) if factor.is_transposed else shape
    if batch:
        text = f"{text}.reshape([{stored[0]}, {stored[1]}])"
    return assign(emitter, f"{text}.T" if factor.is_transposed else text, "x")


def describe_factors(
    kernel: Kernel, factors: tuple[Expr, Expr], batch: Sequence[Loop], rows: Sequence[Loop], columns: Loop, depth: Loop
) -> tuple[FactorTensor, FactorTensor] | None:
    """Both factors as tensors; None if the engine cannot load one of them."""
    left = describe_factor(kernel, factors[0], batch, (rows, (depth,)))
    right = describe_factor(kernel, factors[1], batch, ((depth,), (columns,)))
    return None if left is None or right is None else (left, right)
