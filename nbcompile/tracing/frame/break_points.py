"""The instructions after which a frame can resume, and what each leaves to Python.

    CALL f x y         f(x, y); the result is on the stack of the resume function
    POP_JUMP_IF_FALSE  if cond: resume here, else: resume there
    STORE_SUBSCR       a[k] = v

In torch: the decorator break_graph_if_unsupported and generic_jump in
torch/_dynamo/symbolic_convert.py. Read next: nbcompile/capture/trace.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nbcompile.bytecode.comprehensions import comprehension_at
from nbcompile.bytecode.dialects import CONDITIONAL_JUMPS, jump_condition
from nbcompile.bytecode.flow import live_locals
from nbcompile.bytecode.instruction import Instruction
from nbcompile.bytecode.opcode_families import converts_to_bool
from nbcompile.capture.recipe import Recipe
from nbcompile.capture.trace import (
    BrokenCall,
    BrokenComprehension,
    BrokenJump,
    BrokenOperation,
    Callee,
    Continue,
    ResumePoint,
    StackSlot,
)
from nbcompile.tracing.effects.reconstruction import Reconstruction
from nbcompile.tracing.frame.escape_analysis import SuspendedFrame, may_release, reachable, written
from nbcompile.tracing.frame.handlers.calls import pending_call, pending_call_ex
from nbcompile.tracing.frame.handlers.loads import save_and_clear
from nbcompile.tracing.frame.inlining import GeneratorVariable
from nbcompile.tracing.frame.interpreter import Interpreter
from nbcompile.tracing.frame.translator import Translator, code_view
from nbcompile.tracing.variables.base import NullVariable, VariableTracker
from nbcompile.tracing.variables.contexts import ContextVariable, ExitVariable
from nbcompile.tracing.variables.functions import BaseFunctionVariable

REASONS = {
    "CALL": "when attempting to trace CALL: a function call, e.g. f(x, y)",
    "CALL_KW": "when attempting to trace CALL_KW: a function call with keyword arguments, e.g. f(x, y=True)",
    "CALL_FUNCTION_EX": "when attempting to trace CALL_FUNCTION_EX: a variadic function call, e.g. f(*args)",
    "COMPARE_OP": "when attempting to trace COMPARE_OP: a comparison operation, e.g. x > y",
    "STORE_ATTR": "when attempting to trace STORE_ATTR: storing an attribute, e.g. x.attr = y",
    "STORE_SUBSCR": "when attempting to trace STORE_SUBSCR: a store subscript operation, e.g. x[0] = y",
    "BINARY_SUBSCR": "when attempting to trace BINARY_SUBSCR: a binary subscript operation, e.g. x[0]",
    "skip": "Failed to handle graph break gracefully. Skipping the function and falling back to eager.",
    "error": "Encountered a graph break where none is allowed: it is an error, and the function does not run.",
    "step": "Encountered graph break that we cannot resume from. Compiling up to the previous resumable state, "
    "then skipping the rest of the function.",
}

Action = BrokenCall | BrokenOperation | BrokenJump | BrokenComprehension | Continue


@dataclass(frozen=True, slots=True)
class BrokenInstruction:
    """The broken instruction; its operands are not yet converted to recipes."""

    instruction: Instruction
    slots: int
    """Number of stack values that the instruction consumes."""
    pushes: int
    action: Callable[[Reconstruction], Action]
    targets: tuple[tuple[int, bool], ...]
    """Targets to resume at: index of the instruction; True if the tested value stays on the stack."""
    body: int | None = None
    """Index of the first instruction of the frame that Python runs before, as those of an inlined comprehension."""


def pending(frame: Translator, resumes: bool) -> BrokenInstruction:
    """Read the instruction that is about to run off the stack."""
    # The instruction has not run: its operands are still on the stack, so Python can perform it instead.
    frame.current = instruction = frame.view.instructions[frame.pc]
    if not resumes:
        # Nothing resumes, so nothing is left to Python but the rest of the frame: one target, with the stack as it is.
        return BrokenInstruction(instruction, 0, 0, lambda reconstruction: Continue(), ((frame.pc, False),))
    return BREAKABLE[instruction.opcode](frame, instruction)


def _named_operands(operands: Sequence[VariableTracker]) -> Sequence[VariableTracker]:
    """Operands whose class the next instruction in Python may read.

    Up to 3.11 a comprehension is a function. It is called with the iterator of its first loop, and only loops over it;
    whatever its closure holds is named in its body.
    """
    comprehensions = [
        operand
        for operand in operands
        if isinstance(operand, BaseFunctionVariable) and operand.code.co_varnames[:1] == (".0",)
    ]
    return comprehensions or operands


def describe(
    frame: Translator, broken: BrokenInstruction, callers: Sequence[Translator], reconstruction: Reconstruction
) -> tuple[Action, tuple[ResumePoint, ...], tuple[ResumePoint, ...]]:
    """Action that Python performs, the resume points of the frame, and those of its callers, innermost first."""
    # Escape analysis first: a recipe may be simpler for a container that the rest of the program cannot reach.
    locations = [(frame, index) for index, _ in broken.targets] + [(each, each.pc) for each in callers]
    if broken.body is not None:  # it reads variables that may not be alive behind it
        locations.append((frame, broken.body))
    passed = _named_operands(frame.stack[len(frame.stack) - broken.slots :])
    reconstruction.visible = reachable(reconstruction.tracer, locations)
    reconstruction.named = reachable(reconstruction.tracer, locations, passed)
    # The order in which values are first reconstructed is the order of the graph's outputs: the stack from its bottom
    # up,
    # then the operands of the action, then the locals.
    for tracker in frame.stack:  # what is on the stack comes out of the graph in its order
        if not isinstance(tracker, (NullVariable, ExitVariable)):
            reconstruction.recipe(tracker)
    action = broken.action(reconstruction)
    kept = len(frame.stack) - broken.slots
    outermost = callers[0] if callers else frame
    # For each target, the stack there is what is below the operands. JUMP_IF_TRUE_OR_POP keeps the tested
    # value where it jumps (``a or b``), and pops it where it does not. ``pushes`` leaves a slot for the
    # result that Python computes.
    #     stack at the break   [kept ...] [operands: slots]
    #     stack at a target    [kept ...] [tested value, if it stays] [result, if pushes]
    points = []
    for index, keeps_value in broken.targets:
        trackers = frame.stack[: kept + 1] if keeps_value else frame.stack[:kept]
        slots = tuple(_slot(each, reconstruction) for each in trackers)
        points.append(_resume_point(frame, index, slots, broken.pushes, reconstruction, outermost))
    # A caller is suspended in its CALL, which has popped its operands: its stack gets one value, the result of the
    # callee's resume function.
    outer = [
        _resume_point(
            caller,
            caller.pc,
            tuple(_slot(value, reconstruction) for value in caller.stack),
            1,
            reconstruction,
            outermost,
        )
        for caller in reversed(callers)
    ]
    return action, tuple(points), tuple(outer)


def _slot(tracker: VariableTracker, reconstruction: Reconstruction) -> StackSlot:
    if isinstance(tracker, NullVariable):
        return StackSlot("null")
    # The slot of a ``with`` holds the bound ``__exit__``. The recipe makes the manager, and the resume function gets
    # the slot by entering it again.
    if isinstance(tracker, ExitVariable):
        context = tracker.context
        if isinstance(context, ContextVariable):
            return StackSlot("exit", context.recipe_to_enter(reconstruction))
        return StackSlot("exit", reconstruction.recipe(context))
    return StackSlot("value", reconstruction.recipe(tracker))


def _resume_point(
    frame: Translator, index: int, slots: tuple[StackSlot, ...], pushes: int, reconstruction: Reconstruction,
    outermost: Translator,
) -> ResumePoint:  # fmt: skip
    instructions = code_view(frame.code).instructions
    # Only variables that are read before they are written again are carried over: an argument of the resume function
    # keeps its object alive, and has guards of its own.
    alive = live_locals(instructions, index, (*frame.code.co_varnames, *frame.code.co_cellvars))
    kept = _kept_to_the_end(frame, index) if frame is outermost else set()
    # Generators are freed in the order of the frame's variables when it ends, and are reconstructed in that order.
    order = [name for name in frame.code.co_varnames if name in frame.locals] if kept else frame.locals
    alive |= kept
    live: list[tuple[str, Recipe]] = [
        (name, reconstruction.recipe(frame.locals[name]))
        for name in order
        if name in alive and not isinstance(frame.locals[name], NullVariable)
    ]
    # A variable that an inner function uses is passed as its cell, not as its content: the inner function may
    # already exist and must see later assignments.
    own = [name for name in frame.code.co_cellvars if name in alive and name in frame.cells]
    cells = tuple((name, reconstruction.recipe(frame.cells[name])) for name in own)
    line = frame.current.line or frame.code.co_firstlineno
    callee = None
    if frame is not outermost:
        # The rest of an inlined function has the function's own code and globals, so it needs the cells of its closure.
        # The outermost frame needs none: the residual program, which runs instead of it, has the same free variables.
        free = tuple((name, reconstruction.recipe(frame.cells[name])) for name in frame.code.co_freevars)
        callee = Callee(frame.code, frame.scope, free)
    return ResumePoint(instructions[index].offset, slots, pushes, tuple(live), cells, line, callee)


def _kept_to_the_end(frame: Translator, index: int) -> set[str]:
    """Locals whose generator has something to do when the frame ends, whether or not the frame reads it again."""
    names = {
        name
        for name, value in frame.locals.items()
        if isinstance(value, GeneratorVariable) and value.is_in_block() and not value.frame.is_polyfill
    }
    return names - written(frame, index) if names else names


def find_generator_closed_late(
    frame: Translator, broken: BrokenInstruction, callers: Sequence[Translator], interpreter: Interpreter
) -> GeneratorVariable | None:
    """A generator inside of a block that Python would close before the residual program releases it, if any."""
    outermost = callers[0] if callers else frame
    rest = frame.stack[: len(frame.stack) - broken.slots]
    frames = [SuspendedFrame(frame, index, rest) for index, _ in broken.targets]
    frames += [SuspendedFrame(caller, caller.pc, caller.stack) for caller in callers]
    for generator in interpreter.generators:
        is_returned = generator.lives_on and generator.is_in_block()
        if is_returned and may_release(interpreter, frames, outermost, generator):
            return generator
    return None


# -- one function per instruction --------------------------------------------------------------


def _call(frame: Translator, instruction: Instruction) -> BrokenInstruction:
    call = pending_call(frame, instruction)

    def action(reconstruction: Reconstruction) -> Action:
        return BrokenCall(
            reconstruction.recipe(call.function),
            tuple(map(reconstruction.recipe, call.arguments)),
            tuple((name, reconstruction.recipe(value)) for name, value in call.keywords.items()),
        )

    return BrokenInstruction(instruction, call.slots, 1, action, ((frame.pc + 1, False),))


def _call_ex(frame: Translator, instruction: Instruction) -> BrokenInstruction:
    function, positional, keywords, slots = pending_call_ex(frame, instruction)

    def action(reconstruction: Reconstruction) -> Action:
        double_star = None if keywords is None else reconstruction.recipe(keywords)
        return BrokenCall(reconstruction.recipe(function), (), (), reconstruction.recipe(positional), double_star)

    return BrokenInstruction(instruction, slots, 1, action, ((frame.pc + 1, False),))


def _operation(
    name: str, operands: int, pushes: int, order: tuple[int, ...]
) -> Callable[[Translator, Instruction], BrokenInstruction]:
    """An operator with its operands on the stack; ``order`` sorts them as Python writes them."""

    def read(frame: Translator, instruction: Instruction) -> BrokenInstruction:
        trackers = [frame.stack[position] for position in order]
        symbol = str(instruction.argval or "")

        def action(reconstruction: Reconstruction) -> Action:
            recipes = tuple(map(reconstruction.recipe, trackers))
            return BrokenOperation(name, recipes, symbol, converts_to_bool(instruction))  # type: ignore[arg-type]

        return BrokenInstruction(instruction, operands, pushes, action, ((frame.pc + 1, False),))

    return read


def _jump(frame: Translator, instruction: Instruction) -> BrokenInstruction:
    condition = frame.stack[-1]
    assert instruction.target is not None
    target = frame.view.labels[instruction.target]
    following = frame.pc + 1
    keeps = "OR_POP" in instruction.opcode
    test = "none" if "NONE" in instruction.opcode else "truth"
    jumps_if = str(jump_condition(instruction.opcode)).startswith("true")
    taken, not_taken = (target, keeps), (following, False)
    # ``targets`` lists first where the test holds, then where it does not, whichever of the two jumps.
    targets = (taken, not_taken) if jumps_if else (not_taken, taken)

    def action(reconstruction: Reconstruction) -> Action:
        return BrokenJump(reconstruction.recipe(condition), test)  # type: ignore[arg-type]

    return BrokenInstruction(instruction, 1, 0, action, targets)


def _comprehension(frame: Translator, instruction: Instruction) -> BrokenInstruction:
    """The whole loop is left to Python; the frame continues where the saved variables are put back."""
    instructions = frame.view.instructions
    found = comprehension_at(instructions, frame.pc)
    assert found is not None

    def action(reconstruction: Reconstruction) -> Action:
        iterator = frame.stack[-1]
        # The function that holds the loop begins with just the iterator on its stack; the saved variables below it
        # belong to the frame around (PEP 709 inlines a comprehension into its function).
        begin = _resume_point(frame, found.start, (_slot(iterator, reconstruction),), 0, reconstruction, frame)
        for name in found.saved:
            save_and_clear(frame, name)
        # The comprehension's own prologue ends with SWAP: saved variables below, the iterator on top. The loop's result
        # then takes the iterator's slot.
        frame.stack[-1 - len(found.saved)], frame.stack[-1] = frame.stack[-1], iterator
        return BrokenComprehension(begin, instructions[found.end].offset)

    return BrokenInstruction(instruction, 1, 1, action, ((found.end, False),), found.start)


CALLS = frozenset({"CALL", "CALL_KW", "CALL_FUNCTION_EX", "LOAD_ATTR", "BINARY_SUBSCR"})
"""Instructions that push what a function returns: a property's getter and ``__getitem__`` are such, too."""
BREAKABLE: dict[str, Callable[[Translator, Instruction], BrokenInstruction]] = {
    "CALL": _call,
    "CALL_KW": _call,
    "CALL_FUNCTION_EX": _call_ex,
    "COMPARE_OP": _operation("compare", 2, 1, (-2, -1)),
    "BINARY_SUBSCR": _operation("getitem", 2, 1, (-2, -1)),
    "LOAD_FAST_AND_CLEAR": _comprehension,
    "STORE_ATTR": _operation("setattr", 2, 0, (-1, -2)),
    "STORE_SUBSCR": _operation("setitem", 3, 0, (-2, -1, -3)),
    **{name: _jump for name, condition in CONDITIONAL_JUMPS.items() if "none" not in condition},
}
