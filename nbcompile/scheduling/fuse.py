"""Loop fusion: which buffers share a loop nest.

A group is a set of buffers computed in one kernel: outer loops over rows, and
(where something is reduced) inner loops over the elements of a row.

    buf0[i0]     = max over r0 of x[i0, r0]         row result
    buf1[i0, i1] = exp(x[i0, i1] - buf0[i0])        element; its i1 and buf0's r0 are one loop
    buf2[i0]     = sum over r0 of buf1[i0, r0]
    buf3[i0, i1] = buf1[i0, i1] / buf2[i0]          one group: rows i0, elements i1

Joining is unification: the loops of a new buffer are matched with those of the
group through what both read and write. It fails with a reason, which goes into
the fusion log.

In torch: torch/_inductor/scheduler.py (can_fuse, score_fusion). Read next:
nbcompile/scheduling/build.py
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import sympy

from nbcompile.ir.buffer import PRODUCT_KINDS, LoopBuffer, Pointwise, Program, Reduction, Scan
from nbcompile.ir.expr import loads
from nbcompile.ir.index import Index, Symbol, constant, is_one, loop_variable, product, reduction_variable
from nbcompile.ir.kernel import Loop
from nbcompile.record.model import FusionDecision
from nbcompile.scheduling.dependencies import dependencies, reads, topological_order
from nbcompile.scheduling.units import Unit, UnitOrder
from nbcompile.support import fuel

MEMBER_LIMIT = 64
POINTER_LIMIT = 48
FEW_ROWS = 8
SERIAL_LIMIT = 1 << 15
"""A row is walked by one thread: fewer rows than FEW_ROWS, longer than this, are not fused across passes."""


@dataclass(frozen=True, slots=True)
class Member:
    """A buffer in a group, with a mapping from its loop variables to the group's."""

    buffer: LoopBuffer
    mapping: dict[Symbol, Index]

    @property
    def results(self) -> tuple[Index, ...]:
        """The group's variable (or 0) along each dimension of the result."""
        return tuple(
            self.mapping.get(loop_variable(at), sympy.Integer(0)) for at in range(len(self.buffer.layout.size))
        )


@dataclass(frozen=True, slots=True)
class Group:
    """Buffers of one kernel."""

    members: tuple[Member, ...] = ()
    loops: dict[Symbol, Index] = field(default_factory=dict)
    """All loops by variable, in the order of the first member's dimensions."""
    inner: frozenset[Symbol] = frozenset()
    """The loops over the elements of a row; none while nothing is reduced or repeated along a row."""
    counter: int = 0

    def names(self) -> set[str]:
        """The members' names."""
        return {member.buffer.name for member in self.members}

    def from_nodes(self) -> tuple[str, ...]:
        """The fx nodes that the members compute."""
        return tuple(dict.fromkeys(node for member in self.members for node in member.buffer.from_nodes))

    def outer_loops(self) -> tuple[Loop, ...]:
        """Loops over rows."""
        return tuple(Loop(variable, size) for variable, size in self.loops.items() if variable not in self.inner)

    def inner_loops(self) -> tuple[Loop, ...]:
        """Loops over the elements of a row."""
        return tuple(Loop(variable, size) for variable, size in self.loops.items() if variable in self.inner)


class Incompatible(Exception):
    """A buffer cannot join a group, for the reason given."""


def own_loops(buffer: LoopBuffer) -> tuple[dict[Symbol, Index], dict[Symbol, Index]]:
    """The loops over a buffer's result and those that it reduces or scans, without loops of one iteration."""
    outer = {loop_variable(at): n for at, n in enumerate(buffer.layout.size) if not is_one(n)}
    if isinstance(buffer, Scan):
        along = loop_variable(buffer.dim)
        return {variable: n for variable, n in outer.items() if variable != along}, {along: outer[along]}
    reduced = buffer.reduced if isinstance(buffer, Reduction) else ()
    return outer, {reduction_variable(at): n for at, n in enumerate(reduced) if not is_one(n)}


