"""Trace one frame: run it symbolically until it returns, or until the graph must end.

A break is planned, not undone: when an instruction of the frame cannot be
traced, tracing starts again from the beginning, and the second time the graph
ends just before that instruction.

    y = x ** 2; torch.save(y, p); z = y ** 3      graph: pow
                ^ break                           Python: torch.save(y, p)
                                                  resume function: y ** 3

In torch: torch/_dynamo/symbolic_convert.py (break_graph_if_unsupported,
SpeculationLog) and convert_frame.py. Read next: nbcompile/rewriting/residual.py
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import types
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from nbcompile import config, torch_internals
from nbcompile.bytecode.comprehensions import Comprehension, comprehension_at
from nbcompile.bytecode.dialects import CONDITIONAL_JUMPS
from nbcompile.bytecode.flow import outer_protection
from nbcompile.bytecode.instruction import Instruction
from nbcompile.capture.frame import Frame
from nbcompile.capture.guard import Guard, GuardKind, TensorFacts, TensorMarks
from nbcompile.capture.source import ArraySource, AttrSource, FunctionModeSource, LocalSource, Source, expression
from nbcompile.capture.trace import Assumptions, Continue, GraphBreak, Return, Trace
from nbcompile.options import Options
from nbcompile.record import recorder
from nbcompile.record.model import Break, StackLine, Step
from nbcompile.support.process_state import STATE, Lifetime
from nbcompile.tracing import breaks
from nbcompile.tracing.effects import process_state
from nbcompile.tracing.effects.reconstruction import Reconstruction
from nbcompile.tracing.exceptions import MustBreakEarlier
from nbcompile.tracing.frame import break_points
from nbcompile.tracing.frame.interpreter import Interpreter, PlannedBreak
from nbcompile.tracing.frame.translator import FrameResult, Translator
from nbcompile.tracing.graph.output_graph import FailedNode
from nbcompile.tracing.graph.override_state import OverrideState
from nbcompile.tracing.inputs.dynamism import Dynamism, is_module_state
from nbcompile.tracing.inputs.graph_inputs import EXAMPLE
from nbcompile.tracing.protocol import Change
from nbcompile.tracing.variables.base import LazyVariable, VariableTracker
from nbcompile.tracing.variables.contexts import ContextVariable
from nbcompile.tracing.variables.functions import CellVariable, cell_tracker
from nbcompile.tracing.variables.observed import ObservedException
from nbcompile.tracing.variables.tensor import TensorVariable

graph_numbers = STATE.add("tracing.tracer.graph_numbers", itertools.count(1), Lifetime.PROCESS)
MARKS = (
    "_dynamo_dynamic_indices",
    "_dynamo_weak_dynamic_indices",
    "_dynamo_unbacked_indices",
    "_dynamo_strict_unbacked_indices",
    "_dynamo_static_indices",
)


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


@dataclass(slots=True)
class FailedAttempt:
    """Trace of the attempt that came furthest, of those that ended without a result."""

    graph: torch.fx.Graph | None = None
    sources: dict[str, str] = field(default_factory=dict)
    """Expression that each placeholder is read from, by the placeholder's name."""
    modules: dict[str, torch.fx.GraphModule] = field(default_factory=dict)
    failed: FailedNode | None = None
    """The operator that ended it, because it fails on its inputs."""
    steps: tuple[Step, ...] = ()

    def operators(self) -> int:
        """Number of operators traced."""
        return -1 if self.graph is None else sum(node.op != "placeholder" for node in self.graph.nodes)


class _RestartWithPlan(Exception):
    """Start over with a plan."""

    def __init__(self, plan: BreakPlan) -> None:
        super().__init__(plan)
        self.plan = plan
        plan.error.forget_values()


def trace(
    frame: Frame,
    options: Options,
    dynamism: Dynamism,
    recording: bool = False,
    unfinished: FailedAttempt | None = None,
) -> Trace:
    """Run a frame symbolically; what ``unfinished`` is filled with is of use where that raises.

    Raises:
        breaks.Unsupported: it cannot be compiled, and nothing before the break can either.
        breaks.SkipFrame: there is nothing in it to compile.
        errors.TorchRuntimeError: an operator fails on these inputs whatever runs it.
    """
    plan: BreakPlan | None = None
    refused: set[str] = set()
    assumed = Assumptions()  # by any attempt: what an earlier one saw decided where this one ends
    while True:
        modes = enumerate(torch_internals.function_modes())
        overrides = OverrideState[VariableTracker](LazyVariable(mode, FunctionModeSource(at)) for at, mode in modes)
        try:
            # The compiler's own looks at a tensor are not for its class or for a mode.
            with torch._C.DisableTorchFunction(), process_state.kept(), torch_internals.errors_not_logged():
                attempt = _FrameTracer(frame, options, dynamism, assumed, overrides, recording, plan, refused)
                return attempt.trace(unfinished)
        except _RestartWithPlan as again:
            plan = again.plan
        except MustBreakEarlier as late:
            refused.add(late.what)
        except breaks.RestartAnalysis:
            continue


