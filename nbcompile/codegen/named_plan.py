"""A launch plan with names for its text: buffers of slots, symbols of sizes, operators of calls.

    plan       AllocateSlot(3, float32[2*s0]), Launch("kernel0", (0, 3), ...), FreeSlot(3)
    names      {0: ("arg0_1",), 3: ("buf0",)}        sizes  {0: "s0", 1: "2*s0"}

The launcher in C runs the plan and needs no names; the wrapper's text is printed of the plan and its names. A line
groups the steps that the text shows as one statement; the concatenated lines are the plan.

In torch: torch/_inductor/codegen/wrapper.py (WrapperLine). Read next: nbcompile/codegen/wrapper.py
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nbcompile.ir.emitted import AllocateSlot, FreeSlot, Launch, LaunchPlan, Step, TensorShape


@dataclass(frozen=True, slots=True)
class TakeOver:
    """A buffer in the memory of a dead one: no step if it is the same tensor, or else a view, or a new allocation."""

    slot: int
    source: int
    shape: TensorShape
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class LibraryCall:
    """A call of ATen, or a launch of a written kernel: views for it, memory for its result, the call, views freed."""

    steps: tuple[Step, ...]


Line = AllocateSlot | FreeSlot | Launch | TakeOver | LibraryCall | Step


@dataclass(frozen=True, slots=True)
class NamedPlan:
    """A plan with the names of its text."""

    plan: LaunchPlan
    lines: tuple[Line, ...]
    """The plan's steps in their order, grouped by statement."""
    names: Mapping[int, tuple[str, ...]]
    """Buffers of each slot, in order (one may reuse the slot of a dead one); none for a view for a single call."""
    sizes: Mapping[int, str] = field(default_factory=dict)
    """Text of each run-time size, as Python."""
    operators: Mapping[str, str] = field(default_factory=dict)
    """Operator of each call."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """The reason why each call is an extern call instead of a generated kernel."""
    written: frozenset[int] = frozenset()
    """Positions of inputs that the graph writes to."""
    obstacle: str = ""
    """The reason why the launcher in C cannot run the plan, so that its text runs; "" if it can."""


def steps_of(line: Line) -> tuple[Step, ...]:
    """Steps of the plan that one line shows."""
    return line.steps if isinstance(line, (TakeOver, LibraryCall)) else (line,)


def with_slot_names(plan: LaunchPlan, written: frozenset[int], operators: Mapping[str, str]) -> NamedPlan:
    """A plan whose buffers have no names (a part of another plan): each slot is named by its number."""
    names = {slot: (f"s{slot}",) for slot in range(plan.slots)}
    return NamedPlan(plan, plan.steps, names, operators=operators, written=written)
