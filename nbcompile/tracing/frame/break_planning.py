"""Plan of a graph break: where the graph ends when an instruction cannot be traced, and how the frame continues.

    for step in range(3): print(x)      cannot resume inside of a loop: the whole frame runs uncompiled
    try: print(x)                       nor where a handler would be lost
    with ctx: print(x)                  resumes after the call of print, in ctx
    f(x)  ->  print in f                nested breaks: f resumes after print, and its caller after f

The plan is a position in each frame of the chain of calls. The next attempt at the frame ends its graph there.

In torch: torch/_dynamo/symbolic_convert.py (should_compile_partial_graph, SpeculationLog, break_graph_if_unsupported).
Read next: nbcompile/tracing/frame/break_points.py
"""

from __future__ import annotations

import itertools
import sys
from dataclasses import dataclass, field

from nbcompile import config
from nbcompile.bytecode.comprehensions import Comprehension, comprehension_at
from nbcompile.bytecode.dialects import CONDITIONAL_JUMPS
from nbcompile.bytecode.flow import outer_protection
from nbcompile.bytecode.instruction import Instruction
from nbcompile.capture.trace import Assumptions
from nbcompile.options import Options
from nbcompile.record.model import Break
from nbcompile.tracing import breaks
from nbcompile.tracing.frame import break_points
from nbcompile.tracing.frame.interpreter import Interpreter
from nbcompile.tracing.frame.translator import Translator


@dataclass(frozen=True, slots=True)
class BreakPlan:
    """Point, found by an earlier attempt, at which the graph must end."""

    path: tuple[int, ...]
    """Number of instructions that each frame of the chain has begun then, outermost first; one frame, unless it is
    nested.
    """
    error: breaks.Unsupported
    resumes: bool
    """False: the rest of the frame runs uncompiled."""
    inlined: tuple[str, ...] = ()
    """Functions that the earlier attempt inlined on its way."""


@dataclass(frozen=True, slots=True)
class EarlierAttempts:
    """Findings of earlier attempts at a frame, by which a later one ends elsewhere."""

    plan: BreakPlan | None = None
    """The end of the graph; None: that of the frame."""
    must_break: set[str] = field(default_factory=set)
    """Operations at which the graph must break."""
    assumed: Assumptions = field(default_factory=Assumptions)
    """Assumptions of all attempts, since an earlier one decides where this one ends."""


