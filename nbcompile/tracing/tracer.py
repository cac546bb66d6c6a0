"""Trace one frame: run it symbolically until it returns, or until the graph must end.

If an instruction cannot be traced, tracing starts again from the beginning with
a plan: in the second attempt the graph ends just before that instruction.

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from nbcompile import config, torch_internals
from nbcompile.capture.frame import Frame
from nbcompile.capture.guard import Guard, GuardKind, TensorFacts
from nbcompile.capture.source import FunctionModeSource, LocalSource, Source, expression
from nbcompile.capture.trace import Continue, GraphBreak, Return, Trace
from nbcompile.options import Options
from nbcompile.record import recorder
from nbcompile.record.model import StackLine, Step
from nbcompile.support.process_state import STATE, Lifetime
from nbcompile.tracing import breaks
from nbcompile.tracing.effects import process_state
from nbcompile.tracing.effects.reconstruction import Reconstruction
from nbcompile.tracing.exceptions import MustBreakEarlier
from nbcompile.tracing.frame import break_points
from nbcompile.tracing.frame.break_planning import BreakPlan, BreakPlanner, EarlierAttempts, break_report
from nbcompile.tracing.frame.escape_analysis import held_elsewhere
from nbcompile.tracing.frame.frame_guards import expect_attributes, frame_guards, registries_grew
from nbcompile.tracing.frame.inlining import GeneratorVariable
from nbcompile.tracing.frame.interpreter import Interpreter, PlannedBreak
from nbcompile.tracing.frame.translator import FrameResult, Translator
from nbcompile.tracing.graph.output_graph import FailedNode
from nbcompile.tracing.graph.override_state import OverrideState
from nbcompile.tracing.inputs.dynamism import Dynamism
from nbcompile.tracing.variables.base import LazyVariable, VariableTracker
from nbcompile.tracing.variables.cells import cell_tracker
from nbcompile.tracing.variables.contexts import ContextVariable, expect_distinct
from nbcompile.tracing.variables.exceptions import ExceptionVariable
from nbcompile.tracing.variables.observed import ObservedException
from nbcompile.tracing.variables.tensor import TensorVariable

graph_numbers = STATE.add("tracing.tracer.graph_numbers", itertools.count(1), Lifetime.PROCESS)


@dataclass(slots=True)
class FailedAttempt:
    """Trace of the failed attempt with the most operators."""

    graph: torch.fx.Graph | None = None
    sources: dict[str, str] = field(default_factory=dict)
    """Expression that each placeholder is read from, by the placeholder's name."""
    modules: dict[str, torch.fx.GraphModule] = field(default_factory=dict)
    failed: FailedNode | None = None
    """The operator that ended the attempt, because it fails on its inputs."""
    steps: tuple[Step, ...] = ()

    def operators(self) -> int:
        """Number of operators traced."""
        return -1 if self.graph is None else sum(node.op != "placeholder" for node in self.graph.nodes)


class _RestartWithPlan(Exception):
    """Request to start again with a plan."""

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
    """Run a frame symbolically; if that raises, ``unfinished`` describes the failed attempt.

    Raises:
        breaks.Unsupported: the frame cannot be compiled, nor can the part before the break.
        breaks.SkipFrame: the frame has nothing to compile.
        errors.TorchRuntimeError: an operator fails on these inputs whatever runs it.
    """
    earlier = EarlierAttempts()  # each attempt begins at the first instruction
    may_restart = True
    while True:
        modes = enumerate(torch_internals.function_modes())
        overrides = OverrideState[VariableTracker](LazyVariable(mode, FunctionModeSource(at)) for at, mode in modes)
        try:
            # The frame may run under modes of the user, and its tensors may be of a subclass: when the compiler reads
            # ``x.shape``, no ``__torch_function__`` of the user may run.
            with torch._C.DisableTorchFunction(), process_state.kept(), torch_internals.errors_not_logged():
                attempt = _FrameTracer(frame, options, dynamism, earlier, overrides, recording)
                traced = attempt.trace(unfinished)
                # Only once: if the modules change in each attempt, no import is the cause, and the guards fail.
                if not (may_restart and registries_grew(attempt.guards, frame.scope())):
                    return traced
                may_restart = False
                traced.release()
        except _RestartWithPlan as restart:
            earlier = replace(earlier, plan=restart.plan)
        except MustBreakEarlier as late:
            # The operation was traced and cannot be undone, so the next attempt breaks at it.
            earlier.must_break.add(late.what)
        except breaks.RestartAnalysis:
            continue


