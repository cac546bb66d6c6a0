"""Division of a graph at operators that cannot be recorded: the parts before, between and after them are recorded.

    parts = divide(plan, targets, facts)         (kernels), (multinomial), (kernels)
    DividedProgram(plan, zip(parts, callables))  each part in turn; a part that is recorded is a ReplayedProgram

A part is a plan of its own. Its arguments are those of the graph (None for those that it does not use) and the tensors
of earlier parts that it uses; its results are what later parts, and the caller, use.

In torch: torch/_inductor/scheduler.py (graph_partition). Read next: nbcompile/gpu/cuda_graphs.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nbcompile.gpu import random_draws
from nbcompile.gpu.random_draws import Drawn
from nbcompile.ir.emitted import (
    AllocateSlot,
    AtSlot,
    Call,
    CaptureFacts,
    FreeSlot,
    Launch,
    LaunchPlan,
    PlanOutput,
    Step,
    ViewSlot,
)
from nbcompile.runtime.program import view

LEAST = 2
"""Launches and calls of a part that is recorded: a single one is launched faster than a recording is replayed."""
MOST = 8
"""Parts that are recorded; a graph that would have more is launched as a whole."""


@dataclass(frozen=True, slots=True)
class Part:
    """Some consecutive steps of a graph."""

    plan: LaunchPlan
    taken: tuple[int, ...]
    """Slots of the whole graph that come as arguments, after the graph's own ones."""
    given: tuple[int, ...]
    """Slots that it returns."""
    drawn: Drawn | None
    """The steps in the form in which they are recorded; None: they are launched."""
    written: tuple[tuple[int, str], ...] = ()
    """Position of each argument that it writes to, and the user's line that does."""


def divide(plan: LaunchPlan, targets: Mapping[str, Any], facts: CaptureFacts) -> tuple[Part, ...]:
    """The parts of a graph; none if there is nothing to record, or a size is computed by the graph."""
    constants = range(len(plan.inputs), len(plan.inputs) + len(plan.attributes))
    # A size that a call computes (plan.values) would have to be passed from part to part; and a constant that is
    # returned is the result of no part.
    if plan.values or not facts.unsafe_is_known or _of_outputs(plan) & set(constants):
        return ()
    unsafe = set(facts.unsafe)
    # Each round finds one more operator that cannot be recorded, of finitely many.
    while True:
        try:
            parts = tuple(_Divider(plan, targets, facts, unsafe).parts())
        except _UnsafeOperator as found:
            unsafe.add(found.extern)
            continue
        recorded = sum(part.drawn is not None for part in parts)
        return parts if 1 <= recorded <= MOST and len(parts) > 1 else ()


class _UnsafeOperator(Exception):
    """An operator that a part needs and that cannot be recorded."""

    def __init__(self, extern: str) -> None:
        super().__init__(extern)
        self.extern = extern


