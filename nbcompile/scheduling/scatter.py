"""A scatter as a kernel of its own.

    z[ids[i0], i1] += g[i0, i1]    ->    parallel for i1 < 64:  for i0 < 1000:  z[64*ids[i0] + i1] += g[64*i0 + i1]

Two iterations of i0 may meet at one element; two of i1 never do. Loops that
keep iterations apart are the parallel ones, outside, and are vectorised where
memory is adjacent along one of them. The others run in order, so that the
result is the same every time, and no atomic addition is needed.

In torch: torch/_inductor/ir.py (Scatter), codegen/cpp.py (atomic_add). Read
next: nbcompile/scheduling/loops.py
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch

from nbcompile.ir.buffer import Scatter, Tensor, ranges
from nbcompile.ir.expr import Expr, IndexOf, Load, rebuild, walk
from nbcompile.ir.index import ONE, Index, Symbol, is_one, simplify, stride_along
from nbcompile.ir.kernel import Kernel, Loop, Nest, Statement, Update
from nbcompile.scheduling.loops import with_pointers


def scatter_kernel(name: str, buffer: Scatter, tensors: Mapping[str, Tensor]) -> Kernel:
    """The kernel of one scatter."""
    sizes = {variable: size for variable, size in ranges(buffer).items() if not is_one(size)}
    place = _in_memory(buffer, tensors, sizes)
    apart = [variable for variable in sizes if _keeps_apart(variable, buffer)]
    adjacent = next((each for each in reversed(apart) if stride_along(place.index, each) == ONE), None)
    if adjacent is not None:
        apart = [*(each for each in apart if each is not adjacent), adjacent]
    value = _flat_loads(buffer.body, tensors, sizes)
    update = Update(buffer.name, place, value, buffer.kind)
    met = tuple(Loop(variable, size) for variable, size in sizes.items() if variable not in apart)
    body: tuple[Statement, ...] = (Nest(met, (update,)),) if met else (update,)
    outer = tuple(Loop(variable, sizes[variable]) for variable in apart)
    plain = Kernel(
        name, buffer.device, outer, body, buffers=(buffer.name,), from_nodes=buffer.from_nodes, vector_variable=adjacent
    )
    return with_pointers(plain)


def _keeps_apart(variable: Symbol, buffer: Scatter) -> bool:
    """Whether two iterations of a loop never change one element: it is the place along one dimension, and no more."""
    along = [each for each in buffer.position if any(_mentions(node, variable) for node in walk(each))]
    return len(along) == 1 and along[0].index == variable


def _mentions(node: Expr, variable: Symbol) -> bool:
    match node:
        case Load(index=index):
            return any(variable in each.free_symbols for each in index)
        case IndexOf(index=index):
            return variable in index.free_symbols
    return False


def _in_memory(buffer: Scatter, tensors: Mapping[str, Tensor], sizes: dict[Symbol, Index]) -> IndexOf:
    """The place as one offset, with all that is gathered for it."""
    offset = simplify(tensors[buffer.name].layout.at([each.index for each in buffer.position]), sizes)
    gathers = tuple(dict.fromkeys(gather for each in buffer.position for gather in each.gathers))
    flat = tuple(replace(gather, value=_flat_loads(gather.value, tensors, sizes)) for gather in gathers)
    return IndexOf(offset, torch.int64, flat)


def _flat_loads(body: Expr, tensors: Mapping[str, Tensor], sizes: dict[Symbol, Index]) -> Expr:
    body = rebuild(body, lambda part: _flat_loads(part, tensors, sizes))
    if isinstance(body, IndexOf):
        return replace(body, index=simplify(body.index, sizes))
    if isinstance(body, Load):
        return replace(body, index=(simplify(tensors[body.buffer].layout.at(body.index), sizes),))
    return body
