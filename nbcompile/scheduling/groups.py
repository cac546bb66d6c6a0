"""Groups of buffers; a buffer joins a group if its loops match those of the group.

A group is a set of buffers that one kernel computes: outer loops over rows, and
(if there is a reduction) inner loops over the elements of a row.

    buf0[i0]     = max over r0 of x[i0, r0]         row result
    buf1[i0, i1] = exp(x[i0, i1] - buf0[i0])        element; its i1 and buf0's r0 are one loop
    buf2[i0]     = sum over r0 of buf1[i0, r0]
    buf3[i0, i1] = buf1[i0, i1] / buf2[i0]          one group: rows i0, elements i1

Joining is unification: the loops of a new buffer are matched with those of the
group by the memory that both access. If it fails, the reason is written to the
fusion log.

In torch: torch/_inductor/scheduler.py (can_fuse_vertical) and codegen/simd.py (can_fuse). Read next:
nbcompile/scheduling/fuse.py
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import sympy

from nbcompile.ir.buffer import PRODUCT_KINDS, LoopBuffer, Pointwise, Reduction, Scan
from nbcompile.ir.index import Index, Symbol, constant, is_one, loop_variable, product, reduction_variable
from nbcompile.ir.kernel import Loop
from nbcompile.ir.traversal import loads
from nbcompile.scheduling.dependencies import reads

MEMBER_LIMIT = 64
POINTER_LIMIT = 48
FEW_ROWS = 8
SERIAL_LIMIT = 1 << 15
"""One thread iterates over a row: fewer than FEW_ROWS rows that are longer than this are not fused across passes."""


@dataclass(frozen=True, slots=True)
class Member:
    """A buffer in a group, with a mapping from its loop variables to the group's."""

    buffer: LoopBuffer
    mapping: dict[Symbol, Index]

    @property
    def results(self) -> tuple[Index, ...]:
        """The group's variable (or 0) along each dimension of the result."""
        # A dimension of size 1 has no loop (own_loops): its index is 0.
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
    """The loops over the elements of a row; none if no member reduces or repeats along a row."""
    counter: int = 0

    def names(self) -> set[str]:
        """The members' names."""
        return {member.buffer.name for member in self.members}

    def from_nodes(self) -> tuple[str, ...]:
        """Names of the fx nodes that the members compute."""
        return tuple(dict.fromkeys(node for member in self.members for node in member.buffer.from_nodes))

    def outer_loops(self) -> tuple[Loop, ...]:
        """Loops over rows."""
        return tuple(Loop(variable, size) for variable, size in self.loops.items() if variable not in self.inner)

    def inner_loops(self) -> tuple[Loop, ...]:
        """Loops over the elements of a row."""
        return tuple(Loop(variable, size) for variable, size in self.loops.items() if variable in self.inner)


class Incompatible(Exception):
    """The reason why a buffer cannot join a group."""


def own_loops(buffer: LoopBuffer) -> tuple[dict[Symbol, Index], dict[Symbol, Index]]:
    """The loops over a buffer's result and those that it reduces or scans, without loops of one iteration."""
    outer = {loop_variable(at): n for at, n in enumerate(buffer.layout.size) if not is_one(n)}
    if isinstance(buffer, Scan):
        # A scan has a result for each element, but the loop along its dimension must run in order: it is an inner loop.
        along = loop_variable(buffer.dim)
        return {variable: n for variable, n in outer.items() if variable != along}, {along: outer[along]}
    reduced = buffer.reduced if isinstance(buffer, Reduction) else ()
    return outer, {reduction_variable(at): n for at, n in enumerate(reduced) if not is_one(n)}


def singleton_group(buffer: LoopBuffer) -> Group:
    """A group of one buffer."""
    outer, reduced = own_loops(buffer)
    mapping: dict[Symbol, Index] = {}
    loops: dict[Symbol, Index] = {}
    # In every buffer the loops are named i0, i1, ... and r0, r1, ...; the group has its own names, since i0 of one
    # member may be i1 of the next. The reduced loops come last: they become the inner loops.
    for variable, size in (*outer.items(), *reduced.items()):
        own_variable = loop_variable(len(loops))
        mapping[variable], loops[own_variable] = own_variable, size
    inner = frozenset(mapping[variable] for variable in reduced)
    return Group((Member(buffer, mapping),), loops, inner, len(loops))