def singleton_group(buffer: LoopBuffer) -> Group:
    """A group of one buffer."""
    outer, reduced = own_loops(buffer)
    mapping: dict[Symbol, Index] = {}
    loops: dict[Symbol, Index] = {}
    for variable, size in (*outer.items(), *reduced.items()):
        own_variable = loop_variable(len(loops))
        mapping[variable], loops[own_variable] = own_variable, size
    inner = frozenset(mapping[variable] for variable in reduced)
    return Group((Member(buffer, mapping),), loops, inner, len(loops))


# -- one buffer joins a group ---------------------------------------------------------------------


def join(group: Group, buffer: LoopBuffer) -> Group:
    """The group with one more buffer.

    Raises:
        Incompatible: with the reason.
    """
    if len(group.members) >= MEMBER_LIMIT:
        raise Incompatible(f"the kernel has {MEMBER_LIMIT} buffers already")
    if group.members[0].buffer.device != buffer.device:
        raise Incompatible("another device")
    if is_product(buffer):
        raise Incompatible("a matrix product begins a kernel of its own")
    outer, reduced = own_loops(buffer)
    mapping = _match_loops(group, buffer, outer | reduced)
    group, mapping = _complete_mapping(group, outer, reduced, mapping)
    inner = _inner_loops_with(group, buffer, outer, reduced, mapping)
    member = Member(buffer, mapping)
    grown = replace(group, members=(*group.members, member), inner=inner)
    _check_epilogue(grown, member)
    _check_elements(grown, member)
    _check_mutation(grown)
    _check_size(grown)
    return grown


def _match_loops(group: Group, buffer: LoopBuffer, own: dict[Symbol, Index]) -> dict[Symbol, Index]:
    """Match loops of the buffer with loops of the group by the memory that both access."""
    producers = {member.buffer.name: member.results for member in group.members}
    mapping: dict[Symbol, Index] = {}
    for load in loads(buffer.body):
        if load.buffer in producers:
            _unify(load.index, producers[load.buffer], own, group.loops, mapping, f"it reads {load.buffer}")
    # A buffer that both read is loaded once if the loops are matched by their indices into it.
    for load in loads(buffer.body):
        if load.buffer in producers or load.gathers:
            continue
        for member in group.members:
            for other in loads(member.buffer.body):
                if other.buffer == load.buffer and not other.gathers:
                    trial = dict(mapping)
                    group_index = tuple(position.xreplace(member.mapping) for position in other.index)
                    try:
                        _unify(load.index, group_index, own, group.loops, trial, "")
                    except Incompatible:
                        continue
                    mapping = trial
    return mapping


def _unify(
    index: tuple[Index, ...], group_index: tuple[Index, ...], own: dict[Symbol, Index], loops: dict[Symbol, Index],
    mapping: dict[Symbol, Index], what: str,
) -> None:  # fmt: skip
    for position, target in zip(index, group_index, strict=True):
        if position == target and position.is_number:
            continue
        if position not in own or target not in loops:
            raise Incompatible(f"{what} at other places than the loop has it")
        assert isinstance(position, sympy.Symbol)
        if mapping.get(position, target) != target:
            raise Incompatible(f"{what} along two loops at once")
        if position not in mapping and target in mapping.values():
            raise Incompatible(f"{what} along one loop twice")
        if own[position] != loops[target]:
            raise Incompatible(f"{what} over {own[position]} elements of {loops[target]}")
        mapping[position] = target


