"""What can be said of a kernel before a line of it is written.

    for i0 < 64:  for r0 < s0: total += exp(x[s0*i0 + r0])
    ->  work: unknown, it depends on s0        sizes: (s0,)        lanes: along r0

Both code generators ask: how much work is it, which symbolic sizes does it
mention, which loop is the vectorised one.

In torch: torch/_inductor/codegen/simd.py (estimate_kernel_num_bytes), sizevars.py. Read next:
nbcompile/codegen/kernels.py
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import sympy

from nbcompile.ir import index as indexing
from nbcompile.ir.buffer import Program
from nbcompile.ir.expr import IndexOf, cost, walk
from nbcompile.ir.index import Symbol
from nbcompile.ir.kernel import Accumulate, Carry, Inner, Kernel, Loop, Nest, Statement, Store, Update

LENGTHY_WORK = 200_000
"""Above so many additions other Python threads may run meanwhile."""


def vector_is_outside(kernel: Kernel) -> bool:
    """Whether the last outer loop is the vectorised one."""
    return bool(kernel.loops) and kernel.vector_variable == kernel.loops[-1].variable


def trip_count(loops: Sequence[Loop]) -> int | None:
    """How often the innermost body runs; None if that depends on a symbol."""
    return indexing.constant(indexing.product([loop.size for loop in loops]))


def amount_of_work(kernel: Kernel) -> int | None:
    """About how many additions one call takes; None: depends on a symbol."""
    outer = trip_count(kernel.loops)
    total = 0
    for statement in kernel.body:
        inner, parts = (
            (trip_count(statement.loops), statement.body) if isinstance(statement, Nest) else (1, (statement,))
        )
        if inner is None:
            return None
        total += inner * sum(1 + cost(part.value) for part in parts)
    return None if outer is None else outer * total


def lengthy(kernel: Kernel) -> bool:
    """Whether other Python threads should run meanwhile."""
    work = amount_of_work(kernel)
    return work is None or work > LENGTHY_WORK


def own_work(kernel: Kernel, program: Program) -> dict[str, tuple[str, ...]]:
    """Whose work each name in the kernel is: of a buffer, of a scratch row, of a total that is kept wider.

    The last fx node of a buffer is the one that it is the result of; the work
    of those before it is told apart in its body (``expr.Apply.origin``).
    """
    tensors = program.tensors()
    mentioned = dict.fromkeys((*kernel.buffers, *kernel.reads, *kernel.writes))
    found = {name: tensors[name].from_nodes[-1:] for name in mentioned}
    return {name: nodes for buffer, nodes in found.items() for name in (buffer, f"row_{buffer}", f"{buffer}_wide")}


def size_symbols(kernel: Kernel) -> tuple[Symbol, ...]:
    """Symbolic sizes that the kernel mentions anywhere, in order of their names."""
    bound = {loop.variable for loop in kernel.loops}
    found: set[sympy.Symbol] = set()
    for scratch in kernel.scratch:
        found |= scratch.size.free_symbols
    for loop in kernel.loops:
        found |= loop.size.free_symbols
    for statement in flat(kernel.body):
        if isinstance(statement, Nest):
            for loop in statement.loops:
                bound.add(loop.variable)
                found |= loop.size.free_symbols
            continue
        if isinstance(statement, Store):
            found |= statement.offset.free_symbols
        if isinstance(statement, (Accumulate, Carry)):
            found |= statement.place.free_symbols
        places = walk(statement.place) if isinstance(statement, Update) else ()
        for node in (*walk(statement.value), *places):
            for index in getattr(node, "index", ()) if not isinstance(node, IndexOf) else (node.index,):
                found |= index.free_symbols
            for gather in getattr(node, "gathers", ()):
                bound.add(gather.symbol)
                found |= gather.size.free_symbols
    return tuple(sorted(found - bound, key=lambda symbol: symbol.name))


def flat(body: Sequence[Statement]) -> Iterator[Inner | Nest]:
    """Every statement, nests before what is in them."""
    for statement in body:
        yield statement
        if isinstance(statement, Nest):
            yield from statement.body


def stored(parts: Sequence[Statement | Inner]) -> frozenset[str]:
    """The buffers that some statements write."""
    names = set()
    for part in parts:
        if isinstance(part, (Store, Update)):
            names.add(part.buffer)
        elif isinstance(part, Nest):
            names |= stored(part.body)
    return frozenset(names)
