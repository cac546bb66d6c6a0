"""A scatter as a kernel of its own.

    z[ids[i0], i1] += g[i0, i1]    ->    parallel for i1 < 64:  for i0 < 1000:  z[64*ids[i0] + i1] += g[64*i0 + i1]

Two iterations of i0 may update one element; two of i1 never do. Loops along
which the position is injective are the parallel ones, outside, and the one with
stride 1 is vectorised. The others run in sequence, so that the result is
deterministic, and no atomic addition is needed. On a GPU all loops are parallel: updates
are atomic there, in any order.

In torch: torch/_inductor/ir.py (Scatter), codegen/cpp.py (atomic_add). Read
next: nbcompile/scheduling/loops.py
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from nbcompile.ir.buffer import Scatter, Tensor, ranges
from nbcompile.ir.expr import Expr, IndexOf, Load
from nbcompile.ir.index import ONE, Index, Symbol, is_one, simplify
from nbcompile.ir.kernel import Kernel, Loop, Nest, Statement, Update
from nbcompile.ir.strides import stride_along
from nbcompile.ir.traversal import rebuild, walk
from nbcompile.scheduling.loops import with_pointers


def scatter_kernel(name: str, buffer: Scatter, tensors: Mapping[str, Tensor]) -> Kernel:
    """The kernel of one scatter."""
    sizes = {variable: size for variable, size in ranges(buffer).items() if not is_one(size)}
    position = _flat_position(buffer, tensors, sizes)
    parallel, contiguous = _parallel_loops(buffer, sizes, position.index)
    value = _flat_loads(buffer.body, tensors, sizes)
    update = Update(buffer.name, position, value, buffer.kind)
    # The sequential loops are inside, in the order of the dimensions: of two updates to one element, the same one
    # comes last in every run.
    sequential = tuple(Loop(variable, size) for variable, size in sizes.items() if variable not in parallel)
    body: tuple[Statement, ...] = (Nest(sequential, (update,)),) if sequential else (update,)
    outer = tuple(Loop(variable, sizes[variable]) for variable in parallel)
    plain = Kernel(
        name,
        buffer.device,
        outer,
        body,
        buffers=(buffer.name,),
        from_nodes=buffer.from_nodes,
        vector_variable=contiguous,
    )
    return with_pointers(plain)


def _parallel_loops(buffer: Scatter, sizes: dict[Symbol, Index], position: Index) -> tuple[list[Symbol], Symbol | None]:
    """The parallel loops, in order, and the one of them that is vectorised."""
    if buffer.device.type == "cuda":
        # Adjacent lanes load adjacent elements; where they store is known only at run time.
        return list(sizes), next(reversed(sizes), None)
    parallel = [variable for variable in sizes if _is_injective(variable, buffer)]
    contiguous = next((variable for variable in reversed(parallel) if stride_along(position, variable) == ONE), None)
    if contiguous is not None:
        # The vector loop has to be the last outer one.
        parallel = [*(variable for variable in parallel if variable is not contiguous), contiguous]
    return parallel, contiguous


def _is_injective(variable: Symbol, buffer: Scatter) -> bool:
    """True if two iterations of a loop never update one element: it is the index of one dimension, and of no other."""
    #     z[ids[i0], i1] += g[i0, i1]     i1 is an index by itself: parallel
    #                                      i0 is inside of a gather: not
    along = [
        coordinate for coordinate in buffer.position if any(_mentions(node, variable) for node in walk(coordinate))
    ]
    # z[i0 // 2] and z[i0, i0] are rejected: the first repeats an element; the second would be safe, but is rare.
    return len(along) == 1 and along[0].index == variable


def _mentions(node: Expr, variable: Symbol) -> bool:
    match node:
        case Load(index=index):
            return any(variable in coordinate.free_symbols for coordinate in index)
        case IndexOf(index=index):
            return variable in index.free_symbols
    return False


def _flat_position(buffer: Scatter, tensors: Mapping[str, Tensor], sizes: dict[Symbol, Index]) -> IndexOf:
    """The position as one offset, with the indices that are loaded for it."""
    offset = simplify(tensors[buffer.name].layout.at([coordinate.index for coordinate in buffer.position]), sizes)
    gathers = tuple(dict.fromkeys(gather for coordinate in buffer.position for gather in coordinate.gathers))
    flat = tuple(replace(gather, value=_flat_loads(gather.value, tensors, sizes)) for gather in gathers)
    return IndexOf(offset, torch.int64, flat)


def _flat_loads(body: Expr, tensors: Mapping[str, Tensor], sizes: dict[Symbol, Index]) -> Expr:
    body = rebuild(body, lambda part: _flat_loads(part, tensors, sizes))
    if isinstance(body, IndexOf):
        return replace(body, index=simplify(body.index, sizes))
    if isinstance(body, Load):
        return replace(body, index=(simplify(tensors[body.buffer].layout.at(body.index), sizes),))
    return body
