"""Loop order and loop merging.

    for i0 < 64, i1 < 1024:  y[1024*i0 + i1] = x[1024*i0 + i1]     ->   for i1 < 65536: y[i1] = x[i1]
    for i0 < 8, i1 < 64:     y[i0 + 8*i1] = ...                    ->   for i1 < 64, i0 < 8: ...

In torch: torch/_inductor/sizevars.py (simplify_loops), ir.py (reorder). Read
next: nbcompile/scheduling/memory.py
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

from nbcompile.ir.expr import Expr, IndexOf, Load
from nbcompile.ir.index import (
    ZERO,
    Index,
    Mod,
    Symbol,
    constant,
    index as index_of,
    is_loop_variable,
    is_one,
    known_equal,
)
from nbcompile.ir.kernel import (
    Accumulate,
    Carry,
    Inner,
    Kernel,
    Loop,
    Nest,
    Store,
    Update,
    has_small_stride,
    is_short_row,
    is_transposed_access,
)
from nbcompile.ir.strides import stride_along
from nbcompile.ir.traversal import rebuild, walk

__all__ = ["tidy_loops", "with_pointers"]
FEW_LANES = 8
"""Iterations: a loop with fewer is not vectorised."""
ASSUMED_ITERATIONS = 1024
"""Iterations over which a stride is averaged; also the size hint for symbolic sizes."""


def tidy_loops(kernel: Kernel) -> Kernel:
    """Sort the loops by stride, merge contiguous ones, choose the one to vectorise, and list the buffers accessed."""
    if kernel.product is None:  # of a product the last loop is that over columns
        kernel = _sort_by_stride(kernel)
    # Merging needs the loop with the larger stride outside, and the vector loop is chosen from the last ones: hence
    # sort, merge, choose.
    kernel = _merge_loops(kernel)
    kernel = replace(kernel, vector_variable=_vector_variable(kernel))
    return with_pointers(kernel)


def statements(kernel: Kernel) -> Iterator[Inner]:
    """All statements, those of nests included."""
    for statement in kernel.body:
        if isinstance(statement, Nest):
            yield from statement.body
        else:
            yield statement


def indices(kernel: Kernel) -> Iterator[tuple[Index, bool]]:
    """Every index expression, and whether it is an address in global memory."""
    for statement in statements(kernel):
        for node in walk(statement.value):
            if isinstance(node, Load):
                yield node.index[0], not node.buffer.startswith("row_")
            elif isinstance(node, IndexOf):
                yield node.index, False
        if isinstance(statement, Store):
            yield statement.offset, not statement.buffer.startswith("row_")
        elif isinstance(statement, (Accumulate, Carry)) and statement.index != ZERO:
            yield statement.index, False


def _sort_by_stride(kernel: Kernel) -> Kernel:
    # Scratch rows do not count: they are in registers or in a cache, whatever the stride.
    addresses = [index for index, in_memory in indices(kernel) if in_memory]
    if kernel.device.type == "cuda":
        # What a nest loads is more than what is stored once for it. Caches of a CPU forgive either order.
        addresses = _in_nests(kernel) or addresses

    #     y[i0 + 8*i1] = x[i0 + 8*i1]        i0 weighs 1 + 1, i1 weighs 8 + 8: for i1, then for i0
    # The sum of the strides over all accesses. The loop with the largest goes outside, so that the innermost one
    # makes the smallest steps in memory.
    def weight(loop: Loop) -> int:
        total = 0
        for index in addresses:
            step = stride_along(index, loop.variable)
            step = _overall_stride(index, loop.variable) if step is None else step
            number = None if step is None else _estimate(step)
            if number is None:
                return -1
            total += abs(number)
        return total

    def ordered(loops: tuple[Loop, ...]) -> tuple[Loop, ...]:
        weights = {loop: weight(loop) for loop in loops}
        # A stride is unknown: the order of the dimensions in the program is kept.
        if any(value < 0 for value in weights.values()):
            return loops
        # The sort is stable: loops of equal weight keep their order.
        return tuple(sorted(loops, key=lambda loop: -weights[loop]))

    body = tuple(replace(s, loops=ordered(s.loops)) if isinstance(s, Nest) else s for s in kernel.body)
    return replace(kernel, loops=ordered(kernel.loops), body=body)


def _in_nests(kernel: Kernel) -> list[Index]:
    """The addresses that each iteration of a nest accesses."""
    nests = tuple(statement for statement in kernel.body if isinstance(statement, Nest))
    return [index for index, in_memory in indices(replace(kernel, body=nests)) if in_memory]


def _overall_stride(index: Index, variable: Symbol) -> Index | None:
    """The average stride of an index that is not linear: ``64*(i0 // 2)`` along ``i0`` is 32."""
    # A remainder returns to its start, so that the distance between two iterations says nothing.
    if index.has(Mod) or any(not is_loop_variable(symbol) for symbol in index.free_symbols):
        return None
    others = dict.fromkeys(index.free_symbols - {variable}, ZERO)
    first, last = (index.xreplace({**others, variable: index_of(iteration)}) for iteration in (0, ASSUMED_ITERATIONS))
    distance = constant(last - first)
    return None if distance is None else index_of(distance // ASSUMED_ITERATIONS)


def _estimate(step: Index) -> int | None:
    """A stride as a number: symbolic sizes are replaced by one large size hint."""
    return constant(step.xreplace(dict.fromkeys(step.free_symbols, index_of(ASSUMED_ITERATIONS))))


def _merge_loops(kernel: Kernel) -> Kernel:
    changed = True
    while changed:
        changed = False
        nests = [statement.loops for statement in kernel.body if isinstance(statement, Nest)]
        # Outer iterations are independent: loops between two that are merged may be interchanged with them.
        for pairs in (itertools.combinations(kernel.loops, 2), *map(itertools.pairwise, nests[:1])):
            for outer, inner in pairs:
                if _are_contiguous(kernel, outer, inner):
                    kernel, changed = _merge(kernel, outer, inner), True
                    break
            if changed:
                break
    return kernel


def _are_contiguous(kernel: Kernel, outer: Loop, inner: Loop) -> bool:
    #     x[1024*i0 + i1], i1 < 1024        1024 == 1 * 1024: one loop over 1024 * (iterations of i0)
    for index, _ in indices(kernel):
        symbols = index.free_symbols
        if outer.variable not in symbols and inner.variable not in symbols:
            continue
        outer_stride, inner_stride = stride_along(index, outer.variable), stride_along(index, inner.variable)
        if outer_stride is None or inner_stride is None or not known_equal(outer_stride, inner_stride * inner.size):
            return False
    return True


def _merge(kernel: Kernel, outer: Loop, inner: Loop) -> Kernel:
    """Merge two loops into one with the inner one's variable; the outer variable disappears from all indices."""
    # Every index has s*(size*o + i) for the two variables o and i, with size the extent of i (_are_contiguous). With
    # the merged variable m = size*o + i it is s*m: so o is replaced by 0, and i is m from here on.
    merged = Loop(inner.variable, outer.size * inner.size)

    def loops(given: tuple[Loop, ...]) -> tuple[Loop, ...]:
        if outer not in given:
            return given
        return tuple(merged if loop == inner else loop for loop in given if loop != outer)

    def without_outer(index: Index) -> Index:
        return index.xreplace({outer.variable: ZERO})

    body = tuple(
        Nest(loops(s.loops), tuple(_map_indices(statement, without_outer) for statement in s.body))
        if isinstance(s, Nest)
        else _map_indices(s, without_outer)
        for s in kernel.body
    )
    return replace(kernel, loops=loops(kernel.loops), body=body)  # type: ignore[arg-type]


def _map_indices(statement: Inner, change: Callable[[Index], Index]) -> Inner:
    def at(node: Expr) -> Expr:
        node = rebuild(node, at)
        if isinstance(node, Load):
            return replace(node, index=(change(node.index[0]),))
        return replace(node, index=change(node.index)) if isinstance(node, IndexOf) else node

    value = at(statement.value)
    if isinstance(statement, Store):
        return Store(statement.buffer, change(statement.offset), value)
    if isinstance(statement, (Accumulate, Carry)):
        return replace(statement, value=value, index=change(statement.index))
    return replace(statement, value=value)


def _vector_variable(kernel: Kernel) -> Symbol | None:
    """The loop whose iterations become the lanes of vectors: the last inner or the last outer one.

        for i0:  for r0:  acc += x[8*i0 + r0]      x is contiguous along r0: lanes are r0, added up at the end
        for i0:  for r0:  acc += x[i0 + 64*r0]     along i0: lanes are i0, each with its own accumulator

    Each access in memory votes for the loop along which its elements are neighbours.
    """
    nests = [statement for statement in kernel.body if isinstance(statement, Nest)]
    last_outer = kernel.loops[-1].variable if kernel.loops else None
    if not nests:
        return last_outer
    last_inner = nests[0].loops[-1].variable
    # A scratch buffer holds one row along the inner loop; lanes along the outer loop would need W of them.
    if last_outer is None or is_one(kernel.loops[-1].size) or kernel.scratch:
        return last_inner
    if len(nests) == 1 and _is_window(nests[0].loops[-1].size, kernel.loops[-1].size):
        return last_outer
    inner_weight, outer_weight, is_mixed = _votes(kernel, last_inner, last_outer)
    if is_mixed and kernel.device.type == "cpu" and is_short_row(nests[0].loops):
        return last_inner  # transposed accesses are packed into panels first (codegen/packed_panels.py)
    return last_outer if outer_weight > inner_weight else last_inner


def _is_window(inner_size: Index, outer_size: Index) -> bool:
    """True for a short inner loop in a long one, such as a pooling window: most lanes would be idle along it."""
    inner, outer = constant(inner_size), constant(outer_size)
    return inner is not None and inner < FEW_LANES and (outer is None or outer >= FEW_LANES)


def _votes(kernel: Kernel, last_inner: Symbol, last_outer: Symbol) -> tuple[int, int, bool]:
    """The weights of accesses along either loop, and whether some are contiguous along one and some along the other."""
    inner_weight = outer_weight = 0
    is_mixed = False
    for index, in_memory in indices(kernel):
        if in_memory and last_inner in index.free_symbols:
            # An access that is invariant along one of the loops is small, and is a broadcast or in the cache.
            weight = 4 if last_outer in index.free_symbols else 1
            inner_weight += weight * has_small_stride(index, last_inner, last_outer)
            outer_weight += weight * has_small_stride(index, last_outer, last_inner)
            is_mixed |= is_transposed_access(index, last_outer, last_inner)
    for load in _gathering_loads(kernel):
        # Rows gathered through an index that varies along the inner loop: its lanes would not be contiguous.
        varies = any(
            last_inner in index_read.free_symbols for gather in load.gathers for index_read in _indices_in(gather.value)
        )
        outer_weight += 8 * (varies and stride_along(load.index[0], last_outer) == 1)
        is_mixed &= not varies
    return inner_weight, outer_weight, is_mixed


def _gathering_loads(kernel: Kernel) -> Iterator[Load]:
    for statement in statements(kernel):
        yield from (node for node in walk(statement.value) if isinstance(node, Load) and node.gathers)


def _indices_in(body: Expr) -> Iterator[Index]:
    for node in walk(body):
        if isinstance(node, Load):
            yield from node.index
        elif isinstance(node, IndexOf):
            yield node.index


def with_pointers(kernel: Kernel) -> Kernel:
    """The kernel with the lists of the buffers that it reads and writes."""
    rows = {row.name for row in kernel.scratch}
    reads: dict[str, None] = {}
    writes: dict[str, None] = {}
    for statement in statements(kernel):
        position_nodes = walk(statement.offset) if isinstance(statement, Update) else ()
        for node in (*walk(statement.value), *position_nodes):
            if isinstance(node, Load) and node.buffer not in rows:
                reads[node.buffer] = None
        if isinstance(statement, Update):
            # An update loads the element that it adds to.
            reads[statement.buffer] = None
        if isinstance(statement, (Store, Update)) and statement.buffer not in rows:
            writes[statement.buffer] = None
    return replace(kernel, reads=tuple(reads), writes=tuple(writes))