def _complete_mapping(
    group: Group, outer: dict[Symbol, Index], reduced: dict[Symbol, Index], mapping: dict[Symbol, Index]
) -> tuple[Group, dict[Symbol, Index]]:
    """Match the remaining loops by their sizes, in order; or give the group new inner loops.

    group      amax over rows:   for i (rows)
    buffer     exp(x - amax):    for j (rows), k (columns)        j = i, since it reads amax[j]; k is left
    joined     for i (rows): ...; for k (columns): ...            k becomes an inner loop of the group
    """
    own = outer | reduced
    mapping = dict(mapping)
    unmatched = [variable for variable in own if variable not in mapping]
    available = [
        variable for variable in group.loops if variable not in mapping.values() and not is_one(group.loops[variable])
    ]
    if not unmatched:
        return group, mapping
    # The same sizes in the same order: one loop nest serves both, as for two pointwise buffers of one shape.
    if [own[variable] for variable in unmatched] == [group.loops[variable] for variable in available]:
        return group, mapping | dict(zip(unmatched, available, strict=True))
    # Otherwise the rest become inner loops, if the group has none, and if all of its loops are matched: as rows.
    rows = [variable for variable in group.loops if variable not in group.inner]
    if group.inner or not mapping or any(variable not in mapping.values() for variable in rows):
        raise Incompatible(f"loops over {_format_sizes(own)} and over {_format_sizes(group.loops)}")
    if any(variable in outer and variable not in mapping for variable in own) and reduced:
        raise Incompatible(f"loops over {_format_sizes(own)} and over {_format_sizes(group.loops)}")
    # The inner loops have to be the last ones: then a row is contiguous, and the vector loop loads it whole.
    if unmatched != list(own)[-len(unmatched) :]:
        raise Incompatible("its rows would not be contiguous in memory")
    # The group has only loops over rows so far: the new buffer's other loops are nested in them.
    loops = dict(group.loops)
    counter = group.counter
    added = []
    for variable in unmatched:
        own_variable = loop_variable(counter)
        counter += 1
        loops[own_variable], mapping[variable] = own[variable], own_variable
        added.append(own_variable)
    return replace(group, loops=loops, inner=frozenset(added), counter=counter), mapping


def _format_sizes(loops: dict[Symbol, Index]) -> str:
    return " x ".join(map(str, loops.values())) or "one element"


def _inner_loops_with(
    group: Group,
    buffer: LoopBuffer,
    outer: dict[Symbol, Index],
    reduced: dict[Symbol, Index],
    mapping: dict[Symbol, Index],
) -> frozenset[Symbol]:
    """The inner loops of the group together with the new buffer."""
    results = {mapping[variable] for variable in outer}
    inside = frozenset(mapping[variable] for variable in reduced)
    everything = {variable for variable, size in group.loops.items() if not is_one(size)}
    inner = frozenset(variable for variable in group.inner if not is_one(group.loops[variable]))
    # A kernel is a nest of outer loops with one inner nest: rows of which each is reduced. The first reduction
    # decides which loops are inner; what comes after must use the same.
    #     outer loops = group.loops - inner      one result for each row lives here
    #     inner loops                            elements of a row
    if isinstance(buffer, (Reduction, Scan)):
        what = "reduces" if isinstance(buffer, Reduction) else "scans"
        if results | inside != everything:
            raise Incompatible(f"it {what} over a part of the loops")
        if inner and inner != inside:
            raise Incompatible(f"it {what} along other loops than the kernel")
        return inside
    if results == everything:
        return group.inner
    if results == everything - inner and group.inner:
        return group.inner
    if not group.inner and results < everything:
        raise Incompatible("it has fewer elements, and the kernel has no rows")
    raise Incompatible(f"loops over {_format_sizes(outer)} and over {_format_sizes(group.loops)}")


def _check_elements(group: Group, newcomer: Member) -> None:
    """Check that the new member reads only the current element of the group's other members."""
    producers = {member.buffer.name: member for member in group.members}
    for load in loads(newcomer.buffer.body):
        producer = producers.get(load.buffer)
        if producer is None or producer is newcomer:
            continue
        index = tuple(position.xreplace(newcomer.mapping) for position in load.index)
        if index != producer.results or load.gathers:
            raise Incompatible(f"it reads {load.buffer} at other places than the loop has it")
        at_row = isinstance(newcomer.buffer, Pointwise) and not _is_element(group, newcomer)
        if at_row and _is_element(group, producer):
            raise Incompatible(f"it reads single elements of {load.buffer}")


def is_product(buffer: LoopBuffer) -> bool:
    """Return whether a buffer is a matrix product."""
    return isinstance(buffer, Reduction) and buffer.kind in PRODUCT_KINDS


