"""Kernel of a fusion group: loops and statements.

    group: rows i0; buf0 = max of x, buf1 = exp(x - buf0), buf2 = sum of buf1, buf3 = buf1 / buf2
    ->  for i0:  for i1: buf0 = max(buf0, x[..])
                 for i1: buf1 = exp(x[..] - buf0); row_buf1[i1] = buf1; buf2 += buf1
                 for i1: buf3[..] = row_buf1[i1] / buf2

A value that a later pass over the row uses is recomputed if it is cheap, loaded
if it is stored anyway, and otherwise kept in a scratch buffer of one row. What
only this kernel uses is not stored.

In torch: torch/_inductor/codegen/simd.py (SIMDScheduling). Read next:
nbcompile/scheduling/loops.py
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import sympy

from nbcompile.ir.buffer import Pointwise, Reduction, Scan, Tensor
from nbcompile.ir.expr import Expr, IndexOf, Load, Local, cast
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
    MAX_REGISTER_ROW,
    Accumulate,
    Carry,
    Inner,
    Kernel,
    Let,
    Nest,
    Scratch,
    Statement,
    Store,
    has_small_stride,
    is_transposed_access,
)
from nbcompile.ir.traversal import cost, loads, rebuild, substitute
from nbcompile.scheduling.groups import Group, Member, is_element, passes
from nbcompile.scheduling.int32_narrowing import narrow_to_int32
from nbcompile.scheduling.loops import tidy_loops

RECOMPUTE_COST = 4
"""Maximum cost of a recomputed value, in additions (``ir.expr.cost``): a scratch row costs a store and a load."""
RECOMPUTE_LOADS = 2
"""Maximum number of loads of a recomputed value: a scratch row needs one, and a store."""
SCRATCH_BYTES = 256 * 1024
"""Size of the largest scratch row: it must stay in the L2 cache of a core."""

RECOMPUTE, MEMORY, SCRATCH = "recompute", "memory", "scratch"


def build_kernel(name: str, group: Group, stored: set[str], tensors: Mapping[str, Tensor]) -> Kernel:
    """Build the kernel of a group; ``stored`` are the buffers that something outside of it reads."""
    return _Builder(name, group, stored, tensors).kernel()


class _Builder:
    def __init__(self, name: str, group: Group, stored: set[str], tensors: Mapping[str, Tensor]) -> None:
        self.name, self.group, self.tensors = name, group, tensors
        self.stored = stored & group.names()
        self.produced = {member.buffer.name: member for member in group.members}
        self.element = {name: is_element(group, member) for name, member in self.produced.items()}
        self.inner = [loop.variable for loop in group.inner_loops()]
        self.passes = passes(group)
        self.strategy: dict[str, str] = {}
        self.scratch: list[Scratch] = []
        self.needed_in: dict[str, set[int]] = {name: set() for name in self.produced}
        self._plan()

    # -- how later passes get a value --------------------------------------------------------------------

    def _plan(self) -> None:
        """Choose for each element-wise value how later passes get it; in reverse order, as uses are found first."""
        for member in reversed(self.group.members):
            name = member.buffer.name
            row_pass = self.passes[name]
            if self.element[name]:
                later = {number for number in self.needed_in[name] if number > row_pass}
                if later and row_pass not in self.needed_in[name] and len(later) == 1 and not self._is_stored(member):
                    # Used in one later pass only: computed there.
                    # Before the operands are looked at below: they are now needed in the later pass.
                    (self.passes[name],) = later
                elif later:
                    self.strategy[name] = self._choose_strategy(member)
            recomputed_in = self.needed_in[name] if self.strategy.get(name) == RECOMPUTE else set()
            for load in loads(member.buffer.body):
                if load.buffer in self.produced and load.buffer != name:
                    self.needed_in[load.buffer] |= {self.passes[name], *recomputed_in}

    def _is_stored(self, member: Member) -> bool:
        buffer = member.buffer
        return buffer.name in self.stored or (isinstance(buffer, Pointwise) and bool(buffer.writes_to))

    def _choose_strategy(self, member: Member) -> str:
        buffer = member.buffer
        # In order of preference: recompute; reload what is stored anyway; keep in a scratch row that fits in L2; store.
        cheap = cost(buffer.body) <= RECOMPUTE_COST and len(list(loads(buffer.body))) <= RECOMPUTE_LOADS
        if cheap and isinstance(buffer, Pointwise):
            return RECOMPUTE
        if buffer.name in self.stored:
            return MEMORY
        length = constant(product(self.group.loops[variable] for variable in self.inner))
        if buffer.device.type == "cuda" and (length is None or length > MAX_REGISTER_ROW):
            return self._choose_strategy_on_gpu(buffer)
        # A scratch row puts the lanes along the row (loops.py, _vector_variable). If the accesses are contiguous
        # across rows, those lanes would need strided loads.
        if self._is_column_reduction(member) or (length is not None and length * buffer.dtype.itemsize > SCRATCH_BYTES):
            self.stored.add(buffer.name)
            return MEMORY
        size = product(self.group.loops[variable] for variable in self.inner)
        self.scratch.append(Scratch(f"row_{buffer.name}", buffer.dtype, size))
        return SCRATCH

    def _choose_strategy_on_gpu(self, buffer: Pointwise | Reduction | Scan) -> str:
        """Recompute a row that is too long for registers, from reloaded values; a scan is stored in memory."""
        if isinstance(buffer, Pointwise):
            return RECOMPUTE
        self.stored.add(buffer.name)
        return MEMORY

    def _is_column_reduction(self, value_member: Member) -> bool:
        """True if most accesses are contiguous across rows, not along a row: a reduction over columns."""
        rows = [loop.variable for loop in self.group.outer_loops()]
        along, across = 0, 0
        for offset in self._read_offsets():
            if any(has_small_stride(offset, inner, row) for inner in self.inner for row in rows):
                along += 1
            elif any(has_small_stride(offset, row, inner) for inner in self.inner for row in rows):
                across += 1
        return across > along and not (
            value_member.buffer.device.type == "cpu" and self._packs_transposed_rows(value_member)
        )

    def _packs_transposed_rows(self, value_member: Member) -> bool:
        """True if some access would be transposed if the value were in memory: it is then packed into panels."""
        written = [member for member in self.group.members if self._is_stored(member) or member is value_member]
        offsets = [*self._read_offsets(), *(self._offset(_target(member), member.results) for member in written)]
        rows = [loop.variable for loop in self.group.outer_loops()]
        return any(
            is_transposed_access(offset, row, inner) for offset in offsets for row in rows for inner in self.inner
        )

    def _read_offsets(self) -> Iterator[Index]:
        """The offsets of all loads from buffers of other kernels."""
        for member in self.group.members:
            for load in loads(member.buffer.body):
                if load.buffer not in self.produced:
                    yield self.tensors[load.buffer].layout.at(
                        [position.xreplace(member.mapping) for position in load.index]
                    )

    # -- statements -------------------------------------------------------------------------------

    def kernel(self) -> Kernel:
        last = max(self.passes.values(), default=0)
        before: list[Statement] = []
        nests: dict[int, list[Inner]] = {row_pass: [] for row_pass in range(last + 1)}
        after: dict[int, list[Statement]] = {row_pass: [] for row_pass in range(-1, last + 1)}
        done: set[tuple[str, int]] = set()
        # Pass -1 is what a row needs before its first pass. Members of one pass keep their order, which is topological.
        for row_pass in range(-1, last + 1):
            for member in self.group.members:
                if self.passes[member.buffer.name] == row_pass:
                    self._emit(member, row_pass, nests, after, done)
        body: list[Statement] = [*before, *after[-1]]
        inner = self.group.inner_loops()
        for row_pass in range(last + 1):
            if nests[row_pass]:
                body.extend([Nest(inner, tuple(nests[row_pass]))] if inner else nests[row_pass])  # type: ignore[arg-type]
            body += after[row_pass]
        plain = Kernel(
            self.name, self.group.members[0].buffer.device, self.group.outer_loops(), tuple(body), tuple(self.scratch),
            buffers=tuple(self.produced), from_nodes=self.group.from_nodes(),
        )  # fmt: skip
        return tidy_loops(plain)

    def _emit(
        self, member: Member, row_pass: int, nests: dict[int, list[Inner]],
        after: dict[int, list[Statement]], done: set[tuple[str, int]],
    ) -> None:  # fmt: skip
        """Append the statements of one member in one pass; a recomputed member has them in several."""
        buffer, name = member.buffer, member.buffer.name
        if (name, row_pass) in done:
            return
        done.add((name, row_pass))
        # A reduction and an element belong to the inner loops; the value of a row is computed once, after a pass.
        inside = isinstance(buffer, Reduction) or self.element[name] or not self.inner
        if inside:
            self._emit_earlier(member, row_pass, nests, after, done)
        value = self._value(member, row_pass)
        if isinstance(buffer, Reduction):
            nests[row_pass].append(self._accumulate(member, value))
            after[row_pass] += self._row_result(member)
            return
        target: list[Statement] = nests[row_pass] if inside and row_pass >= 0 else after[row_pass]  # type: ignore[assignment]
        if isinstance(buffer, Scan):
            nests[row_pass].append(self._carry(buffer, member, value))
            value = _result(buffer)
        # A recomputed value was stored by its first pass, if anything reads it from memory.
        first = row_pass == self.passes[name]
        stores = self._stores(member, first)
        # A value that is stored and not used again needs no name; an accumulator without conversion
        # has this name already.
        if value != Local(name, buffer.dtype) and (not stores or self._is_used(name, row_pass)):
            target.append(Let(name, value))
            value = Local(name, buffer.dtype)
        target += [Store(where, offset, value) for where, offset in stores]

    def _emit_earlier(
        self, member: Member, row_pass: int, nests: dict[int, list[Inner]],
        after: dict[int, list[Statement]], done: set[tuple[str, int]],
    ) -> None:  # fmt: skip
        for load in loads(member.buffer.body):
            producer = self.produced.get(load.buffer)
            if producer is None or not self.element[load.buffer] or self.passes[load.buffer] >= row_pass:
                continue
            # The operand was computed in an earlier pass, whose locals have ended: it is emitted here
            # again, before its user.
            if self.strategy.get(load.buffer) == RECOMPUTE:
                self._emit(producer, row_pass, nests, after, done)

    def _is_used(self, name: str, row_pass: int) -> bool:
        # A value of a row is visible in all later passes, an element's value only in the pass that computes it.
        return (
            bool(self.needed_in[name]) if not self.element[name] or not self.inner else row_pass in self.needed_in[name]
        )

    def _stores(self, member: Member, first: bool) -> list[tuple[str, Index]]:
        buffer = member.buffer
        stores: list[tuple[str, Index]] = []
        if not first:
            return stores
        if self._is_stored(member):
            stores.append((_target(member), self._offset(_target(member), member.results)))
        if self.strategy.get(buffer.name) == SCRATCH:
            stores.append((f"row_{buffer.name}", self._scratch_index()))
        return stores

    def _scratch_index(self) -> Index:
        return flatten(self.inner, [self.group.loops[variable] for variable in self.inner])

    def _accumulate(self, member: Member, value: Expr) -> Accumulate:
        buffer = member.buffer
        assert isinstance(buffer, Reduction)
        position: Index = ZERO
        if buffer.kind in ("argmax", "argmin"):
            # argmax returns the index in the flattened reduced dimensions, in row-major order.
            for dim, extent in enumerate(buffer.reduced):
                position = position * extent + member.mapping.get(reduction_variable(dim), ZERO)
        return Accumulate(_accumulator(buffer), buffer.kind, value, sympy.expand(position))

    def _carry(self, buffer: Scan, member: Member, value: Expr) -> Carry:
        position = member.mapping[loop_variable(buffer.dim)] if buffer.kind.startswith("arg") else ZERO
        return Carry(_accumulator(buffer), buffer.kind, value, position)

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

    def _value(self, member: Member, row_pass: int) -> Expr:
        mapping = member.mapping
        body = self._read(substitute(member.buffer.body, mapping) if mapping else member.buffer.body, row_pass)
        return narrow_to_int32(body, self.group.loops)

    def _read(self, body: Expr, row_pass: int) -> Expr:
        """Loads become locals, scratch rows, or offsets in memory."""
        body = rebuild(body, lambda part: self._read(part, row_pass))
        if isinstance(body, IndexOf):
            return replace(body, index=simplify(body.index, self.group.loops))
        if not isinstance(body, Load):
            return body
        name = body.buffer
        # In the pass that computes it, a value is a local, whatever later passes do.
        if name not in self.produced or (self.strategy.get(name) == MEMORY and self.passes[name] < row_pass):
            return replace(body, index=(self._offset(name, body.index),))
        if self.strategy.get(name) == SCRATCH and self.passes[name] < row_pass:
            return replace(body, buffer=f"row_{name}", index=(self._scratch_index(),), gathers=())
        return Local(name, body.dtype)


def _target(member: Member) -> str:
    """The buffer that a member is stored to: itself, or the input that it overwrites."""
    buffer = member.buffer
    return (isinstance(buffer, Pointwise) and buffer.writes_to) or buffer.name


def _result(buffer: Reduction | Scan) -> Expr:
    """The accumulator, converted to the buffer's type."""
    name = _accumulator(buffer)
    return Local(name, buffer.dtype) if name == buffer.name else cast(Local(name, buffer.accumulate), buffer.dtype)


def _accumulator(buffer: Reduction | Scan) -> str:
    """The name of the accumulator: the buffer's, unless it has another type."""
    # A bfloat16 sum is accumulated in float32 (buf0_wide), a count of int64 in int32 (buf0_narrow), and
    # converted at the end.
    same_type = buffer.kind in ("argmax", "argmin") or buffer.accumulate == buffer.dtype
    if same_type:
        return buffer.name
    return f"{buffer.name}_{'wide' if buffer.accumulate.itemsize > buffer.dtype.itemsize else 'narrow'}"