class _FrameTracer:
    """One attempt."""

    def __init__(
        self,
        frame: Frame,
        options: Options,
        dynamism: Dynamism,
        assumed: Assumptions,
        overrides: OverrideState[VariableTracker],
        recording: bool,
        plan: BreakPlan | None,
        refused: set[str],
    ) -> None:
        self.frame = frame
        self.options = options
        self.plan = plan
        self.interpreter = Interpreter(frame, options, dynamism, assumed, overrides, recording)
        self.interpreter.output.refused = refused
        self.top = self._top_frame()
        self.interpreter.frames.append(self.top)
        self.interpreter.end_at = () if plan is None else plan.path
        self.comprehension: tuple[int, Comprehension] | None = None
        """The outermost inlined one that was entered last, and at which step."""

    def _top_frame(self) -> Translator:
        code = self.frame.code
        free = set(code.co_freevars)
        inputs: dict[str, VariableTracker] = {
            name: LazyVariable(value, LocalSource(name))
            for name, value in self.frame.locals.items()
            if name not in free
        }
        cells = {
            name: cell_tracker(self.interpreter, cell, name, LocalSource(name), frame_name=name)
            for name, cell in self.frame.cells.items()
        }
        return Translator(self.interpreter, code, self.frame.globals, inputs, cells)

    def trace(self, unfinished: FailedAttempt | None) -> Trace:
        """Trace of the frame; an attempt that ends without one is kept only to be shown."""
        output = self.interpreter.output
        try:
            try:
                return self._run()
            finally:
                output.leave_modes()
        except BaseException as error:
            if unfinished is not None:
                self._keep(unfinished, error)
            self.release()
            raise

    def _keep(self, unfinished: FailedAttempt, error: BaseException) -> None:
        """Keep the graph of an attempt that failed, to be shown."""
        output, met = self.interpreter.output, error.plan.error if isinstance(error, _RestartWithPlan) else error
        failed = output.failed
        if failed is not None and (met is failed.error or _is_at(failed.stack, getattr(met, "stack", ()))):
            unfinished.failed = failed
        if output.operators() < unfinished.operators():
            return
        self.interpreter.note_effects()
        unfinished.graph, unfinished.modules = output.root.graph, output.modules
        unfinished.sources = {node.name: expression(source) for node, source in output.inputs.placeholders}
        unfinished.steps = tuple(self.interpreter.steps or ())

    def _run(self) -> Trace:
        finished = None
        while finished is None:
            if not self._in_comprehension():
                begun = comprehension_at(self.top.view.instructions, self.top.pc)
                self.comprehension = None if begun is None else (self.top.steps, begun)
            try:
                finished = self.top.step()
            except PlannedBreak as end:
                assert self.plan is not None
                return self._planned_end(self.plan, end.frames)
            except breaks.Unsupported as error:
                raise _RestartWithPlan(self._plan(error)) from None
            except ObservedException as error:
                raise self._uncaught(error) from None
            except RecursionError:
                raise self._too_deep() from None
        return self._end_at_return(finished)

    # -- where the graph may end ---------------------------------------------------------

    def _in_comprehension(self) -> bool:
        """True if the next instruction is inside of an inlined comprehension."""
        return self.comprehension is not None and (
            self.comprehension[1].start <= self.top.pc < self.comprehension[1].end
        )

    def _plan(self, error: breaks.Unsupported) -> BreakPlan:
        """Decide how the frame goes on after what could not be traced; raises if it cannot."""
        self._note_stack(error)
        error.operands = self.top.operands()
        error.traced = self.interpreter.last_steps()
        error.is_final |= self.options.fullgraph
        if error.is_final or error.forbids_resume or (error.needs_frame and len(error.stack) == 1):
            raise error
        obstacle = error
        began, broken = self._broken()
        inlined = tuple(self.interpreter.inlined)
        if config.nested_graph_breaks and broken is self.top.current:
            path, resumes = self._nested_path(error)
            if path:
                return BreakPlan(path, error, resumes, inlined)
        if self._can_end_at(self.top, broken, error):
            found = self._obstacle(error, self.top, broken)
            if found is None:
                return BreakPlan((began,), error, True, inlined)
            obstacle = found
        if self.top.checkpoint is None or obstacle.kind is breaks.LOOP:
            raise obstacle
        return BreakPlan((self.top.checkpoint,), obstacle, False, inlined)

    def _nested_path(self, error: breaks.Unsupported) -> tuple[tuple[int, ...], bool]:
        """Positions of the frames that resume, down to the deepest that can end there; and True if that one resumes.

        The frames above it go on with what their call returns. Of a deepest frame that cannot resume after the broken
        instruction, what came before the last place where it could stop is compiled, and Python runs the rest.
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
                found = (*path, frame.steps - 1), True
            elif frame.checkpoint is not None and (obstacle is None or obstacle.kind is not breaks.LOOP):
                found = (*path, frame.checkpoint), False
        return found

    def _can_end_at(self, frame: Translator, broken: Instruction, error: breaks.Unsupported) -> bool:
        """True if Python can make this one step of a frame, as far as the instruction goes."""
        if error.kind is breaks.STEP_UNSUPPORTED or broken.opcode not in break_points.BREAKABLE:
            return False
        # Up to 3.12 the jump itself asks for the truth; torch leaves the jump to Python, but no __bool__ in there.
        asks = sys.version_info < (3, 13) and broken.opcode in CONDITIONAL_JUMPS
        return not (asks and self.interpreter.broken and frame is not self.interpreter.broken[-1])

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

    def _note_stack(self, error: breaks.Unsupported) -> None:
        if not error.stack:
            error.stack = self.interpreter.stack()
            error.callee = self.interpreter.callee()

    def _obstacle(self, error: breaks.Unsupported, frame: Translator, broken: Instruction) -> breaks.Unsupported | None:
        """Reason why nothing can resume after an instruction of a frame, or None."""
        entered = [each.manager for each in frame.contexts]
        generic = [each for each in self.interpreter.generic_contexts if each in entered]
        if generic:  # those of a callee are entered again when Python calls it
            active = ", ".join(each.describe() for each in generic)
            return self._after(
                error, breaks.unsupported(breaks.CONTEXT, f"Active generic context managers: [{active}]")
            )
        if _is_in_try(frame, broken) or frame.handled:
            return error  # the handlers would be lost
        if broken is frame.current and _in_loop(frame):  # a whole comprehension may be inside one, as in torch
            code = frame.code
            where = f"frame skipped: {code.co_name} ({code.co_filename} line {code.co_firstlineno})"
            return self._after(error, breaks.unsupported(breaks.LOOP, where))
        return None

    def _after(self, first: breaks.Unsupported, second: breaks.Unsupported) -> breaks.Unsupported:
        second.stack, second.operands, second.traced = first.stack, first.operands, first.traced
        second.callee = first.callee
        second.cause = first
        return second

    def _uncaught(self, error: ObservedException) -> breaks.Unsupported:
        value = error.value
        arguments = [
            argument.constant() if argument.is_constant() else argument.describe()
            for argument in getattr(value, "arguments", [])
        ]
        text = f"({', '.join(map(repr, arguments))})"
        unsupported = breaks.unsupported(
            breaks.OBSERVED_EXCEPTION, f"raised exception {value.describe()}", name=value.type_name(), arguments=text
        )
        self._note_stack(unsupported)
        return unsupported

    def _too_deep(self) -> breaks.Unsupported:
        limit = sys.getrecursionlimit()
        unsupported = breaks.unsupported(breaks.RECURSION, f"sys.getrecursionlimit() == {limit}", limit=limit)
        unsupported.is_final = self.options.fullgraph
        self._note_stack(unsupported)
        return unsupported

    # -- the end -------------------------------------------------------------------------

    def _close_generators(self) -> None:
        # CPython closes what is left of a generator when nothing refers to it any more. That moment is not traced:
        # closing at the end is the same only where it does nothing that shows. (What lives on has a recipe by now,
        # or was refused.)
        interpreter = self.interpreter
        for generator in interpreter.generators:
            if not generator.waits_in_try():
                continue
            before = (len(interpreter.output.graph.nodes), interpreter.side_effects.count())
            with contextlib.suppress(ObservedException):
                generator.close(interpreter)
            if before != (len(interpreter.output.graph.nodes), interpreter.side_effects.count()):
                raise breaks.unsupported(breaks.GENERATOR, f"{generator.describe()} is left waiting in a try block")

    def _end_at_return(self, finished: FrameResult) -> Trace:
        interpreter = self.interpreter
        is_empty = not interpreter.output.has_operators() and not interpreter.side_effects.any()
        if is_empty and not config.allow_empty_graphs:
            raise breaks.SkipFrame("no ops traced")
        reconstruction = Reconstruction(interpreter)
        lazy = finished.value
        result = lazy.realised if isinstance(lazy, LazyVariable) else lazy
        if type(result) is TensorVariable and not interpreter.side_effects.any():
            value = reconstruction.graph_output(result.node)  # as torch does, where it is all there is: an input, too
        else:
            value = reconstruction.recipe(finished.value)
        mutations = reconstruction.mutations()
        self._close_generators()
        return self._trace(reconstruction, mutations, Return(value))

    def _planned_end(self, plan: BreakPlan, chain: Sequence[Translator]) -> Trace:
        try:
            return self._end_at_break(plan, chain)
        except breaks.Unsupported as error:  # what lives on cannot be carried over
            error.stack = error.stack or plan.error.stack[: len(chain)]
            if error.kind is not plan.error.kind:
                error.cause = plan.error
            raise

    def _end_at_break(self, plan: BreakPlan, chain: Sequence[Translator]) -> Trace:
        *callers, broken = chain
        reconstruction = Reconstruction(self.interpreter)
        pending = break_points.pending(broken, plan.resumes)
        managers = [context.manager for frame in chain for context in frame.contexts]
        entered = [manager for manager in managers if isinstance(manager, ContextVariable)]
        assert len(entered) == len(managers)
        for manager in reversed(entered):
            manager.exit(self.interpreter)
        action, resume, outer = break_points.describe(broken, pending, callers, reconstruction)
        contexts = tuple(manager.recipe_to_enter(reconstruction) for manager in entered)
        mutations = reconstruction.mutations()
        self._close_generators()
        opcode = "step" if isinstance(action, Continue) else broken.current.opcode
        earlier = () if plan.error.cause is None else (break_report(plan.error.cause, opcode),)
        report = break_report(plan.error, opcode)
        return self._trace(reconstruction, mutations, GraphBreak(action, resume, contexts, report, earlier, outer))

    def _expect_attributes(self) -> None:
        """Promise that what was read of an object, and not looked at, is there: the residual program reads it again."""
        for guard in self.interpreter.output.left_unread:
            if guard.realised is None and type(guard.source) is AttrSource:
                self.interpreter.guard(guard.source.base, GuardKind.HASATTR, (guard.source.attribute, True))

    def _trace(self, reconstruction: Reconstruction, mutations: tuple, exit: Return | GraphBreak) -> Trace:
        self._expect_attributes()
        output = self.interpreter.output
        self.interpreter.note_effects()
        draws = reconstruction.draws()
        output.check_leaves(reconstruction.outputs)
        guards = self._guards()
        graph = output.finish(reconstruction.outputs, f"__compiled_fn_{next(graph_numbers)}")
        stack = self.interpreter.stack()

        def settled() -> tuple[Guard, ...]:
            facts, shapes = output.inputs.facts(), output.inputs.shape_guards()
            about_sizes = () if shapes is None else (Guard(None, GuardKind.SHAPE_ENV, shapes, stack),)
            return (*(_with_sizes(each, facts) for each in guards), *about_sizes)

        if self.interpreter.steps is not None and (draft := recorder.draft()) is not None:
            draft.write(steps=tuple(self.interpreter.steps))
        earlier = () if self.plan is None else self.plan.inlined
        inlined = max(earlier, tuple(self.interpreter.inlined), key=len)
        symbols = output.inputs.symbol_cards
        assumed = self.interpreter.assumed
        runs_again = bool(mutations or output.is_caught) and not draws and output.only_computes()
        return Trace(graph, settled, mutations, exit, inlined, symbols, assumed, self.release, draws, runs_again)

    def release(self) -> None:
        """Undo the circles among what traced, so that the call's arguments live no longer than the call."""
        interpreter = self.interpreter
        for frame in interpreter.frames:
            frame.locals.clear()
        for part in (interpreter.side_effects, interpreter.output.inputs, interpreter.output, interpreter, self):
            vars(part).clear()

    def _guards(self) -> tuple[Guard, ...]:
        output = self.interpreter.output
        self._guard_tensors()
        self._guard_changed()
        modes = tuple(torch_internals.function_modes())
        ambient = tuple(
            Guard(None, kind, modes if kind is GuardKind.TORCH_FUNCTION_MODE_STACK else None)
            for kind in (
                GuardKind.GLOBAL_STATE,
                GuardKind.TORCH_FUNCTION_MODE_STACK,
                GuardKind.DEFAULT_DEVICE,
                GuardKind.SAVED_TENSORS_HOOKS,
            )
        )
        return (*ambient, *output.guards_on_members())

    def _guard_changed(self) -> None:
        """An input that the program changes is not, under another name, one that it reads."""
        effects = self.interpreter.side_effects
        changed = [change.tracker for change in effects.order if isinstance(change, Change)]
        cells = [tracker for tracker in effects.trackers.values() if isinstance(tracker, CellVariable)]
        others = [
            tracker
            for tracker in effects.trackers.values()
            if tracker.source is not None and not isinstance(tracker, CellVariable)
        ]
        if any(isinstance(tracker, CellVariable) for tracker in changed):
            self._guard_distinct(cell.address() for cell in cells)
        for kind in {tracker.python_type() for tracker in changed if tracker.source is not None}:
            if not issubclass(kind, (torch.Tensor, types.CellType)):
                self._guard_distinct(tracker.source for tracker in others if tracker.python_type() is kind)

    def _guard_distinct(self, sources: Iterable[Source | None]) -> None:
        distinct = tuple(dict.fromkeys(source for source in sources if source is not None))
        if len(distinct) > 1:
            self.interpreter.output.guard(None, GuardKind.NO_OBJECT_ALIASING, distinct)

    def _guard_tensors(self) -> None:
        """Inputs that are different tensors stay different; the user's marks on their dims stay as they are."""
        output = self.interpreter.output
        tensors = [
            (node.meta[EXAMPLE], source)
            for node, source in output.inputs.placeholders
            if isinstance(node.meta[EXAMPLE], torch.Tensor) and not isinstance(source, ArraySource)
        ]
        inputs = [
            source
            for example, source in tensors
            if not isinstance(example, torch.nn.Parameter) and not is_module_state(source)
            if isinstance(self.interpreter.real_value(source), torch.Tensor)  # and no number that is passed as one
        ]
        for source in inputs:
            real = self.interpreter.real_value(source)
            present = tuple((mark, frozenset(getattr(real, mark))) for mark in MARKS if getattr(real, mark, None))
            absent = tuple(mark for mark in MARKS if not getattr(real, mark, None))
            output.guard(source, GuardKind.DIMENSION_MARKING, TensorMarks(present, absent))
        if len(inputs) > 1:
            output.guard(None, GuardKind.NO_TENSOR_ALIASING, tuple(inputs))