class _FrameTracer:
    """State of one attempt."""

    def __init__(
        self,
        frame: Frame,
        options: Options,
        dynamism: Dynamism,
        earlier: EarlierAttempts,
        overrides: OverrideState[VariableTracker],
        recording: bool,
    ) -> None:
        self.frame = frame
        self.options = options
        self.plan = plan = earlier.plan
        self.guards: tuple[Guard, ...] = ()
        self.interpreter = Interpreter(frame, options, dynamism, earlier.assumed, overrides, recording)
        self.interpreter.output.must_break = earlier.must_break
        self.top = self._top_frame()
        self.interpreter.frames.append(self.top)
        self.interpreter.end_at = () if plan is None else plan.path
        self.planner = BreakPlanner(self.interpreter, self.top, options)

    def _top_frame(self) -> Translator:
        code = self.frame.code
        # ``frame.locals`` has the contents of a closure's free variables. Here they are cells, since an inner function
        # or a called function may assign to them.
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
        """Trace of the frame; a failed attempt is saved only for views."""
        output = self.interpreter.output
        try:
            try:
                return self._run()
            finally:  # tracing enters inference mode for real
                output.leave_modes()
        except BaseException as error:
            if unfinished is not None:
                self._keep(unfinished, error)
            # The exception's traceback refers to this frame, and so to the arguments of the call: ``release`` frees
            # them.
            self.release()
            raise

    def _keep(self, unfinished: FailedAttempt, error: BaseException) -> None:
        """Save the graph of a failed attempt for views."""
        output, cause = self.interpreter.output, error.plan.error if isinstance(error, _RestartWithPlan) else error
        failed = output.failed
        if failed is not None and (cause is failed.error or _is_at(failed.stack, getattr(cause, "stack", ()))):
            unfinished.failed = failed
        # Views of a failure show the attempt with the most operators: later attempts end earlier, as planned.
        if output.operators() < unfinished.operators():
            return
        self.interpreter.step_record.note_effects()
        unfinished.graph, unfinished.modules = output.root.graph, output.modules
        unfinished.sources = {node.name: expression(source) for node, source in output.inputs.placeholders}
        unfinished.steps = tuple(self.interpreter.step_record.steps or ())

    def _run(self) -> Trace:
        finished = None
        while finished is None:
            self.planner.before_step()
            try:
                finished = self.top.step()
            except PlannedBreak as end:
                assert self.plan is not None
                return self._planned_end(self.plan, end.frames)
            except breaks.Unsupported as error:
                # The planner decides where the graph ends, and the next attempt runs up to there. To undo the changes
                # of this attempt in the graph, the trackers and the side effects would be harder.
                raise _RestartWithPlan(self.planner.plan(error)) from None
            except ObservedException as error:
                uncaught = self._uncaught(error)
                if self._is_compiled_up_to(error.value):
                    raise _RestartWithPlan(self.planner.plan(uncaught)) from None
                raise uncaught from None
            except RecursionError:
                raise self._too_deep() from None
        return self._end_at_return(finished)

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
        self.planner.note_stack(unsupported)
        return unsupported

    def _is_compiled_up_to(self, error: VariableTracker) -> bool:
        """True if what ran before an exception that leaves the frame is compiled, as in torch.

        This holds for a failed assertion and for an attribute that a tensor does not have. After any other exception
        Python runs the whole frame: code that raises seldom gains from a graph.
        """
        if not isinstance(error, ExceptionVariable):
            return False
        on_tensor = error.failed_lookup is not None and isinstance(error.failed_lookup[1], TensorVariable)
        return on_tensor or error.of_assertion

    def _too_deep(self) -> breaks.Unsupported:
        limit = sys.getrecursionlimit()
        unsupported = breaks.unsupported(breaks.RECURSION, f"sys.getrecursionlimit() == {limit}", limit=limit)
        unsupported.is_final = self.options.fullgraph
        self.planner.note_stack(unsupported)
        return unsupported

    # -- the end -------------------------------------------------------------------------

    def _close_generators(self) -> None:
        # CPython closes a generator when its last reference is dropped. Tracing does not know that moment, and closes
        # at the end instead: the result is the same only if closing has no visible effect. (A generator that is still
        # referenced has a recipe by now, or was unsupported.)
        interpreter = self.interpreter
        for generator in interpreter.generators:
            if not generator.waits_in_try():
                continue
            before = (len(interpreter.output.graph.nodes), interpreter.side_effects.count())
            with contextlib.suppress(ObservedException):
                generator.close(interpreter)
            if before != (len(interpreter.output.graph.nodes), interpreter.side_effects.count()):
                raise self._left_waiting(generator)

    def _close_at_return(self, result: VariableTracker) -> None:
        """Close the generators that the frame frees: the returned object is known by then, its content may change."""
        held = map(self.top.locals.get, self.top.code.co_varnames)
        waiting = [value for value in held if isinstance(value, GeneratorVariable) and value.waits_in_try()]
        if not waiting:
            return
        elsewhere = held_elsewhere(self.interpreter, result)
        for generator in waiting:
            if id(generator) not in elsewhere and generator.waits_in_try():
                try:
                    generator.close(self.interpreter)
                except (breaks.Unsupported, ObservedException):
                    # Python reports an exception that leaves the generator here, and continues.
                    raise self._left_waiting(generator) from None

    def _left_waiting(self, generator: VariableTracker) -> breaks.Unsupported:
        return breaks.unsupported(breaks.GENERATOR, f"{generator.describe()} is left waiting in a try block")

    def _end_at_return(self, finished: FrameResult) -> Trace:
        interpreter = self.interpreter
        is_empty = not interpreter.output.has_operators() and not interpreter.side_effects.any()
        if is_empty and not config.allow_empty_graphs:
            raise self._nothing_to_compile()
        # The order of these steps is the order of the graph's outputs: the result, then the side effects.
        self._close_at_return(finished.value)
        reconstruction = Reconstruction(interpreter)
        lazy = finished.value
        result = lazy.realised if isinstance(lazy, LazyVariable) else lazy
        if type(result) is TensorVariable and not interpreter.side_effects.any():
            value = reconstruction.graph_output(result.node)  # as in torch, also for an input
        else:
            value = reconstruction.recipe(finished.value)
        mutations = reconstruction.mutations()
        # After the mutations, every value that needs a generator has its recipe. A change recorded from here on would
        # be lost, so a close that changes anything is unsupported.
        self._close_generators()
        return self._trace(reconstruction, mutations, Return(value))

    def _nothing_to_compile(self) -> breaks.SkipFrame:
        """The reason to skip the frame, with guards on everything that the trace read."""
        expect_attributes(self.interpreter)
        self.interpreter.step_record.note_effects()
        output = self.interpreter.output
        # A backend completes the guards on symbolic sizes, but here it gets no graph.
        if output.inputs.is_symbolic():
            return breaks.SkipFrame("no ops traced")
        guards, facts = frame_guards(self.interpreter), output.inputs.facts()
        settled = tuple(_with_sizes(guard, facts) for guard in guards)
        return breaks.SkipFrame("no ops traced", settled, self.interpreter.assumed)

    def _planned_end(self, plan: BreakPlan, chain: Sequence[Translator]) -> Trace:
        try:
            return self._end_at_break(plan, chain)
        except breaks.Unsupported as error:  # a live value cannot be passed to the resume function
            error.stack = error.stack or plan.error.stack[: len(chain)]
            if error.kind is not plan.error.kind:
                error.cause = plan.error
            raise

    def _end_at_break(self, plan: BreakPlan, chain: Sequence[Translator]) -> Trace:
        *callers, broken = chain
        reconstruction = Reconstruction(self.interpreter)
        pending = break_points.pending(broken, plan.resumes)
        # The graph leaves every ``with`` block before it ends, innermost first. The residual program enters them again
        # for the action, and the resume function for the rest of the frame.
        managers = [context.manager for frame in chain for context in frame.contexts]
        entered = [manager for manager in managers if isinstance(manager, ContextVariable)]
        assert len(entered) == len(managers)
        expect_distinct(entered)
        for manager in reversed(entered):
            manager.exit(self.interpreter)
        action, resume, outer = break_points.describe(broken, pending, callers, reconstruction)
        contexts = tuple(manager.recipe_to_enter(reconstruction) for manager in entered)
        mutations = reconstruction.mutations()
        if (
            generator := break_points.find_generator_closed_late(broken, pending, callers, self.interpreter)
        ) is not None:
            where = f"{generator.describe()} in a block, which a frame may release"
            raise breaks.unsupported(breaks.GENERATOR_RECIPE, where, name=generator.frame.code.co_name)
        self._close_generators()
        opcode = "step" if isinstance(action, Continue) else broken.current.opcode
        earlier = () if plan.error.cause is None else (break_report(plan.error.cause, opcode),)
        report = break_report(plan.error, opcode)
        differentiates = breaks.AUTOGRAD_GRAD.id in {each.kind for each in (report, *earlier)}
        ending = GraphBreak(action, resume, contexts, report, earlier, outer, differentiates)
        return self._trace(reconstruction, mutations, ending)

    def _trace(self, reconstruction: Reconstruction, mutations: tuple, exit: Return | GraphBreak) -> Trace:
        expect_attributes(self.interpreter)
        output = self.interpreter.output
        self.interpreter.step_record.note_effects()
        before_graph = reconstruction.before_graph()
        output.check_leaves(reconstruction.outputs)
        guards = self.guards = frame_guards(self.interpreter)  # last, since reconstruction adds guards
        graph = output.finish(reconstruction.outputs, f"__compiled_fn_{next(graph_numbers)}")
        stack = self.interpreter.stack()

        # Called after the backend ran: a lowering may specialise a size, which is then a constant in these guards.
        def settled() -> tuple[Guard, ...]:
            facts, shapes = output.inputs.facts(), output.inputs.shape_guards()
            about_sizes = () if shapes is None else (Guard(None, GuardKind.SHAPE_ENV, shapes, stack),)
            return (*(_with_sizes(guard, facts) for guard in guards), *about_sizes)

        if self.interpreter.step_record.steps is not None and (draft := recorder.draft()) is not None:
            draft.write(steps=tuple(self.interpreter.step_record.steps))
        # The attempt that reached the break recorded more calls than the one that ends before it.
        earlier = () if self.plan is None else self.plan.inlined
        inlined = max(earlier, tuple(self.interpreter.inlined), key=len)
        symbols = output.inputs.symbol_cards
        assumed = self.interpreter.assumed
        is_seen = bool(mutations or output.is_caught or output.purity.may_fail)
        reruns = is_seen and not before_graph and output.only_computes()
        return Trace(graph, settled, mutations, exit, inlined, symbols, assumed, self.release, before_graph, reruns)

    def release(self) -> None:
        """Break the reference cycles of the attempt, so that the arguments can be freed after the call."""
        # Frames, trackers and outputs refer to each other: reference counting would free none of them.
        interpreter = self.interpreter
        for frame in interpreter.frames:
            frame.locals.clear()
        for part in (interpreter.side_effects, interpreter.output.inputs, interpreter.output, interpreter, self):
            vars(part).clear()


def _is_at(inner: tuple[StackLine, ...], outer: tuple[StackLine, ...]) -> bool:
    """True if a location in the user's code is inside of the calls that another location names."""
    return bool(outer) and inner[: len(outer)] == outer


def _with_sizes(guard: Guard, facts: Mapping[Source, TensorFacts]) -> Guard:
    """The guard on a tensor, with the sizes that are constant at the end of the trace."""
    if guard.kind is not GuardKind.TENSOR_MATCH or guard.source is None:
        return guard
    return replace(guard, expected=facts[guard.source])