def join(group: Group, buffer: LoopBuffer) -> Group:
    """The group with one more buffer.

    Raises:
        Incompatible: with the reason.
    """
    if len(group.members) >= MEMBER_LIMIT:
        raise Incompatible(f"the kernel has {MEMBER_LIMIT} buffers already")
    if group.members[0].buffer.device != buffer.device:
        raise Incompatible("another device")
    # The loops of a matrix product are not matched: it can only be the first member, followed by an epilogue.
    if is_product(buffer):
        raise Incompatible("a matrix product begins a kernel of its own")
    outer, reduced = own_loops(buffer)
    # Steps: match loops by the memory that is read; match or add the rest by size; decide which loops are inner; then
    # check what the matched loops do not show. Each step may raise Incompatible; none mutates its arguments.
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
        # The buffer must read a member's result at the element that the iteration computes, so this match must succeed.
        # It fails for the index of a gather, which is not a loop variable.
        if load.buffer in producers:
            _unify(load.index, producers[load.buffer], own, group.loops, mapping, f"it reads {load.buffer}")
    # If both read a buffer, and their loops match by the indices into it, it is loaded once.
    for load in loads(buffer.body):
        if load.buffer in producers or load.gathers:
            continue
        for member in group.members:
            for other in loads(member.buffer.body):
                if other.buffer == load.buffer and not other.gathers:
                    # Optional: _unify may fail after some positions were matched, so it works on a copy.
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
        # buf1[i0] = buf0[i0 + 1]: another iteration computes that element.
        if position not in own or target not in loops:
            raise Incompatible(f"{what} at other offsets than the loop")
        assert isinstance(position, sympy.Symbol)
        # buf1[i0] = buf0[i0, i0], a diagonal: one iteration of buf1 for each pair of buf0.
        if mapping.get(position, target) != target:
            raise Incompatible(f"{what} along two loops at once")
        # buf1[i0, i1] = buf0[i0] + buf0[i1]: both loops of buf1 would be the one loop of buf0.
        if position not in mapping and target in mapping.values():
            raise Incompatible(f"{what} along one loop twice")
        if own[position] != loops[target]:
            raise Incompatible(f"{what} over {own[position]} elements of {loops[target]}")
        mapping[position] = target


def _loops_of_length(group: Group) -> list[Symbol]:
    """The loops of a group with more than one iteration, in order."""
    return [variable for variable, size in group.loops.items() if not is_one(size)]


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
    available = [variable for variable in _loops_of_length(group) if variable not in mapping.values()]
    if not unmatched:
        return group, mapping
    # The same sizes in the same order: both use one loop nest, as do two pointwise buffers of one shape.
    if [own[variable] for variable in unmatched] == [group.loops[variable] for variable in available]:
        return group, mapping | dict(zip(unmatched, available, strict=True))
    # Otherwise the rest become inner loops, if the group has none and all of its loops are matched (as rows).
    all_are_rows = bool(mapping) and not group.inner and set(group.loops) <= set(mapping.values())
    if not all_are_rows or (reduced and not set(outer) <= set(mapping)):
        raise Incompatible(f"loops over {_format_sizes(own)} and over {_format_sizes(group.loops)}")
    # The inner loops must be the last ones: then a row is contiguous, and the vector loop loads adjacent elements.
    if unmatched != list(own)[-len(unmatched) :]:
        raise Incompatible("its rows would not be contiguous in memory")
    return _with_inner_loops(group, own, unmatched, mapping)


