"""Escape analysis: the values that the rest of the program can still reach after the graph has run.

    it = iter(xs)                        does it matter which list ``it`` iterates over?
    graph_break()
    m(3); sum(it)                        where m = xs.append: yes

A value leads to whatever its tracker holds: the items of a list, the
owner of a bound method, the cells of a function, the attributes of a new object.
An iterator leads to its remaining items, not to the container that holds them.

In torch: SideEffects.prune_dead_object_new (torch/_dynamo/side_effects.py) asks
the same of new objects. Read next: nbcompile/tracing/frame/break_points.py
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass

from nbcompile.bytecode.flow import live_locals, reachable as instructions_reachable, variable_accesses
from nbcompile.bytecode.instruction import Instruction
from nbcompile.support.real_class import is_instance
from nbcompile.tracing.frame.translator import Translator, code_view
from nbcompile.tracing.protocol import Change, Tracer
from nbcompile.tracing.variables.base import LazyVariable, VariableTracker
from nbcompile.tracing.variables.cells import CellVariable
from nbcompile.tracing.variables.iterators import IteratorVariable, SequenceIteratorVariable
from nbcompile.tracing.variables.ranges import RangeIteratorVariable


def reachable(
    tracer: Tracer,
    locations: Iterable[tuple[Translator, int]],
    passed: Sequence[VariableTracker] | None = None,
) -> set[int]:
    """Ids of the trackers of all values that frames can reach which continue at an instruction.

    Args:
        tracer: the tracer.
        locations: frames, and the instructions at which they continue.
        passed: of all stacks, only these values; the others are iterators of loops, whose class no code can read.
            Their items are found nevertheless.
    """
    # The roots are the live variables and the stack of each frame that continues, and what was stored outside.
    roots = [*_changed_outside(tracer), *(passed or ())]
    for frame, index in locations:
        roots += _in_frame(frame, index) if passed is None else _by_name(tracer, frame, index)
    return reached_from(tracer, roots)


def reached_from(tracer: Tracer, roots: Iterable[VariableTracker | None], *, through_outside: bool = True) -> set[int]:
    """Ids of some trackers, and of all that they lead to (through objects from outside, too)."""
    found: set[int] = set()
    # A worklist, as a garbage collector marks: values lead to each other in cycles, so each is visited once.
    waiting = list(roots)
    while waiting:
        tracker = waiting.pop()
        if isinstance(tracker, LazyVariable):
            tracker = tracker.realised
        if tracker is None or id(tracker) in found:
            continue
        found.add(id(tracker))
        if through_outside or getattr(tracker, "source", None) is None:
            waiting += _led_to(tracer, tracker)
    return found


@dataclass(frozen=True, slots=True)
class SuspendedFrame:
    """A frame that continues after a break."""

    frame: Translator
    index: int
    """The instruction at which it continues."""
    stack: Sequence[VariableTracker]
    """Values that it still has on its operand stack then."""


def may_release(
    tracer: Tracer, frames: Sequence[SuspendedFrame], outermost: Translator, tracker: VariableTracker
) -> bool:
    """True if a frame holds a value, and may release it before the outermost frame has ended.

    The residual program references what it passes on until it ends: as long as a local of the outermost frame does that
    is not bound again. It does not reference what is only stored elsewhere (weak_referents.py); the code that continues
    may drop it there, and compiled code changes lists and objects after all its computations.
    """

    def leads_to_it(values: Iterable[VariableTracker | None]) -> bool:
        return id(tracker) in reached_from(tracer, values, through_outside=False)

    for waiting in frames:
        frame = waiting.frame
        if leads_to_it(waiting.stack):
            return True
        variables = [*frame.locals.items(), *frame.cells.items()]
        holders = {name for name, value in variables if leads_to_it([value])}
        changeable = any(name in holders and not _keeps_what_it_holds(value) for name, value in variables)
        if holders and (frame is not outermost or changeable or holders & written(frame, waiting.index)):
            return True
    return id(tracker) in reached_from(tracer, _changed_outside(tracer))


def _keeps_what_it_holds(value: VariableTracker | None) -> bool:
    """True for an iterator, or a manager that contextlib creates of a generator: no code can take its content away."""
    if isinstance(value, LazyVariable):
        value = value.realised
    if value is None or isinstance(value, IteratorVariable):
        return True
    try:
        return value.python_type().__module__ == "contextlib"
    except NotImplementedError:
        return False


def written(frame: Translator, index: int) -> set[str]:
    """Variables that a frame may bind again or unbind once it continues; inner functions may do it with any cell."""
    instructions = code_view(frame.code).instructions
    accesses = (
        access for at in instructions_reachable(instructions, index) for access in variable_accesses(instructions[at])
    )
    return {name for access, name in accesses if access != "read"} | frame.cells.keys()


def held_elsewhere(tracer: Tracer, result: VariableTracker) -> set[int]:
    """Ids of the trackers that are reached from a frame's result, or from what was stored outside."""
    return reached_from(tracer, [result, *_changed_outside(tracer)])


