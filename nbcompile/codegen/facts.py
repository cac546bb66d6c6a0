"""What can be said of a kernel before a line of it is written.

    for i0 < 64:  for r0 < s0: total += exp(x[s0*i0 + r0])
    ->  work: unknown, it depends on s0        sizes: (s0,)        lanes: along r0

Both code generators ask: how much work is it, which symbolic sizes does it
mention, which loop is the vectorised one.

In torch: torch/_inductor/codegen/simd.py (estimate_kernel_num_bytes), sizevars.py. Read next:
nbcompile/codegen/kernels.py
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace

import sympy

from nbcompile.ir import index as indexing
from nbcompile.ir.buffer import Extern, Program, Tensor, views_in
from nbcompile.ir.expr import Expr, IndexOf, Load, Masked, children, cost, walk
from nbcompile.ir.index import ONE, Index, Symbol, stride_along
from nbcompile.ir.kernel import Accumulate, Carry, Inner, Kernel, Loop, Nest, Schedule, Statement, Store, Update

LENGTHY_WORK = 200_000
"""Above so many additions other Python threads may run meanwhile."""

STREAMED_BYTES = 1 << 25
"""So large a result is in no cache when it is read: a usual size of the last-level cache, which is shared."""
SCATTERED_BYTES = 1 << 22
"""From here on it takes longer to wait for lines that are far from each other than to read them again later."""
ROWS_AHEAD, ROW_BYTES, FAR_BYTES = 2, 1 << 16, 1 << 22
"""So many rows and this one should fit into a core's second cache; fewer bytes in all are near already."""


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


@dataclass(frozen=True, slots=True)
class Streamed:
    """A result whose stores go past the caches if it is large."""

    size: Index
    """In bytes. Whether one of symbolic size is large, a call sees."""
    limit: int
    """From so many bytes on it is."""
    lines: bool
    """Whether lines that follow each other are stored at different times: then only whole ones are streamed."""

    @property
    def is_small(self) -> bool:
        """Whether it is never streamed."""
        number = indexing.constant(self.size)
        return number is not None and number < self.limit

    def is_large(self, pointer: str) -> str:
        """The condition, in C++, under which it is streamed."""
        return f"{pointer}_is_large" if indexing.constant(self.size) is None else "true"


def streamed(kernel: Kernel, schedule: Schedule, scattered: Container[str]) -> dict[str, Streamed]:
    """The buffers whose stores go past the caches; ``scattered`` are those that are not stored line after line.

    A line that is stored as usual is fetched from memory first, which here is a third of the traffic of a sum.
    What is read soon should stay in the cache, if it can: of results that are stored line after line, those that
    nothing in the graph reads. Where the lines are scattered nothing fetches them ahead, so that each is waited for.
    """
    tensors = schedule.program.tensors()
    known, read = set(size_symbols(kernel)), _read(schedule)
    entries = {
        name: Streamed(
            _bytes(tensors[name]), SCATTERED_BYTES if name in scattered else STREAMED_BYTES, name in scattered
        )
        for name in kernel.writes
        if name not in (kernel.reads if name in scattered else read)
    }
    return {name: each for name, each in entries.items() if each.size.free_symbols <= known and not each.is_small}


def _read(schedule: Schedule) -> set[str]:
    read = {name for each in schedule.steps if isinstance(each, Kernel) for name in each.reads}
    read |= {
        view.buffer
        for each in schedule.steps
        if isinstance(each, Extern)
        for view in views_in((each.args, each.kwargs))
    }
    return read


def _bytes(tensor: Tensor) -> Index:
    return tensor.layout.elements * tensor.dtype.itemsize


def coming_rows(kernel: Kernel, nest: Nest) -> tuple[Load, ...]:
    """What to ask for from memory while a nest runs: lines that the kernel reads some outer iterations later.

    A kernel that goes over a row several times waits for memory in the first pass only, and computes in the
    others. So what the first pass will need is asked for in the others, each tensor's lines in one of them.
    """
    first, *later = [statement for statement in kernel.body if isinstance(statement, Nest)] or [nest]
    later = [each for each in later if len(each.loops) == 1 and each.loops[0].size == first.loops[-1].size]
    length, rows = indexing.constant(first.loops[-1].size), trip_count(kernel.loops)
    at = next((at for at, each in enumerate(later) if each is nest), None)
    if at is None or not kernel.loops or len(first.loops) != 1 or length is None or rows is None:
        return ()
    found = _loads_of_a_row(kernel, first, nest.loops[0].variable)
    row = sum(length * each.dtype.itemsize for each in found)
    return tuple(found[at :: len(later)]) if row <= ROW_BYTES and row * rows >= FAR_BYTES else ()


def _loads_of_a_row(kernel: Kernel, nest: Nest, variable: Symbol) -> list[Load]:
    """What a nest reads side by side, in rows of their own; as another nest's loop would read the coming ones."""
    along, outer = nest.loops[0].variable, kernel.loops[-1].variable
    found = dict.fromkeys(
        replace(each, index=(each.index[0].xreplace({outer: outer + ROWS_AHEAD, along: variable}),))
        for part in nest.body
        for each in walk(part.value)
        if isinstance(each, Load) and not each.gathers and stride_along(each.index[0], along) == ONE
        and outer in each.index[0].free_symbols and each.buffer in kernel.reads
    )  # fmt: skip
    return list(found)


def own_work(kernel: Kernel, program: Program) -> dict[str, tuple[str, ...]]:
    """Whose work each name in the kernel is: of a buffer, of a scratch row, of a total that is kept wider.

    The last fx node of a buffer is the one that it is the result of; the work
    of those before it is told apart in its body (``expr.Apply.origin``).
    """
    tensors = program.tensors()
    mentioned = dict.fromkeys((*kernel.buffers, *kernel.reads, *kernel.writes))
    found = {name: tensors[name].from_nodes[-1:] for name in mentioned}
    return {name: nodes for buffer, nodes in found.items() for name in _names_of(buffer)}


def _names_of(buffer: str) -> tuple[str, ...]:
    return (buffer, f"row_{buffer}", f"turned_{buffer}", f"{buffer}_wide", f"{buffer}_narrow")


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


def always_made(body: Expr) -> Iterator[Load]:
    """The loads that no condition guards."""
    if isinstance(body, Load):
        yield body
    for each in (body.condition, body.otherwise) if isinstance(body, Masked) else children(body):
        yield from always_made(each)


def stored(parts: Sequence[Statement | Inner]) -> frozenset[str]:
    """The buffers that some statements write."""
    names = set()
    for part in parts:
        if isinstance(part, (Store, Update)):
            names.add(part.buffer)
        elif isinstance(part, Nest):
            names |= stored(part.body)
    return frozenset(names)