def _check_epilogue(group: Group, newcomer: Member) -> None:
    """Check that what joins a matrix product is computed of single elements of the result."""
    if is_product(group.members[0].buffer) and (
        not isinstance(newcomer.buffer, Pointwise) or _is_element(group, newcomer)
    ):
        raise Incompatible("after a matrix product its kernel computes single elements")


def _is_element(group: Group, member: Member) -> bool:
    """True if a member has a value for each element of a row."""
    return not isinstance(member.buffer, Reduction) and any(position in group.inner for position in member.results)


def _check_mutation(group: Group) -> None:
    """Check that the group reads an input that it overwrites only at the element that is overwritten."""
    for writer in group.members:
        if not isinstance(writer.buffer, Pointwise) or not writer.buffer.writes_to:
            continue
        for reader in group.members:
            for load in loads(reader.buffer.body):
                if load.buffer != writer.buffer.writes_to:
                    continue
                # A kernel with rows reads a row once per reduction, before the pass that writes: a second reader could
                # see the old value in one pass and the new one in the next.
                if group.inner and reader is not writer:
                    raise Incompatible(f"{load.buffer} is overwritten, and read in several passes")
                if (
                    tuple(position.xreplace(reader.mapping) for position in load.index) != writer.results
                    or load.gathers
                ):
                    raise Incompatible(f"{load.buffer} is overwritten, and read at other places")


def _check_size(group: Group) -> None:
    pointers = {name for member in group.members for name in (member.buffer.name, *reads(member.buffer))}
    if len(pointers) > POINTER_LIMIT:
        raise Incompatible(f"the kernel would use more than {POINTER_LIMIT} buffers")
    rows = constant(product(loop.size for loop in group.outer_loops()))
    length = constant(product(loop.size for loop in group.inner_loops()))
    order = passes(group).values()
    if rows is not None and rows < FEW_ROWS and length is not None and length > SERIAL_LIMIT and set(order) != {0}:
        raise Incompatible(f"{rows} rows of {length} elements are too few for a loop over rows")


def passes(group: Group) -> dict[str, int]:
    """For each member the pass (inner nest 0, 1, ...) that computes it; a value of a row is available after its pass.

    -1: before the first pass.
    """
    found: dict[str, int] = {}
    producers = {member.buffer.name: member for member in group.members}
    for member in group.members:
        inside = isinstance(member.buffer, Reduction) or _is_element(group, member)
        at = 0 if inside else -1
        for name in reads(member.buffer):
            if name not in producers:
                continue
            row_value = not _is_element(group, producers[name])
            at = max(at, found[name] + (1 if row_value and inside else 0))
        found[member.buffer.name] = at
    return found


# -- all buffers ----------------------------------------------------------------------------------


def fuse(program: Program) -> tuple[list[Unit], list[FusionDecision]]:
    """Group all computed buffers; inputs and extern calls are units of their own. In topological order."""
    needs = dependencies(program)
    by_name = {buffer.name: buffer for buffer in program.buffers}
    order = topological_order([buffer.name for buffer in program.buffers], needs)
    fusion = _Fusion(needs)
    for name in order:
        buffer = by_name[name]
        fusion.assign(buffer if isinstance(buffer, LoopBuffer) else None, name)
    fusion.merge_groups()
    return fusion.topological_order(), fusion.decisions


def _expect_fuel(first: str, second: str) -> None:
    """Refuse a fusion that bisection leaves out."""
    if not fuel.allows("fusion", f"{first}, {second}"):
        raise Incompatible("bisection leaves it out")