def _in_frame(frame: Translator, index: int) -> Iterator[VariableTracker | None]:
    if index == len(code_view(frame.code).instructions):
        return  # a generator that has come to its end
    yield from frame.stack
    yield from (value for _, value in _alive(frame, index))


def _alive(frame: Translator, index: int) -> Iterator[tuple[str, VariableTracker]]:
    # Locals that are written before they are read cannot be reached by the rest, whatever they hold now.
    alive = live_locals(code_view(frame.code).instructions, index)
    for variables in (frame.locals, frame.cells):
        yield from ((name, value) for name, value in variables.items() if name in alive)


def _by_name(tracer: Tracer, frame: Translator, index: int) -> Iterator[VariableTracker | None]:
    """Values that a frame can reach, except a loop's iterator itself: other variables, and the items of its loops."""
    if index == len(code_view(frame.code).instructions):
        return
    only_iterated = _only_iterated(frame)
    loops = [*frame.stack, *(value for name, value in _alive(frame, index) if name in only_iterated)]
    for loop in loops:
        known = loop.realised if isinstance(loop, LazyVariable) else loop
        yield from () if known is None else _led_to(tracer, known)
    yield from (value for name, value in _alive(frame, index) if name not in only_iterated)


READS_ITEMS = frozenset(
    ("GET_ITER", "GET_YIELD_FROM_ITER", "UNPACK_SEQUENCE", "UNPACK_EX", "LIST_EXTEND", "SET_UPDATE")
)
READERS = frozenset(("next", "list", "tuple", "set", "frozenset", "sum", "any", "all", "sorted", "min", "max"))
"""Builtins that read the items of an argument, and nothing else."""


def _only_iterated(frame: Translator) -> set[str]:
    """Locals that the code only loops over, or passes as the only argument to one of READERS."""
    instructions = code_view(frame.code).instructions
    readers = READERS - frame.scope.keys()  # a global of the same name is another function
    accesses: dict[str, bool] = {}
    for index, instruction in enumerate(instructions):
        for access, name in variable_accesses(instruction):
            is_harmless = access in ("write", "delete") or _reads_only_items(instructions, index, readers)
            accesses[name] = accesses.get(name, True) and is_harmless
    return {name for name, is_harmless in accesses.items() if is_harmless}


def _reads_only_items(instructions: Sequence[Instruction], index: int, readers: Container[str]) -> bool:
    """True if only the items are read of the value that an instruction loads."""
    if instructions[index].opcode not in ("LOAD_FAST", "LOAD_FAST_CHECK"):
        return False
    following = instructions[index + 1]
    if following.opcode in READS_ITEMS:
        return True
    function = instructions[index - 1]
    is_argument = following.opcode in ("PRECALL", "CALL") and following.arg == 1
    return is_argument and function.opcode == "LOAD_GLOBAL" and function.argval in readers


def _changed_outside(tracer: Tracer) -> Iterator[VariableTracker | None]:
    """Values stored in a global, or in an object or a cell from outside."""
    for change in tracer.side_effects.order:
        if not isinstance(change, Change):
            yield change.value
        # A new object is reached through what refers to it, or not at all. A cell from outside is shared with functions
        # that exist already.
        elif not change.tracker.is_created_here() or getattr(change.tracker, "cell", None) is not None:
            yield change.tracker


def _led_to(tracer: Tracer, tracker: VariableTracker) -> Iterator[VariableTracker | None]:
    if isinstance(tracker, RangeIteratorVariable):
        return  # numbers refer to no other values
    if isinstance(tracker, SequenceIteratorVariable):
        # The items already passed over cannot be reached through the iterator, and neither can the list itself.
        yield from tracker.rest(tracer)
        return
    if isinstance(tracker, CellVariable):
        yield tracker.content
    yield from tracer.side_effects.stored_attributes(tracker).values()
    # The parts of a tracker are its attributes, whatever their names: no list of fields by class can miss one.
    for name, part in vars(tracker).items():
        if name not in _OF_THE_PROGRAM or is_instance(part, VariableTracker):
            yield from _trackers_in(part)


_OF_THE_PROGRAM = frozenset(("value", "scope"))
"""Attributes that hold real objects of the program: they lead to no tracker, may be large, and contain themselves."""


def _trackers_in(part: object) -> Iterator[VariableTracker | None]:
    if is_instance(part, VariableTracker):
        yield part
    elif is_instance(part, Translator):  # of a generator
        yield from _in_frame(part, part.pc)
    elif is_instance(part, (list, tuple, set, frozenset)):
        for element in part:
            yield from _trackers_in(element)
    elif is_instance(part, dict):
        for element in part.values():
            yield from _trackers_in(element)
