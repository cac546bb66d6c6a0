"""The order of loops, and which are one.

    for i0 < 64, i1 < 1024:  y[1024*i0 + i1] = x[1024*i0 + i1]     ->   for i1 < 65536: y[i1] = x[i1]
    for i0 < 8, i1 < 64:     y[i0 + 8*i1] = ...                    ->   for i1 < 64, i0 < 8: ...

In torch: torch/_inductor/sizevars.py (simplify_loops), ir.py (reorder). Read
next: nbcompile/scheduling/memory.py
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace

from nbcompile.ir.expr import Expr, IndexOf, Load, rebuild, walk
from nbcompile.ir.index import (
    ZERO,
    Index,
    Mod,
    Symbol,
    constant,
    index as index_of,
    is_loop_variable,
    is_one,
    same,
    stride_along,
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
    is_near,
    is_short_row,
    lies_across,
)

__all__ = ["tidy_loops", "with_pointers"]
FEW_LANES = 8
"""A loop of fewer iterations is not worth a vector of its own."""
FAR = 1024
"""The number of iterations over which a stride is estimated; a size that only a call knows."""


def tidy_loops(kernel: Kernel) -> Kernel:
    """Sort the loops by stride, join those that walk memory as one, choose the one to vectorise, list pointers."""
    kernel = _sorted(kernel)
    kernel = _joined(kernel)
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
    """Every index expression, and whether it is an address in memory."""
    for statement in statements(kernel):
        for node in walk(statement.value):
            if isinstance(node, Load):
                yield node.index[0], not node.buffer.startswith("row_")
            elif isinstance(node, IndexOf):
                yield node.index, False
        if isinstance(statement, Store):
            yield statement.offset, not statement.buffer.startswith("row_")
        elif isinstance(statement, (Accumulate, Carry)) and statement.place != ZERO:
            yield statement.place, False


def _sorted(kernel: Kernel) -> Kernel:
    addresses = [index for index, in_memory in indices(kernel) if in_memory]

    def weight(loop: Loop) -> int:
        total = 0
        for index in addresses:
            step = stride_along(index, loop.variable)
            step = _overall_stride(index, loop.variable) if step is None else step
            number = None if step is None else _about(step)
            if number is None:
                return -1
            total += abs(number)
        return total

    def ordered(loops: tuple[Loop, ...]) -> tuple[Loop, ...]:
        weights = {loop: weight(loop) for loop in loops}
        if any(each < 0 for each in weights.values()):
            return loops
        return tuple(sorted(loops, key=lambda loop: -weights[loop]))

    body = tuple(replace(s, loops=ordered(s.loops)) if isinstance(s, Nest) else s for s in kernel.body)
    return replace(kernel, loops=ordered(kernel.loops), body=body)


def _overall_stride(index: Index, variable: Symbol) -> Index | None:
    """About how far an index moves, where that is not the same everywhere: ``64*(i0 // 2)`` along ``i0`` is 32."""
    if index.has(Mod) or any(not is_loop_variable(each) for each in index.free_symbols):
        return None
    others = dict.fromkeys(index.free_symbols - {variable}, ZERO)
    first, last = (index.xreplace({**others, variable: index_of(place)}) for place in (0, FAR))
    distance = constant(last - first)
    return None if distance is None else index_of(distance // FAR)


def _about(step: Index) -> int | None:
    """A stride as a number: sizes that only a call knows are taken for large, and for alike."""
    return constant(step.xreplace(dict.fromkeys(step.free_symbols, index_of(FAR))))


def _joined(kernel: Kernel) -> Kernel:
    changed = True
    while changed:
        changed = False
        nests = [statement.loops for statement in kernel.body if isinstance(statement, Nest)]
        # Outer iterations are independent, so loops that stand between two may as well stand around them.
        for pairs in (itertools.combinations(kernel.loops, 2), *map(itertools.pairwise, nests[:1])):
            for outer, inner in pairs:
                if _is_one_walk(kernel, outer, inner):
                    kernel, changed = _join(kernel, outer, inner), True
                    break
            if changed:
                break
    return kernel


def _is_one_walk(kernel: Kernel, outer: Loop, inner: Loop) -> bool:
    for index, _ in indices(kernel):
        symbols = index.free_symbols
        if outer.variable not in symbols and inner.variable not in symbols:
            continue
        far, near = stride_along(index, outer.variable), stride_along(index, inner.variable)
        if far is None or near is None or not same(far, near * inner.size):
            return False
    return True


def _join(kernel: Kernel, outer: Loop, inner: Loop) -> Kernel:
    """One loop, under the name of the inner one; no index has the outer variable any more."""
    whole = Loop(inner.variable, outer.size * inner.size)

    def loops(given: tuple[Loop, ...]) -> tuple[Loop, ...]:
        if outer not in given:
            return given
        return tuple(whole if loop == inner else loop for loop in given if loop != outer)

    def moved(index: Index) -> Index:
        return index.xreplace({outer.variable: ZERO})

    body = tuple(
        Nest(loops(s.loops), tuple(_mapped(each, moved) for each in s.body))
        if isinstance(s, Nest)
        else _mapped(s, moved)
        for s in kernel.body
    )
    return replace(kernel, loops=loops(kernel.loops), body=body)  # type: ignore[arg-type]


def _mapped(statement: Inner, change: Callable[[Index], Index]) -> Inner:
    def at(node: Expr) -> Expr:
        node = rebuild(node, at)
        if isinstance(node, Load):
            return replace(node, index=(change(node.index[0]),))
        return replace(node, index=change(node.index)) if isinstance(node, IndexOf) else node

    value = at(statement.value)
    if isinstance(statement, Store):
        return Store(statement.buffer, change(statement.offset), value)
    if isinstance(statement, (Accumulate, Carry)):
        return replace(statement, value=value, place=change(statement.place))
    return replace(statement, value=value)


def _vector_variable(kernel: Kernel) -> Symbol | None:
    nests = [statement for statement in kernel.body if isinstance(statement, Nest)]
    last_outer = kernel.loops[-1].variable if kernel.loops else None
    if not nests:
        return last_outer
    last_inner = nests[0].loops[-1].variable
    if last_outer is None or is_one(kernel.loops[-1].size) or kernel.scratch:
        return last_inner
    short, long = constant(nests[0].loops[-1].size), constant(kernel.loops[-1].size)
    if short is not None and short < FEW_LANES and len(nests) == 1 and (long is None or long >= FEW_LANES):
        return last_outer  # a window of a pool: most lanes would have nothing to do
    along = across = 0
    is_mixed = False
    for index, in_memory in indices(kernel):
        if in_memory and last_inner in index.free_symbols:
            # What one of the loops does not move is small, and read once for all lanes or beside the others.
            weight = 4 if last_outer in index.free_symbols else 1
            along += weight * is_near(index, last_inner, last_outer)
            across += weight * is_near(index, last_outer, last_inner)
            is_mixed |= lies_across(index, last_outer, last_inner)
    for load in _gathering_loads(kernel):
        # Rows found through an index that the inner loop reads: along it, each lane would be elsewhere.
        varies = any(last_inner in place.free_symbols for gather in load.gathers for place in _places(gather.value))
        across += 8 * (varies and stride_along(load.index[0], last_outer) == 1)
        is_mixed &= not varies
    if is_mixed and kernel.device.type == "cpu" and is_short_row(nests[0].loops):
        return last_inner  # what lies across is turned over first (codegen/panels.py)
    return last_outer if across > along else last_inner


def _gathering_loads(kernel: Kernel) -> Iterator[Load]:
    for statement in statements(kernel):
        yield from (node for node in walk(statement.value) if isinstance(node, Load) and node.gathers)


def _places(body: Expr) -> Iterator[Index]:
    for node in walk(body):
        if isinstance(node, Load):
            yield from node.index
        elif isinstance(node, IndexOf):
            yield node.index


def with_pointers(kernel: Kernel) -> Kernel:
    """The kernel with the lists of what it reads and writes."""
    rows = {each.name for each in kernel.scratch}
    reads: dict[str, None] = {}
    writes: dict[str, None] = {}
    for statement in statements(kernel):
        places = walk(statement.place) if isinstance(statement, Update) else ()
        for node in (*walk(statement.value), *places):
            if isinstance(node, Load) and node.buffer not in rows:
                reads[node.buffer] = None
        if isinstance(statement, Update):
            reads[statement.buffer] = None
        if isinstance(statement, (Store, Update)) and statement.buffer not in rows:
            writes[statement.buffer] = None
    return replace(kernel, reads=tuple(reads), writes=tuple(writes))