def _with_inner_loops(
    group: Group, own: dict[Symbol, Index], unmatched: list[Symbol], mapping: dict[Symbol, Index]
) -> tuple[Group, dict[Symbol, Index]]:
    """The group with new inner loops for a buffer's loops that match no loop of the group."""
    # The group has only loops over rows so far: the new buffer's other loops are nested inside of them.
    added = {variable: loop_variable(group.counter + at) for at, variable in enumerate(unmatched)}
    loops = group.loops | {added[variable]: own[variable] for variable in unmatched}
    grown = replace(group, loops=loops, inner=frozenset(added.values()), counter=group.counter + len(added))
    return grown, mapping | added


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
    everything = set(_loops_of_length(group))
    inner = group.inner & everything
    # A kernel is a nest of outer loops over rows, with one kind of inner nest over the elements of a row. The first
    # reduction decides which loops are inner; later members must use the same loops.
    #     outer loops = group.loops - inner      one result for each row
    #     inner loops                            elements of a row
    if isinstance(buffer, (Reduction, Scan)):
        what = "reduces" if isinstance(buffer, Reduction) else "scans"
        if results | inside != everything:
            raise Incompatible(f"it {what} over a part of the loops")
        if inner and inner != inside:
            raise Incompatible(f"it {what} along other loops than the kernel")
        return inside
    if results == everything or (results == everything - inner and group.inner):
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
        # ``y = x + 1; y[1:] * y[:-1]``: in one loop, the next element of y would not be computed yet.
        if index != producer.results or load.gathers:
            raise Incompatible(f"it reads {load.buffer} at other offsets than the loop")
        at_row = isinstance(newcomer.buffer, Pointwise) and not is_element(group, newcomer)
        if at_row and is_element(group, producer):
            raise Incompatible(f"it reads single elements of {load.buffer}")


def is_product(buffer: LoopBuffer) -> bool:
    """Return whether a buffer is a matrix product."""
    return isinstance(buffer, Reduction) and buffer.kind in PRODUCT_KINDS


def _check_epilogue(group: Group, newcomer: Member) -> None:
    """Check that a buffer which joins a matrix product is computed from single elements of the result."""
    if is_product(group.members[0].buffer) and (
        not isinstance(newcomer.buffer, Pointwise) or is_element(group, newcomer)
    ):
        raise Incompatible("after a matrix product its kernel computes single elements")


def is_element(group: Group, member: Member) -> bool:
    """True if a member has a value for each element of a row."""
    return not isinstance(member.buffer, Reduction) and any(position in group.inner for position in member.results)


def _check_mutation(group: Group) -> None:
    """Check that the group reads an input that it overwrites only at the element that is overwritten."""
    for writer in group.members:
        # x.copy_(x.flip(0)) in one loop would read elements that earlier iterations have overwritten.
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
                    raise Incompatible(f"{load.buffer} is overwritten, and read at other offsets")


def _check_size(group: Group) -> None:
    pointers = {name for member in group.members for name in (member.buffer.name, *reads(member.buffer))}
    if len(pointers) > POINTER_LIMIT:
        raise Incompatible(f"the kernel would use more than {POINTER_LIMIT} buffers")
    # Threads share the outer loops: with 2 rows, 2 threads work. A group of a pointwise buffer has only outer loops,
    # which all threads share.
    rows = constant(product(loop.size for loop in group.outer_loops()))
    length = constant(product(loop.size for loop in group.inner_loops()))
    order = passes(group).values()
    if rows is not None and rows < FEW_ROWS and length is not None and length > SERIAL_LIMIT and set(order) != {0}:
        raise Incompatible(f"{rows} rows of {length} elements are too few for a loop over rows")


def passes(group: Group) -> dict[str, int]:
    """Pass (inner nest 0, 1, ...) that computes each member; a row's result is available after its pass.

    -1: before the first pass.
    """
    found: dict[str, int] = {}
    producers = {member.buffer.name: member for member in group.members}
    for member in group.members:
        inside = isinstance(member.buffer, Reduction) or is_element(group, member)
        at = 0 if inside else -1
        for name in reads(member.buffer):
            if name not in producers:
                continue
            # A reduction is complete at the end of its pass. Members that use it for every element run in the next
            # pass, members that use it once per row between the two. An element is available in the pass that computes
            # it.
            row_value = not is_element(group, producers[name])
            at = max(at, found[name] + (1 if row_value and inside else 0))
        found[member.buffer.name] = at
    return found
