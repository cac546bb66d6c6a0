"""A group of buffers as loops and statements.

    group: rows i0; buf0 = max of x, buf1 = exp(x - buf0), buf2 = sum of buf1, buf3 = buf1 / buf2
    ->  for i0:  for i1: buf0 = max(buf0, x[..])
                 for i1: buf1 = exp(x[..] - buf0); row_buf1[i1] = buf1; buf2 += buf1
                 for i1: buf3[..] = row_buf1[i1] / buf2

A value that is used in a later pass over the row than the one that makes it is
computed again if it is cheap, read back if it is stored anyway, else kept in a
scratch row. What only this kernel uses is not stored at all.

In torch: torch/_inductor/codegen/simd.py (SIMDScheduling). Read next:
nbcompile/scheduling/loops.py
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import sympy

from nbcompile.ir.buffer import Pointwise, Reduction, Scan, Tensor
from nbcompile.ir.expr import Expr, IndexOf, Load, Local, cast, cost, loads, rebuild, substitute
from nbcompile.ir.index import (
    ZERO,
    Index,
    constant,
    flatten,
    loop_variable,
    product,
    reduction_variable,
    simplify,
)
from nbcompile.ir.kernel import (
    REGISTER_ROW,
    Accumulate,
    Carry,
    Inner,
    Kernel,
    Let,
    Nest,
    Scratch,
    Statement,
    Store,
    is_near,
    lies_across,
)
from nbcompile.scheduling.fuse import Group, Member, _is_element, passes
from nbcompile.scheduling.loops import tidy_loops
from nbcompile.scheduling.narrow import narrow

RECOMPUTE_COST = 4
RECOMPUTE_LOADS = 2
SCRATCH_BYTES = 256 * 1024
"""A scratch row must stay in the cache of a core."""

RECOMPUTE, MEMORY, SCRATCH = "recompute", "memory", "scratch"


def build_kernel(name: str, group: Group, stored: set[str], tensors: Mapping[str, Tensor]) -> Kernel:
    """The kernel of a group; ``stored`` are the buffers that something outside it reads."""
    return _Builder(name, group, stored, tensors).kernel()


class _Builder:
    def __init__(self, name: str, group: Group, stored: set[str], tensors: Mapping[str, Tensor]) -> None:
        self.name, self.group, self.tensors = name, group, tensors
        self.stored = stored & group.names()
        self.made = {member.buffer.name: member for member in group.members}
        self.element = {name: _is_element(group, member) for name, member in self.made.items()}
        self.inner = [loop.variable for loop in group.inner_loops()]
        self.passes = passes(group)
        self.keep: dict[str, str] = {}
        self.scratch: list[Scratch] = []
        self.needed_in: dict[str, set[int]] = {name: set() for name in self.made}
        self._plan()

    # -- where values are kept --------------------------------------------------------------------

    def _plan(self) -> None:
        """Decide for every value of an element how later passes get at it; the last members first."""
        for member in reversed(self.group.members):
            name = member.buffer.name
            at = self.passes[name]
            if self.element[name]:
                later = {each for each in self.needed_in[name] if each > at}
                if later and at not in self.needed_in[name] and len(later) == 1 and not self._is_stored(member):
                    # Used in one later pass only: made there.
                    (self.passes[name],) = later
                elif later:
                    self.keep[name] = self._keeping(member)
            again = self.needed_in[name] if self.keep.get(name) == RECOMPUTE else set()
            for load in loads(member.buffer.body):
                if load.buffer in self.made and load.buffer != name:
                    self.needed_in[load.buffer] |= {self.passes[name], *again}

    def _is_stored(self, member: Member) -> bool:
        buffer = member.buffer
        return buffer.name in self.stored or (isinstance(buffer, Pointwise) and bool(buffer.writes_to))

    def _keeping(self, member: Member) -> str:
        buffer = member.buffer
        cheap = cost(buffer.body) <= RECOMPUTE_COST and len(list(loads(buffer.body))) <= RECOMPUTE_LOADS
        if cheap and isinstance(buffer, Pointwise):
            return RECOMPUTE
        if buffer.name in self.stored:
            return MEMORY
        length = constant(product(self.group.loops[each] for each in self.inner))
        if buffer.device.type == "cuda" and (length is None or length > REGISTER_ROW):
            return self._keeping_on_gpu(buffer)
        if self._along_columns(member) or (length is not None and length * buffer.dtype.itemsize > SCRATCH_BYTES):
            self.stored.add(buffer.name)
            return MEMORY
        size = product(self.group.loops[each] for each in self.inner)
        self.scratch.append(Scratch(f"row_{buffer.name}", buffer.dtype, size))
        return SCRATCH

    def _keeping_on_gpu(self, buffer: Pointwise | Reduction | Scan) -> str:
        """A row that is too long for registers: it is made again of what is read again; a scan goes to memory."""
        if isinstance(buffer, Pointwise):
            return RECOMPUTE
        self.stored.add(buffer.name)
        return MEMORY

    def _along_columns(self, kept: Member) -> bool:
        """Whether memory is adjacent from row to row and not along a row (a reduction over columns)."""
        rows = [loop.variable for loop in self.group.outer_loops()]
        along, across = 0, 0
        for offset in self._read_offsets():
            if any(is_near(offset, inner, row) for inner in self.inner for row in rows):
                along += 1
            elif any(is_near(offset, row, inner) for inner in self.inner for row in rows):
                across += 1
        return across > along and not (kept.buffer.device.type == "cpu" and self._turns_something(kept))

    def _turns_something(self, kept: Member) -> bool:
        """Whether some rows are adjacent and others lie across, were the value kept in memory: these are turned."""
        written = [each for each in self.group.members if self._is_stored(each) or each is kept]
        offsets = [*self._read_offsets(), *(self._offset(_target(each), each.results) for each in written)]
        rows = [loop.variable for loop in self.group.outer_loops()]
        return any(lies_across(each, row, inner) for each in offsets for row in rows for inner in self.inner)

    def _read_offsets(self) -> Iterator[Index]:
        """Where the group reads what others made."""
        for member in self.group.members:
            for load in loads(member.buffer.body):
                if load.buffer not in self.made:
                    yield self.tensors[load.buffer].layout.at([each.xreplace(member.mapping) for each in load.index])

    # -- statements -------------------------------------------------------------------------------

    def kernel(self) -> Kernel:
        last = max(self.passes.values(), default=0)
        before: list[Statement] = []
        nests: dict[int, list[Inner]] = {at: [] for at in range(last + 1)}
        after: dict[int, list[Statement]] = {at: [] for at in range(-1, last + 1)}
        done: set[tuple[str, int]] = set()
        for at in range(-1, last + 1):
            for member in self.group.members:
                if self.passes[member.buffer.name] == at:
                    self._emit(member, at, nests, after, done)
        body: list[Statement] = [*before, *after[-1]]
        inner = self.group.inner_loops()
        for at in range(last + 1):
            if nests[at]:
                body.extend([Nest(inner, tuple(nests[at]))] if inner else nests[at])  # type: ignore[arg-type]
            body += after[at]
        nodes = tuple(dict.fromkeys(node for member in self.group.members for node in member.buffer.from_nodes))
        plain = Kernel(
            self.name, self.group.members[0].buffer.device, self.group.outer_loops(), tuple(body), tuple(self.scratch),
            buffers=tuple(self.made), from_nodes=nodes,
        )  # fmt: skip
        return tidy_loops(plain)

    def _emit(
        self, member: Member, at: int, nests: dict[int, list[Inner]],
        after: dict[int, list[Statement]], done: set[tuple[str, int]],
    ) -> None:  # fmt: skip
        """The statements of one member in one pass (again, where it is computed again)."""
        buffer, name = member.buffer, member.buffer.name
        if (name, at) in done:
            return
        done.add((name, at))
        inside = isinstance(buffer, Reduction) or self.element[name] or not self.inner
        if inside:
            self._emit_earlier(member, at, nests, after, done)
        value = self._value(member, at)
        if isinstance(buffer, Reduction):
            nests[at].append(self._accumulate(member, value))
            after[at] += self._row_result(member)
            return
        target: list[Statement] = nests[at] if inside and at >= 0 else after[at]  # type: ignore[assignment]
        if isinstance(buffer, Scan):
            nests[at].append(self._carry(buffer, member, value))
            value = _result(buffer)
        first = at == self.passes[name]
        stores = self._stores(member, first)
        if value != Local(name, buffer.dtype) and (not stores or self._is_used(name, at)):
            target.append(Let(name, value))
            value = Local(name, buffer.dtype)
        target += [Store(where, offset, value) for where, offset in stores]

    def _emit_earlier(
        self, member: Member, at: int, nests: dict[int, list[Inner]],
        after: dict[int, list[Statement]], done: set[tuple[str, int]],
    ) -> None:  # fmt: skip
        for load in loads(member.buffer.body):
            producer = self.made.get(load.buffer)
            if producer is None or not self.element[load.buffer] or self.passes[load.buffer] >= at:
                continue
            if self.keep.get(load.buffer) == RECOMPUTE:
                self._emit(producer, at, nests, after, done)

    def _is_used(self, name: str, at: int) -> bool:
        # A row value is used by every later pass through its name, an element's value by its own pass.
        return bool(self.needed_in[name]) if not self.element[name] or not self.inner else at in self.needed_in[name]

    def _stores(self, member: Member, first: bool) -> list[tuple[str, Index]]:
        buffer = member.buffer
        places: list[tuple[str, Index]] = []
        if not first:
            return places
        if self._is_stored(member):
            places.append((_target(member), self._offset(_target(member), member.results)))
        if self.keep.get(buffer.name) == SCRATCH:
            places.append((f"row_{buffer.name}", self._row_place()))
        return places

    def _row_place(self) -> Index:
        return flatten(self.inner, [self.group.loops[each] for each in self.inner])

    def _accumulate(self, member: Member, value: Expr) -> Accumulate:
        buffer = member.buffer
        assert isinstance(buffer, Reduction)
        place: Index = ZERO
        if buffer.kind in ("argmax", "argmin"):
            for at, extent in enumerate(buffer.reduced):
                place = place * extent + member.mapping.get(reduction_variable(at), ZERO)
        return Accumulate(_accumulator(buffer), buffer.kind, value, sympy.expand(place))

    def _carry(self, buffer: Scan, member: Member, value: Expr) -> Carry:
        place = member.mapping[loop_variable(buffer.dim)] if buffer.kind.startswith("arg") else ZERO
        return Carry(_accumulator(buffer), buffer.kind, value, place)

    def _row_result(self, member: Member) -> list[Statement]:
        buffer = member.buffer
        assert isinstance(buffer, Reduction)
        statements: list[Statement] = []
        if _accumulator(buffer) != buffer.name:
            statements.append(Let(buffer.name, _result(buffer)))
        if buffer.name in self.stored:
            offset = self._offset(buffer.name, member.results)
            statements.append(Store(buffer.name, offset, Local(buffer.name, buffer.dtype)))
        return statements

    # -- bodies -----------------------------------------------------------------------------------

    def _offset(self, name: str, position: tuple[Index, ...]) -> Index:
        return simplify(self.tensors[name].layout.at(position), self.group.loops)

    def _value(self, member: Member, at: int) -> Expr:
        mapping = member.mapping
        body = self._read(substitute(member.buffer.body, mapping) if mapping else member.buffer.body, at)
        return narrow(body, self.group.loops)

    def _read(self, body: Expr, at: int) -> Expr:
        """Loads become locals, scratch rows, or offsets in memory."""
        body = rebuild(body, lambda part: self._read(part, at))
        if isinstance(body, IndexOf):
            return replace(body, index=simplify(body.index, self.group.loops))
        if not isinstance(body, Load):
            return body
        name = body.buffer
        if name not in self.made or (self.keep.get(name) == MEMORY and self.passes[name] < at):
            return replace(body, index=(self._offset(name, body.index),))
        if self.keep.get(name) == SCRATCH and self.passes[name] < at:
            return replace(body, buffer=f"row_{name}", index=(self._row_place(),), gathers=())
        return Local(name, body.dtype)


def _target(member: Member) -> str:
    """The buffer in whose memory a member is stored."""
    buffer = member.buffer
    return (isinstance(buffer, Pointwise) and buffer.writes_to) or buffer.name


def _result(buffer: Reduction | Scan) -> Expr:
    """The running result in the type of the buffer."""
    name = _accumulator(buffer)
    return Local(name, buffer.dtype) if name == buffer.name else cast(Local(name, buffer.accumulate), buffer.dtype)


def _accumulator(buffer: Reduction | Scan) -> str:
    """The name of the running result: another one where it has another type than the buffer."""
    exact = buffer.kind in ("argmax", "argmin") or buffer.accumulate == buffer.dtype
    if exact:
        return buffer.name
    return f"{buffer.name}_{'wide' if buffer.accumulate.itemsize > buffer.dtype.itemsize else 'narrow'}"