class BreakPlanner:
    """Plans the break of one attempt at a frame."""

    def __init__(self, interpreter: Interpreter, top: Translator, options: Options) -> None:
        self.interpreter = interpreter
        self.top = top
        self.options = options
        self.comprehension: tuple[int, Comprehension] | None = None
        """The outermost inlined one that was entered last, and at which step."""

    def before_step(self) -> None:
        """Note if the next instruction enters an inlined comprehension: it is left to Python as a whole."""
        # A break inside of an inlined comprehension moves before all of it: in the middle of the loop,
        # with the iterator and the unfinished list on the stack, nothing can resume.
        if self.comprehension is not None and (self.comprehension[1].start <= self.top.pc < self.comprehension[1].end):
            return  # inside of one
        entered = comprehension_at(self.top.view.instructions, self.top.pc)
        self.comprehension = None if entered is None else (self.top.steps, entered)

    def plan(self, error: breaks.Unsupported) -> BreakPlan:
        """Decide how the frame continues after what could not be traced; raises if it cannot."""
        self.note_stack(error)
        error.operands = self.top.operands()
        error.traced = self.interpreter.step_record.last_steps()
        error.is_final |= self.options.fullgraph
        # ``needs_frame``: the function runs uncompiled as a whole, so the break is at the call of it, and there is no
        # call if the function is the traced frame itself.
        if error.is_final or error.forbids_resume or (error.needs_frame and len(error.stack) == 1):
            raise error
        obstacle = error
        began, broken = self._broken()
        inlined = tuple(self.interpreter.inlined)
        # Nested breaks first: the inlined function resumes too, so that its instructions before
        # the break stay compiled.
        if config.nested_graph_breaks and broken is self.top.current:
            path, resumes = self._nested_path(error)
            if path:
                return BreakPlan(path, error, resumes, inlined)
        if self._can_end_at(self.top, broken, error):
            found = self._obstacle(error, self.top, broken)
            if found is None:
                return BreakPlan((began,), error, True, inlined)
            obstacle = found
        # Without a checkpoint there is nothing to compile before the break. A break in a loop skips the whole
        # frame even where there is a checkpoint, as torch does: the functions that the loop calls are then
        # frames of their own.
        if self.top.checkpoint is None or obstacle.kind is breaks.LOOP:
            raise obstacle
        return BreakPlan((self.top.checkpoint,), obstacle, False, inlined)

    def _nested_path(self, error: breaks.Unsupported) -> tuple[tuple[int, ...], bool]:
        """Positions of the frames that resume, down to the deepest that can end there; and True if that one resumes.

        The frames above it resume with what their call returns. Of a deepest frame that cannot resume after the broken
        instruction, what came before the last point where it could stop is compiled, and Python runs the rest.
        """
        found: tuple[tuple[int, ...], bool] = ((), False)
        path: tuple[int, ...] = ()
        for caller, frame in itertools.pairwise(self.interpreter.broken):
            # A caller resumes with the value that its call returns. An operator or a property that called into the
            # frame (a + b, x.p) does something with that value first, so its caller cannot resume there.
            direct = frame.returns_to_call and caller.current.opcode in break_points.CALLS
            if not direct or self._obstacle(error, caller, caller.current):
                break
            path = (*path, caller.steps)
            if error.needs_frame and frame is self.interpreter.broken[-1]:
                break
            obstacle = self._obstacle(error, frame, frame.current)
            if self._can_end_at(frame, frame.current, error) and obstacle is None:
                # ``steps`` counts the broken instruction already; the next attempt is to end just before it.
                found = (*path, frame.steps - 1), True
            elif frame.checkpoint is not None and (obstacle is None or obstacle.kind is not breaks.LOOP):
                found = (*path, frame.checkpoint), False
        return found

    def _can_end_at(self, frame: Translator, broken: Instruction, error: breaks.Unsupported) -> bool:
        """True if Python can make this one step of a frame, as far as the instruction goes."""
        if error.kind is breaks.STEP_UNSUPPORTED or broken.opcode not in break_points.BREAKABLE:
            return False
        # Up to 3.12 the jump itself calls ``bool``; torch leaves the jump to Python, but no __bool__ in there.
        calls_bool = sys.version_info < (3, 13) and broken.opcode in CONDITIONAL_JUMPS
        # A ``__bool__`` that a jump called is a deeper frame of the chain, so this frame is not the innermost then.
        return not (calls_bool and self.interpreter.broken and frame is not self.interpreter.broken[-1])

    def _broken(self) -> tuple[int, Instruction]:
        """The step and the instruction to leave to Python: the current one, or the whole comprehension around it."""
        current = self.top.current
        step = self.top.steps - 1
        if self.comprehension is None:
            return step, current
        began, around = self.comprehension
        instructions = self.top.view.instructions
        inside = current in instructions[around.start : around.end]
        return (began, instructions[around.start]) if inside else (step, current)

    def note_stack(self, error: breaks.Unsupported) -> None:
        if not error.stack:
            error.stack = self.interpreter.stack()
            error.callee = self.interpreter.callee()

    def _obstacle(self, error: breaks.Unsupported, frame: Translator, broken: Instruction) -> breaks.Unsupported | None:
        """Reason why nothing can resume after an instruction of a frame, or None."""
        entered = [context.manager for context in frame.contexts]
        # A torch context is entered again by setting its state. A user's manager would run its
        # ``__enter__`` a second time.
        generic = [manager for manager in self.interpreter.generic_contexts if manager in entered]
        if generic:  # those of a callee are entered again when Python calls it
            active = ", ".join(manager.describe() for manager in generic)
            return self._after(
                error, breaks.unsupported(breaks.CONTEXT, f"Active generic context managers: [{active}]")
            )
        if _is_in_try(frame, broken) or frame.handled:
            return error  # the handlers would be lost
        if broken is frame.current and _is_in_loop(frame):  # a whole comprehension may be inside one, as in torch
            code = frame.code
            where = f"frame skipped: {code.co_name} ({code.co_filename} line {code.co_firstlineno})"
            return self._after(error, breaks.unsupported(breaks.LOOP, where))
        return None

    def _after(self, first: breaks.Unsupported, second: breaks.Unsupported) -> breaks.Unsupported:
        second.stack, second.operands, second.traced = first.stack, first.operands, first.traced
        second.callee = first.callee
        second.cause = first
        return second


def _is_in_try(frame: Translator, broken: Instruction) -> bool:
    """True if an instruction is protected by more than the ``with`` blocks that tracing is inside of."""
    # The resume function enters the active ``with`` blocks again, with their handlers. Take those off, innermost first;
    # a handler that is left belongs to a ``try``.
    protection = broken.protection
    for context in reversed(frame.contexts):
        if protection is not None and protection.target != context.handler:
            return True
        protection = outer_protection(frame.view.instructions, frame.view.labels, protection, context.depth)
    return protection is not None


def _is_in_loop(frame: Translator) -> bool:
    """True if a later jump, before the next return, goes back to before the current instruction (torch's rule)."""
    # The rest of a loop from its middle contains the loop: it would break at the same instruction in each further
    # iteration, with one resume function called inside of the other.
    instructions, labels = frame.view.instructions, frame.view.labels
    here = instructions.index(frame.current)
    rest = itertools.takewhile(lambda instruction: instruction.opcode != "RETURN_VALUE", instructions[here + 1 :])
    return any(jump.target is not None and labels[jump.target] < here for jump in rest)


def break_report(error: breaks.Unsupported, opcode: str = "") -> Break:
    """Entry of the record for a break; ids are given later."""
    return Break(
        id="",
        kind=error.kind.id,
        title=error.kind.title,
        explanation=error.explanation(),
        hints=error.hints(),
        context=error.context,
        stack=error.stack,
        reason=break_points.REASONS.get(opcode, ""),
        gb_id=error.kind.gb_id,
        operands=error.operands,
        traced=error.traced,
        callee=error.callee,
    )