class _Fusion:
    """The units, and the log of attempts, while buffers are placed one by one."""

    def __init__(self, needs: dict[str, set[str]]) -> None:
        self.needs = needs
        self.unit_of: dict[str, Unit] = {}
        self.units = UnitOrder(self.unit_of)
        self.readers: dict[str, list[str]] = {}
        self.decisions: list[FusionDecision] = []

    def topological_order(self) -> list[Unit]:
        """The units, each after its dependencies."""
        units = list(self.units)
        label = {unit: str(at) for at, unit in enumerate(units)}
        needs = {label[unit]: {label[self.unit_of[name]] for name in unit.needs - unit.names} for unit in units}
        return [units[int(key)] for key in topological_order(list(needs), needs)]

    def assign(self, buffer: LoopBuffer | None, name: str) -> None:
        """Put one buffer into the best group that takes it, or into one of its own."""
        unit = Unit({name}, singleton_group(buffer) if buffer is not None else None, set(self.needs[name]))
        if buffer is not None:
            for candidate, through in self._candidates(buffer):
                if self._try(candidate, unit, buffer, through):
                    return
        self.units.append(unit)
        self.unit_of[name] = unit
        self._record_reads(buffer)

    def _record_reads(self, buffer: LoopBuffer | None) -> None:
        for name in reads(buffer) if buffer is not None else ():
            self.readers.setdefault(name, []).append(buffer.name)  # type: ignore[union-attr]

    def _candidates(self, buffer: LoopBuffer) -> list[tuple[Unit, str]]:
        """Groups with its producers (the latest first), then groups that read the same buffers."""
        found: dict[int, tuple[Unit, str]] = {}
        for name in reversed(reads(buffer)):
            unit = self.unit_of.get(name)
            if unit is not None and unit.group is not None:
                found.setdefault(id(unit), (unit, name))
        producers = sorted(found.values(), key=lambda pair: -self.units.created(pair[0]))
        for name in reads(buffer):
            for reader in reversed(self.readers.get(name, ())):
                unit = self.unit_of[reader]
                found.setdefault(id(unit), (unit, reader))
        return [*producers, *(pair for pair in found.values() if pair not in producers)]

    def _try(self, candidate: Unit, unit: Unit, buffer: LoopBuffer, through: str) -> bool:
        assert candidate.group is not None
        shared = through if through in reads(buffer) else f"both read {self._shared(through, buffer)}"
        try:
            between = self.units.between(unit.needs - candidate.names, candidate)
            if between is None:
                raise Incompatible("something between them must run in between")
            group = join(candidate.group, buffer)
            _expect_fuel(through, buffer.name)
        except Incompatible as answer:
            self.decisions.append(FusionDecision(through, buffer.name, False, str(answer)))
            return False
        candidate.group = group
        candidate.names.add(buffer.name)
        candidate.needs |= unit.needs
        self.units.move_before(between, candidate)
        self.unit_of[buffer.name] = candidate
        self._record_reads(buffer)
        why = f"{buffer.name} reads {through} where it is made" if shared == through else shared
        self.decisions.append(FusionDecision(through, buffer.name, True, why))
        return True

    def _shared(self, reader: str, buffer: LoopBuffer) -> str:
        unit = self.unit_of[reader]
        assert unit.group is not None
        group_reads = {name for member in unit.group.members for name in reads(member.buffer)}
        return ", ".join(name for name in reads(buffer) if name in group_reads)

    def merge_groups(self) -> None:
        """Fuse whole groups of which one reads what the other produces: two chains that meet."""
        for second in list(self.units):
            if second.group is None:
                continue
            for name in sorted(second.needs - second.names):
                first = self.unit_of.get(name)
                if first is not None and first is not second and first.group is not None and first in self.units:
                    self._merge(first, second, name)

    def _merge(self, first: Unit, second: Unit, through: str) -> bool:
        assert first.group is not None and second.group is not None
        reader = second.group.members[0].buffer.name
        try:
            between = self.units.between(second.needs - second.names - first.names, first)
            if between is None:
                raise Incompatible("something between them must run in between")
            group = first.group
            for member in second.group.members:
                group = join(group, member.buffer)
            _expect_fuel(through, reader)
        except Incompatible as answer:
            self.decisions.append(FusionDecision(through, reader, False, str(answer)))
            return False
        second.group = group
        second.names |= first.names
        second.needs |= first.needs
        for name in first.names:
            self.unit_of[name] = second
        self.units.move_before(between, first)
        self.units.replace(first, second)
        self.decisions.append(FusionDecision(through, reader, True, "two chains that meet: one loop for both"))
        return True