def _is_at(inner: tuple[StackLine, ...], outer: tuple[StackLine, ...]) -> bool:
    """True if one place in the user's code lies in the calls that another one names."""
    return bool(outer) and inner[: len(outer)] == outer


def _is_in_try(frame: Translator, broken: Instruction) -> bool:
    """True if an instruction is protected by more than the ``with`` blocks that tracing is inside of."""
    protection = broken.protection
    for context in reversed(frame.contexts):
        if protection is not None and protection.target != context.handler:
            return True
        protection = outer_protection(frame.view.instructions, frame.view.labels, protection, context.depth)
    return protection is not None


def _in_loop(frame: Translator) -> bool:
    """True if a later jump, before the next return, goes back to before the current instruction (torch's rule)."""
    instructions, labels = frame.view.instructions, frame.view.labels
    here = instructions.index(frame.current)
    rest = itertools.takewhile(lambda instruction: instruction.opcode != "RETURN_VALUE", instructions[here + 1 :])
    return any(each.target is not None and labels[each.target] < here for each in rest)


def _with_sizes(guard: Guard, facts: Mapping[Source, TensorFacts]) -> Guard:
    """The guard on a tensor, with the sizes that are constants now that all is traced."""
    if guard.kind is not GuardKind.TENSOR_MATCH or guard.source is None:
        return guard
    return replace(guard, expected=facts[guard.source])


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