class _Divider:
    """Divides one plan."""

    def __init__(self, plan: LaunchPlan, targets: Mapping[str, Any], facts: CaptureFacts, unsafe: set[str]) -> None:
        self.plan, self.targets, self.facts, self.unsafe = plan, targets, facts, unsafe
        self.shapes = random_draws.shapes_of(plan)
        self.writes = dict(facts.writes)
        self.constants = range(len(plan.inputs), len(plan.inputs) + len(plan.attributes))
        # For each result of a collective the tensors that it reads until the wait.
        self.sent = {
            row.slot: set(_inside(step.arguments))
            for step in plan.steps
            if isinstance(step, Call) and step.extern in facts.collectives
            for row in step.results
        }

    def parts(self) -> Iterator[Part]:
        #     steps    alloc k1 k2 | multinomial | view k3 free k4
        #     unsafe    no            yes           no
        #     part     1             2             3
        #     given    what 2, 3 or the caller use     taken    what 1 or 2 gave
        groups = self._groups()
        for at, (is_unsafe, steps) in enumerate(groups):
            later = set().union(*(self._used(rest) for _, rest in groups[at + 1 :]), _of_outputs(self.plan))
            yield self._part(steps, is_unsafe, later)

    def _groups(self) -> list[tuple[bool, list[Step]]]:
        """Steps in their order; allocations and views belong to their first users."""
        groups: list[tuple[bool, list[Step]]] = []
        waiting: list[Step] = []
        for step in self.plan.steps:
            # Deferred to the first step that uses it, which decides its part, so that the memory of a recorded
            # part is allocated inside of its recording.
            if isinstance(step, (AllocateSlot, ViewSlot)):
                waiting.append(step)
            # If allocations are deferred, so is this step, in order: an allocation may reuse memory that it frees.
            elif isinstance(step, FreeSlot):
                (waiting if waiting or not groups else groups[-1][1]).append(step)
            else:
                is_unsafe = self._is_unsafe(step)
                if not groups or groups[-1][0] != is_unsafe:
                    groups.append((is_unsafe, []))
                groups[-1][1].extend([*waiting, step])
                waiting = []
        if groups:
            groups[-1][1].extend(waiting)
        return groups

    def _is_unsafe(self, step: Any) -> bool:
        """Return whether a step cannot be recorded: its operator cannot, or one of its tensors is on the CPU."""
        if getattr(step, "extern", None) in self.unsafe:
            return True
        slots = {*_used([step]), *_defined([step])}
        return any(self.shapes[slot].gpu < 0 for slot in slots if slot in self.shapes)

    def _part(self, steps: list[Step], is_unsafe: bool, later: set[int]) -> Part:
        used, filled = self._used(steps), _defined(steps)
        # What an earlier part defined and this one frees is freed by the caller of the parts, which
        # holds the reference (DividedProgram).
        given = tuple(sorted(slot for slot in filled if slot in later))
        taken = tuple(sorted(used - filled - set(range(len(self.plan.inputs))) - set(self.constants)))
        kept = tuple(step for step in steps if not (isinstance(step, FreeSlot) and step.slot not in filled))
        # The position of an input is the same in every part; an input that a part does not use is not checked.
        inputs = tuple(shape if at in used else None for at, shape in enumerate(self.plan.inputs))
        plan = replace(self.plan, inputs=inputs, steps=kept, outputs=tuple(map(PlanOutput, given)), single=False)
        arguments = random_draws.with_arguments(plan, taken, [self.shapes[slot] for slot in taken])
        works = sum(not isinstance(step, (AllocateSlot, FreeSlot, ViewSlot)) for step in steps)
        drawn = None if is_unsafe or works < LEAST else self._drawn(arguments)
        return Part(arguments, taken, given, drawn, self._written(steps, taken))

    def _used(self, steps: Sequence[Step]) -> set[int]:
        """Slots that steps read, or that a collective still reads when they wait for it."""
        used = _used(steps)
        return used.union(*(self.sent.get(slot, ()) for slot in used))

    def _drawn(self, plan: LaunchPlan) -> Drawn:
        called = [step for step in plan.steps if isinstance(step, Call)]
        # Each random call is tried separately, to find which of them is the obstacle: for the whole plan, the error
        # would only state that there is one.
        for step in called:
            if not random_draws.draws(self.targets[step.extern], step.arguments, dict(step.keywords)):
                continue
            try:
                random_draws.without_draws(replace(plan, steps=(step,)), self.targets)
            except random_draws.NotDrawable as reason:
                raise _UnsafeOperator(step.extern) from reason
        return random_draws.without_draws(plan, self.targets)

    def _written(self, steps: Sequence[Step], taken: Sequence[int]) -> tuple[tuple[int, str], ...]:
        """Arguments that these steps write to, also by way of a view."""
        root: dict[int, int] = {}
        slots: set[int] = set()
        for step in steps:
            if isinstance(step, ViewSlot):
                # Views come after their bases, so the root of the source is known.
                root[step.slot] = root.get(step.source, step.source)
            elif isinstance(step, Launch):
                positions = self.writes.get(step.kernel, range(len(step.slots)))
                slots.update(step.slots[at] for at in positions)
            elif isinstance(step, Call) and step.extern in self.facts.mutating:
                slots.update(_used([step]))
        slots = {root.get(slot, slot) for slot in slots}
        known = dict(self.facts.written)
        count = len(self.plan.inputs)
        own = [(slot, known.get(slot, "")) for slot in sorted(slots) if slot < count]
        return (*own, *((count + at, "") for at, slot in enumerate(taken) if slot in slots))


def _of_outputs(plan: LaunchPlan) -> set[int]:
    return {output.slot for output in plan.outputs if output.slot is not None}


def _used(steps: Sequence[Any]) -> set[int]:
    """Slots that steps read."""
    found: set[int] = set()
    for step in steps:
        found.update(getattr(step, "slots", ()))
        if isinstance(step, ViewSlot):
            found.add(step.source)
        found.update(_inside((getattr(step, "arguments", ()), getattr(step, "keywords", ()))))
    return found


def _defined(steps: Sequence[Any]) -> set[int]:
    """Slots that steps fill first."""
    found = {step.slot for step in steps if isinstance(step, (AllocateSlot, ViewSlot))}
    for step in steps:
        found.update(row.slot for row in getattr(step, "results", ()))
        if hasattr(step, "result"):
            found.add(step.result.slot)
    return found


def _inside(value: Any) -> Iterator[int]:
    if isinstance(value, AtSlot):
        yield value.slot
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _inside(item)


@dataclass(slots=True)
class DividedProgram:
    """A graph as its parts."""

    plan: LaunchPlan
    """Plan of the whole."""
    parts: tuple[tuple[Part, Callable[[list[Any]], Any]], ...]
    _boxed_call: bool = True

    def __call__(self, inputs: list[Any], /) -> Any:
        given = list(inputs)
        inputs.clear()
        known: dict[int, Any] = {}
        returned = _of_outputs(self.plan)
        for at, (part, call) in enumerate(self.parts):
            #     known    {slot: tensor} that later parts, or the caller, need
            known.update(zip(part.given, call([*given, *(known[slot] for slot in part.taken)]), strict=True))
            needed = returned.union(*(later.taken for later, _ in self.parts[at + 1 :]))
            # The last reference to a tensor that no later part needs goes here: its memory is free
            # for the next.
            known = {slot: tensor for slot, tensor in known.items() if slot in needed}
        known.update(enumerate(given))
        results = tuple(_returned(output, known) for output in self.plan.outputs)
        return results[0] if self.plan.single else results

    def positional(self, *inputs: Any) -> Any:
        """Run, with the inputs as arguments."""
        return self(list(inputs))


def _returned(output: PlanOutput, known: Mapping[int, Any]) -> Any:
    if output.slot is None:
        return output.value
    return known[output.slot] if output.view is None else view(known[output.slot], *output.view)  # type: ignore[arg-type]
