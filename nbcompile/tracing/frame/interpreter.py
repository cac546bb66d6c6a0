"""The interpreter of one trace: what all its frames share.

It implements the methods that trackers may call (protocol.py): wrap a value,
call something, create a node, raise in the traced program. The stack of frames
that it runs is the user's stack.

In torch: torch/_dynamo/symbolic_convert.py and output_graph.py. Read next:
nbcompile/tracing/tracer.py, which runs the top frame and ends the graph.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, NoReturn

import torch
import torch.fx

from nbcompile import config
from nbcompile.capture.frame import Frame
from nbcompile.capture.guard import GuardKind
from nbcompile.capture.resolution import resolve
from nbcompile.capture.source import AttrSource, ConstantSource, ModuleSource, NoArgsCallSource, Source
from nbcompile.capture.trace import Assumptions
from nbcompile.options import Options
from nbcompile.record.model import StackLine
from nbcompile.tracing import rules
from nbcompile.tracing.calls import (
    attributes,
    comparisons,
    construction,
    deferred,
    graph_nodes,
    object_creation,
    operations,
    overrides,
    special_methods,
    text,
)
from nbcompile.tracing.effects.side_effects import SideEffects
from nbcompile.tracing.frame import active_contexts, frame_variables, iteration, user_stack
from nbcompile.tracing.frame.handlers import calls, control, loads, operators  # noqa: F401  (fills the table of instructions)
from nbcompile.tracing.frame.inlining import GeneratorVariable, inline
from nbcompile.tracing.frame.step_record import StepRecord
from nbcompile.tracing.frame.translator import FrameResult, Translator
from nbcompile.tracing.graph.output_graph import OutputGraph
from nbcompile.tracing.graph.override_state import OverrideState
from nbcompile.tracing.inputs.dynamism import Dynamism
from nbcompile.tracing.polyfills import builtins as polyfills
from nbcompile.tracing.variables.base import LazyVariable, VariableTracker, realise
from nbcompile.tracing.variables.classes import ClassVariable
from nbcompile.tracing.variables.exceptions import ExceptionVariable
from nbcompile.tracing.variables.functions import BaseFunctionVariable, FunctionVariable, MethodVariable
from nbcompile.tracing.variables.iterators import IteratorVariable, SequenceIteratorVariable, TextIteratorVariable
from nbcompile.tracing.variables.observed import ObservedException
from nbcompile.tracing.variables.sequences import ListVariable, TupleVariable
from nbcompile.tracing.variables.slices import index_of
from nbcompile.tracing.wrapping import key_guards
from nbcompile.tracing.wrapping.created_values import constant_or_wrap
from nbcompile.tracing.wrapping.table import wrap

Keywords = Mapping[str, VariableTracker]
HANDLED = NoArgsCallSource(AttrSource(ModuleSource("sys"), "exception"))
"""Exception that a caller of the frame is handling; guards and the compiled code read it at each call."""


class PlannedBreak(BaseException):
    """Signal that tracing has reached the planned end of the graph; no exception handler of the program catches it."""

    def __init__(self, frames: tuple[Translator, ...]) -> None:
        super().__init__()
        self.frames = frames


class Interpreter:
    """State that the frames of one trace share; its trackers call it as their ``Tracer``."""

    def __init__(
        self,
        frame: Frame,
        options: Options,
        dynamism: Dynamism,
        assumed: Assumptions,
        overrides: OverrideState[VariableTracker],
        recording: bool = False,
    ) -> None:
        self.assumed = assumed
        self.output = OutputGraph(frame, options, dynamism)
        self.overrides = overrides
        self.output.stack = self.output.inputs.stack = self.stack
        self.output.names = self.names
        self.side_effects = SideEffects()
        self.frames: list[Translator] = []
        self.represented: list[VariableTracker] = []
        self.generic_contexts: list[VariableTracker] = []
        """Context managers of user classes that are active: nothing can resume under them."""
        self.generators: list[GeneratorVariable] = []
        #     frames    [f, g, h]     f is the frame that is compiled; g and h are inlined, h into g
        #     end_at    (12, 4, 9)    instructions that each has run at the planned end; f and g are in a call then
        self.end_at: tuple[int, ...] = ()
        """Planned end of the graph: the number of instructions that each frame of the chain has run by then."""
        self.broken: tuple[Translator, ...] = ()
        """The frames that ran when something could not be traced."""
        self.inlined: list[str] = []
        self.step_record = StepRecord(self.output, recording)
        self._scope = frame.scope()
        self.handled_by_caller = LazyVariable(frame.handled, HANDLED)

    # -- frames --------------------------------------------------------------------------

    def run_frame(self, frame: Translator) -> FrameResult:
        """Run a callee to its end (a generator: to its next yield)."""
        # Set at each run, not once: a generator created by one function may be resumed by another, and the stack of an
        # error names the one that resumed it.
        frame.callers = self.stack()
        self.frames.append(frame)
        try:
            return frame.run()
        finally:
            self.frames.pop()

    def before_step(self, frame: Translator) -> None:
        """End the graph if that is planned before the next instruction."""
        # If no frame can resume after a break, the graph ends at the last checkpoint instead: the code before the
        # checkpoint is compiled, and Python runs the rest. Without nested graph breaks only the traced frame itself can
        # be left that way.
        if (len(self.frames) == 1 or config.nested_graph_breaks) and frame.can_stop_here():
            frame.checkpoint = frame.steps
        path = self.end_at
        # This runs before each instruction, so the cheap comparison with the innermost frame comes first. The end is
        # given by counts of steps, not by positions in the code: an instruction of a loop, or of a function that is
        # called twice, runs more than once.
        here = len(path) == len(self.frames) and path[-1] == frame.steps
        if here and path == tuple(each.steps for each in self.frames):
            raise PlannedBreak(tuple(self.frames))

    def hand_over(self, callee: VariableTracker, function: VariableTracker) -> None:
        caller = self.frames[-1]
        # ``obj()`` runs ``type(obj).__call__``, and a partial runs its function: the wrapper returns what the
        # wrapped function returns. So a frame of the wrapped function returns directly to the instruction
        # that called the wrapper.
        if caller.calling is callee:
            caller.calling = realise(self, function)

    def stack(self) -> tuple[StackLine, ...]:
        """The user's stack, outermost first; our own polyfills are left out."""
        return user_stack.stack(self.frames)

    def callee(self) -> str:
        """Source text of the function that the current line of the innermost frame calls; "" if it has no call."""
        return user_stack.callee(self.frames)

    def names(self) -> dict[torch.fx.Node, str]:
        """Names of tensors in the user's functions, the outermost function's name first."""
        return user_stack.names(self.frames)

    def note_step(self, frame: Translator) -> None:
        """Record that one instruction is about to be traced."""
        self.step_record.note_step(frame, len(self.frames) - 1)

    def note_inlined(self, frame: Translator) -> None:
        """Record that the body of a call is traced."""
        # The code is recorded for the disk cache: an entry is valid only while these functions have this code.
        self.assumed.codes[id(frame.code)] = frame.code, str(frame.scope.get("__name__", ""))
        if not frame.code.co_filename.startswith(OURS):
            self.inlined.append(f"{frame.code.co_qualname} ({frame.code.co_filename}:{frame.code.co_firstlineno})")

    def note_generator(self, generator: IteratorVariable) -> None:
        """Record a new generator: tracing closes it at the end if it is not exhausted."""
        assert isinstance(generator, GeneratorVariable)
        self.generators.append(generator)

    def leave_context(
        self, frame: Translator, exit_function: VariableTracker, arguments: Sequence[VariableTracker]
    ) -> VariableTracker:
        """Exit a ``with`` block, after its last statement or after an exception."""
        return active_contexts.leave(self, frame, exit_function, arguments)

    # -- values --------------------------------------------------------------------------

    def wrap(self, value: object, source: Source | None) -> VariableTracker:
        return wrap(self, value, source)

    def constant_or_wrap(self, value: object) -> VariableTracker:
        return constant_or_wrap(self, value)

    def index_of(self, key: VariableTracker) -> object:
        return index_of(self, key)

    def real_value(self, source: Source) -> object:
        # Tracing only records changes and changes no real object, so this is the value before the frame began.
        return resolve(source, self._scope)

    def keep(self, value: object, name: str) -> Source:
        return ConstantSource(name, value)

    def guard(self, source: Source | None, kind: GuardKind, expected: object = None) -> None:
        self.output.guard(source, kind, expected)

    def note_member(self, source: Source | None, cls: type, name: str) -> None:
        if source is not None:
            self.output.note_member(source, cls, name)

    def assume(self, source: Source | None, value: object) -> None:
        if source is not None:
            self.assumed.members[source] = value

    def assume_subclass(self, subject: Source | type, cls: Source | type, answer: bool) -> None:
        if (subject, cls, answer) not in self.assumed.subclasses:
            self.assumed.subclasses.append((subject, cls, answer))

    def assume_constant_result(
        self, function: object, arguments: Sequence[object], keywords: Mapping[str, object], answer: object
    ) -> None:
        self.assumed.constant_results.append((function, tuple(arguments), dict(keywords), repr(answer)))

    def note_initialiser(self, function: types.FunctionType, owner: Source, group: Source, lists: int) -> None:
        self.assumed.initialisers.append((function, owner, group, lists))

    def note_launch(self, kernel: int, constants: int, source: Source, values: dict[str, object]) -> None:
        self.assumed.kernels[kernel], self.assumed.launch_constants[constants] = source, values

    def depend_on_process(self, what: str) -> None:
        self.assumed.obstacle = self.assumed.obstacle or what

    def guard_keys(self, mapping: VariableTracker) -> None:
        key_guards.guard_keys(self, mapping)

    def guard_order(self, source: Source, derived: bool) -> None:
        key_guards.guard_order(self, source, derived)

    def iterator(self, items: Sequence[VariableTracker], text: str | bytes | None = None) -> VariableTracker:
        whole = TupleVariable(items)
        return SequenceIteratorVariable(whole) if text is None else TextIteratorVariable(whole, text)

    def list_of(self, items: Sequence[VariableTracker]) -> VariableTracker:
        return ListVariable(items)

    def tuple_of(self, items: Sequence[VariableTracker]) -> VariableTracker:
        return TupleVariable(items)

    def bound(self, function: VariableTracker, owner: VariableTracker) -> VariableTracker:
        return MethodVariable(function, owner)

    def evaluate(
        self, function: Any, arguments: Sequence[object], keywords: Mapping[str, object] | None = None
    ) -> object:
        if isinstance(function, types.FunctionType) and not rules.is_trusted_module(function.__module__):
            self.depend_on_process(f"what {function.__qualname__} returned while it was traced")
        try:
            return function(*arguments, **(keywords or {}))
        # The traced program raises what the pure function raises, so an ``except`` of the program may catch it. A
        # RecursionError is not the program's: the Python frames of the tracer fill most of the stack.
        except RecursionError:  # the tracer uses the same stack
            raise
        except Exception as error:  # the program would see any exception of a pure function
            self.raise_exception(type(error), *error.args)

    def raise_exception(self, kind: type[BaseException], *arguments: object) -> NoReturn:
        given = [each if isinstance(each, VariableTracker) else self.constant_or_wrap(each) for each in arguments]
        raise ObservedException(ExceptionVariable(kind, given))

    # -- calls ---------------------------------------------------------------------------

    def call(
        self, function: VariableTracker, arguments: Sequence[VariableTracker], keywords: Keywords | None = None
    ) -> VariableTracker:
        return realise(self, function).call(self, arguments, keywords or {})

    def call_python(self, function: Callable[..., object], *arguments: VariableTracker) -> VariableTracker:
        assert isinstance(function, types.FunctionType)
        return self.call(FunctionVariable(function), arguments)

    def inline(
        self, function: VariableTracker, arguments: Sequence[VariableTracker], keywords: Keywords
    ) -> VariableTracker:
        assert isinstance(function, BaseFunctionVariable)
        return inline(self, function, arguments, keywords)

    def call_special(self, owner: VariableTracker, name: str, arguments: Sequence[VariableTracker]) -> VariableTracker:
        return special_methods.call_special(self, owner, name, arguments)

    def bind(self, owner: VariableTracker, cls: type, name: str) -> VariableTracker:
        return construction.bind(self, owner, cls, name)

    def instantiate(
        self, cls: VariableTracker, arguments: Sequence[VariableTracker], keywords: Keywords
    ) -> VariableTracker:
        assert isinstance(cls, ClassVariable)
        return construction.instantiate(self, cls, arguments, keywords)

    def make(self, cls: VariableTracker, arguments: Sequence[VariableTracker], keywords: Keywords) -> VariableTracker:
        assert isinstance(cls, ClassVariable)
        return object_creation.make(self, cls, arguments, keywords)

    def new_object(self, cls: type, arguments: Sequence[VariableTracker] = ()) -> VariableTracker:
        return object_creation.new_object(self, cls, arguments)

    def local_variables(self) -> VariableTracker:
        return frame_variables.local_variables(self.frames[-1])

    def module_name(self) -> str:
        return str(self.frames[-1].scope.get("__name__", "__main__"))

    def class_and_self(self) -> tuple[VariableTracker, VariableTracker]:
        return frame_variables.class_and_self(self.frames[-1])

    def handled_exception(self) -> VariableTracker | None:
        """The exception that the traced program, or its caller, is handling right now."""
        handled = realise(self, self.context_of_raise())
        return None if handled.is_constant() else handled

    def context_of_raise(self) -> VariableTracker:
        """The exception that is being handled; that of the caller is not realised, and may be None."""
        own = (frame.handled[-1] for frame in reversed(self.frames) if frame.handled)
        return next(own, self.handled_by_caller)

    # -- attributes ----------------------------------------------------------------------

    def module_attribute(self, module: ModuleType, name: str, source: Source | None) -> VariableTracker:
        return attributes.module_attribute(self, module, name, source)

    def class_attribute(self, owner: VariableTracker, cls: type, name: str) -> VariableTracker:
        return construction.class_attribute(self, owner, cls, name)

    def has_attribute(self, value: VariableTracker, name: str) -> bool:
        return attributes.has_attribute(self, value, name)

    # -- iteration -----------------------------------------------------------------------

    def iterate_by_index(self, owner: VariableTracker) -> VariableTracker:
        return self.call_python(polyfills.by_index, owner)

    def until_stop(self, iterator: VariableTracker, step: Callable[[], VariableTracker]) -> VariableTracker | None:
        return iteration.until_stop(self, iterator, step)

    def stop(self, iterator: VariableTracker) -> NoReturn:
        iteration.stop(self, iterator)

    def send(self, iterator: VariableTracker, value: VariableTracker) -> VariableTracker | None:
        """``iterator.send(value)``; None at its end."""
        return iteration.send(self, iterator, value)

    def returned_by(self, iterator: VariableTracker) -> VariableTracker:
        """Value that an exhausted generator returned."""
        return iteration.returned_by(self, iterator)

    # -- the graph -----------------------------------------------------------------------

    def apply(
        self, target: Any, arguments: Sequence[VariableTracker], keywords: Keywords | None = None
    ) -> VariableTracker:
        return graph_nodes.create_node(self, "call_function", target, arguments, keywords or {})

    def apply_method(
        self, name: str, arguments: Sequence[VariableTracker], keywords: Keywords | None = None
    ) -> VariableTracker:
        return graph_nodes.create_node(self, "call_method", name, arguments, keywords or {})

    def may_catch(self) -> bool:
        """True if the program may catch an exception that is raised here."""
        suppressed = any(map(active_contexts.may_suppress, self.generic_contexts))
        return suppressed or any(frame.may_catch() for frame in self.frames)

    def call_override(
        self, function: object, arguments: Sequence[VariableTracker], keywords: Keywords
    ) -> VariableTracker | None:
        return overrides.call_override(self, function, arguments, keywords)

    def result(self, node: torch.fx.Node) -> VariableTracker:
        return graph_nodes.result(self, node)

    def sizes(self, tensor: VariableTracker, property: str) -> VariableTracker:
        return graph_nodes.sizes(self, tensor, property)

    # -- operators and text --------------------------------------------------------------

    def binary(self, symbol: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
        return operations.binary(self, symbol, left, right)

    def equal(self, left: VariableTracker, right: VariableTracker) -> bool:
        return comparisons.equal(self, left, right)

    def equal_items(self, left: VariableTracker, right: VariableTracker) -> bool:
        return comparisons.equal_items(self, left, right)

    def format_value(self, value: VariableTracker, specification: VariableTracker) -> VariableTracker:
        return text.format_value(self, value, specification)

    def format_string(self, template: str, arguments: Sequence[VariableTracker], keywords: Keywords) -> VariableTracker:
        return text.format_string(self, template, arguments, keywords)

    def join_texts(self, separator: str | bytes, parts: Sequence[VariableTracker]) -> VariableTracker | None:
        return deferred.joined(separator, parts)


OURS = (rules.POLYFILLS, *rules.ANNOTATIONS)
"""Files whose frames are not part of the user's stack."""
