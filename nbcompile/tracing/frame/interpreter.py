"""The interpreter of one trace: what all its frames share.

It implements the methods that trackers may call (protocol.py): wrap a value,
call something, create a node, raise in the traced program. The stack of frames
that it runs is the user's stack.

In torch: torch/_dynamo/symbolic_convert.py and output_graph.py. Read next:
nbcompile/tracing/tracer.py, which runs the top frame and ends the graph.
"""

from __future__ import annotations

import contextlib
import dataclasses
import linecache
import operator
import sys
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, NoReturn

import torch
import torch.fx

from nbcompile import config, torch_internals
from nbcompile.bytecode.instruction import Instruction
from nbcompile.capture import arrays
from nbcompile.capture.frame import Frame
from nbcompile.capture.guard import Guard, GuardKind, are_distinct
from nbcompile.capture.resolution import keys_of, resolve
from nbcompile.capture.source import (
    AttrSource,
    ConstantSource,
    KeySource,
    ModuleSource,
    NoArgsCallSource,
    Source,
    expression,
)
from nbcompile.capture.trace import Assumptions
from nbcompile.errors import TorchRuntimeError
from nbcompile.options import Options
from nbcompile.record.model import StackLine, Step
from nbcompile.torch_internals import operators as torch_operators
from nbcompile.tracing import breaks, rules
from nbcompile.tracing.calls import comparisons, construction, object_creation, operations, overrides, text
from nbcompile.tracing.effects.side_effects import SideEffects
from nbcompile.tracing.frame import callees
from nbcompile.tracing.frame.handlers import calls, control, loads, operators  # noqa: F401  (fills the table of instructions)
from nbcompile.tracing.frame.inlining import GeneratorVariable, inline
from nbcompile.tracing.frame.step_description import describe_argument
from nbcompile.tracing.frame.translator import FrameResult, Translator
from nbcompile.tracing.graph.output_graph import OutputGraph
from nbcompile.tracing.graph.override_state import OverrideState
from nbcompile.tracing.inputs.dynamism import Dynamism
from nbcompile.tracing.inputs.graph_inputs import EXAMPLE
from nbcompile.tracing.polyfills import builtins as polyfills
from nbcompile.tracing.variables import strings
from nbcompile.tracing.variables.base import LazyVariable, VariableTracker, realise
from nbcompile.tracing.variables.classes import ClassVariable
from nbcompile.tracing.variables.constant import ConstantVariable, is_constant_value
from nbcompile.tracing.variables.contexts import ExitVariable
from nbcompile.tracing.variables.exceptions import ExceptionVariable
from nbcompile.tracing.variables.functions import BaseFunctionVariable, FunctionVariable, MethodVariable
from nbcompile.tracing.variables.iterators import IteratorVariable, SequenceIteratorVariable, TextIteratorVariable
from nbcompile.tracing.variables.mappings import DictVariable
from nbcompile.tracing.variables.ndarray import has_array
from nbcompile.tracing.variables.objects import ObjectVariable
from nbcompile.tracing.variables.observed import ObservedException
from nbcompile.tracing.variables.sequences import ListVariable, SequenceVariable, TupleVariable
from nbcompile.tracing.variables.sets import set_of_value
from nbcompile.tracing.variables.slices import SliceVariable, index_of
from nbcompile.tracing.variables.symbolic import SymbolicVariable
from nbcompile.tracing.variables.tensor import TensorVariable
from nbcompile.tracing.variables.wrappers import WrapperVariable
from nbcompile.tracing.wrapping.data import constant_guard_kind
from nbcompile.tracing.wrapping.kinds import has_own_hash
from nbcompile.tracing.wrapping.table import wrap

Keywords = Mapping[str, VariableTracker]
HANDLED = NoArgsCallSource(AttrSource(ModuleSource("sys"), "exception"))
"""Exception that a caller of the frame is handling; guards and the compiled code ask for it at each call."""
LAST_STEPS = 20
"""Number of instructions before a break that ``config.verbose`` prints."""


MOST_STEPS = 5000
"""Limits of the record of steps: a longer one does not help the reader."""


def _guard_text(guard: Guard) -> str:
    return f"{guard.kind.value} {expression(guard.source) if guard.source is not None else ''}".strip()


def _node_text(node: torch.fx.Node) -> str:
    if node.op == "placeholder":
        return f"{node.name}: an input"
    target = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", str(node.target))
    return f"{node.name} = {target}({', '.join(map(str, node.args))})"


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
        self.steps: list[Step] | None = [] if recording or config.verbose else None
        self._recorded: set[object] = set()
        """Guards and nodes that a step is known to have added."""
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
        """Asked before each instruction: whether the graph ends here."""
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
        if not self.frames:
            return ()
        top = self.frames[-1]
        return top.callers if top.is_polyfill else (*top.callers, top.stack_line())

    def callee(self) -> str:
        """Source text of the function that the current line of the innermost frame calls; "" if it has no call."""
        frame = next((each for each in reversed(self.frames) if not each.is_polyfill), None)
        return callees.callee(frame.code, frame.view.instructions, frame.current) if frame is not None else ""

    def names(self) -> dict[torch.fx.Node, str]:
        """Names of tensors in the user's functions, the outermost function's name first."""
        names: dict[torch.fx.Node, str] = {}
        for frame in self.frames:
            for name, value in frame.locals.items():
                # A lazy tracker is not realised here: describing a failure must not add guards.
                node = getattr(getattr(value, "realised", value), "node", None)
                if isinstance(node, torch.fx.Node) and not frame.is_polyfill:
                    names.setdefault(node, name)  # the first name wins: the outermost frame's
        return names

    def note_step(self, frame: Translator) -> None:
        """Record that one instruction is about to be traced."""
        if self.steps is None or len(self.steps) >= MOST_STEPS:
            return
        self.note_effects()
        instruction, line = frame.current, frame.current.line or 0
        stack, values = frame.describe_step(), frame.describe_locals()
        text = linecache.getline(frame.code.co_filename, line).strip()
        depth = len(self.frames) - 1
        self.steps.append(
            Step(
                frame.code.co_name,
                depth,
                instruction.offset,
                instruction.opcode,
                describe_argument(instruction),
                line,
                stack,
                text,
                values,
            )
        )

    def note_effects(self) -> None:
        """Record the guards and the nodes that the step before added."""
        if not self.steps:
            return
        # A difference of sets, since nodes may also be erased, and inputs are inserted before nodes
        # that are already there.
        guards = [each for key, each in self.output.guards.items() if key not in self._recorded]
        nodes = [each for each in self.output.graph.nodes if each.name not in self._recorded and each.op != "output"]
        self._recorded |= {*(key for key in self.output.guards), *(each.name for each in nodes)}
        if guards or nodes:
            self.steps[-1] = dataclasses.replace(
                self.steps[-1], guards=tuple(map(_guard_text, guards)), nodes=tuple(map(_node_text, nodes))
            )

    def last_steps(self) -> tuple[str, ...]:
        """The last instructions, shown if config.verbose is set."""
        if self.steps is None or not config.verbose:
            return ()
        return tuple(
            f"{step.function}:{step.line}  {step.opcode} {step.argument} [{', '.join(step.stack)}]"
            for step in self.steps[-LAST_STEPS:]
        )

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
        assert isinstance(exit_function, ExitVariable)
        left = exit_function.context
        try:
            result = exit_function.call(self, arguments, {})
        except breaks.Unsupported:
            raise  # the block is not left: nothing can resume in the middle of it
        except ObservedException:
            self._forget_context(frame, left)
            raise
        self._forget_context(frame, left)
        return result

    def _forget_context(self, frame: Translator, left: VariableTracker) -> None:
        frame.contexts = [each for each in frame.contexts if each.manager is not left]
        self.generic_contexts = [each for each in self.generic_contexts if each is not left]

    # -- values --------------------------------------------------------------------------

    def wrap(self, value: object, source: Source | None) -> VariableTracker:
        return wrap(self, value, source)

    def constant_or_wrap(self, value: object) -> VariableTracker:
        match value:
            case tuple() if not is_constant_value(value) or type(value) in (tuple, torch.Size):
                return TupleVariable([self.constant_or_wrap(each) for each in value], cls=type(value))
            case list():
                return ListVariable([self.constant_or_wrap(each) for each in value])
            case dict() if type(value) is dict:
                return DictVariable(
                    self, [(self.constant_or_wrap(key), self.constant_or_wrap(each)) for key, each in value.items()]
                )
            case frozenset() | set():
                return set_of_value(self, [self.constant_or_wrap(each) for each in value], value)
            case slice():
                return SliceVariable([self.constant_or_wrap(part) for part in (value.start, value.stop, value.step)])
            case types.CodeType():
                return ConstantVariable(value)
        return ConstantVariable(value) if is_constant_value(value) else self.wrap(value, None)

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

    def assume_answer(
        self, function: object, arguments: Sequence[object], keywords: Mapping[str, object], answer: object
    ) -> None:
        self.assumed.answers.append((function, tuple(arguments), dict(keywords), repr(answer)))

    def note_initialiser(self, function: types.FunctionType, owner: Source, group: Source, lists: int) -> None:
        self.assumed.initialisers.append((function, owner, group, lists))

    def note_launch(self, kernel: int, constants: int, source: Source, values: dict[str, object]) -> None:
        self.assumed.kernels[kernel], self.assumed.launch_constants[constants] = source, values

    def depend_on_process(self, what: str) -> None:
        self.assumed.obstacle = self.assumed.obstacle or what

    def guard_keys(self, mapping: VariableTracker) -> None:
        assert isinstance(mapping, DictVariable) and mapping.source is not None
        keys = tuple(keys_of(self.real_value(mapping.source)))
        # One guard on all keys would look them up in the dict, and so run the ``__hash__`` of the user's class.
        if not any(map(has_own_hash, keys)):
            self.guard(mapping.source, GuardKind.DICT_KEYS, keys)
            return
        self.guard(mapping.source, GuardKind.DICT_LENGTH, len(keys))
        for index, key in enumerate(keys):  # one guard for each key, or for what is read of it
            if not has_own_hash(key):
                kind = GuardKind.EQUALS_MATCH if is_constant_value(key) else GuardKind.ID_MATCH
                self.guard(KeySource(mapping.source, index), kind, key)

    def guard_order(self, source: Source, derived: bool) -> None:
        if derived:  # a larger table gives new items other slots
            size = NoArgsCallSource(AttrSource(source, "__sizeof__"))
            self.guard(size, GuardKind.EQUALS_MATCH, self.real_value(size))
        # Equal sets may have different orders: {0, 8} and {8, 0}.
        items = keys_of(self.real_value(source))
        if are_distinct(items):  # one guard on the order, which also checks the items
            self.output.guards.pop(Guard(source, GuardKind.SET_MEMBERS, frozenset(items)).key(), None)
            self.guard(source, GuardKind.SET_ORDER, tuple(items))
            return
        for index, item in enumerate(items):
            kind = constant_guard_kind(item) if is_constant_value(item) else GuardKind.ID_MATCH
            self.guard(KeySource(source, index), kind, item)

    def iterator(self, items: Sequence[VariableTracker], text: str | bytes | None = None) -> VariableTracker:
        whole = TupleVariable(items)
        return SequenceIteratorVariable(whole) if text is None else TextIteratorVariable(whole, text)

    def list_of(self, items: Sequence[VariableTracker]) -> VariableTracker:
        return ListVariable(items)

    def tuple_of(self, items: Sequence[VariableTracker]) -> VariableTracker:
        """A new tuple."""
        return TupleVariable(items)

    def bound(self, function: VariableTracker, owner: VariableTracker) -> VariableTracker:
        """A function bound to its first argument."""
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
        # Python looks special methods up on the class, never on the instance: ``x.__len__ = f``
        # does not change ``len(x)``.
        if isinstance(owner, ObjectVariable):
            return owner._special(self, name, arguments, {})
        if isinstance(owner, TupleVariable):
            return self.call(self.bind(owner, owner.cls, name), arguments)
        return owner.call_method(self, name, arguments, {})

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
        frame = self.frames[-1]
        found = {**frame.locals, **{name: cell.content for name, cell in frame.cells.items()}}
        # Up to 3.12 all calls of ``locals()`` in a function return the same dict, which each call updates. From 3.13 on
        # (PEP 667) each call returns a new one.
        if frame.snapshot is None or sys.version_info >= (3, 13):  # earlier versions have one dict per frame
            frame.snapshot = DictVariable(self, [])
        for name in (*frame.code.co_varnames, *frame.code.co_cellvars, *frame.code.co_freevars):
            value = found.get(name)
            if value is not None:
                frame.snapshot.set_item(self, ConstantVariable(name), value)
            else:
                frame.snapshot.call_method(self, "pop", [ConstantVariable(name), ConstantVariable(None)], {})
        return frame.snapshot

    def module_name(self) -> str:
        """Name of the module of the code that is traced."""
        return str(self.frames[-1].scope.get("__name__", "__main__"))

    def class_and_self(self) -> tuple[VariableTracker, VariableTracker]:
        """Class and object that ``super()`` without arguments uses in the current frame."""
        frame = self.frames[-1]
        # Python's compiler gives a method that mentions ``super`` the free variable ``__class__``. The object is the
        # first parameter, which is in a cell instead of a local if an inner function uses it.
        if not frame.code.co_argcount:
            self.raise_exception(RuntimeError, "super(): no arguments")
        first = frame.code.co_varnames[0]
        owner = frame.cells[first].content if first in frame.cells else frame.locals.get(first)
        if owner is None:
            self.raise_exception(RuntimeError, "super(): arg[0] deleted")
        cell = frame.cells.get("__class__")
        if cell is None or cell.content is None:
            which = "__class__ cell not found" if cell is None else "empty __class__ cell"
            self.raise_exception(RuntimeError, f"super(): {which}")
        return realise(self, cell.content), realise(self, owner)

    def handled_exception(self) -> VariableTracker | None:
        """The exception that the traced program, or its caller, is handling right now."""
        handled = realise(self, self.context_of_raise())
        return None if handled.is_constant() else handled

    def context_of_raise(self) -> VariableTracker:
        """The exception that is being handled; that of the caller is not looked at, and may be None."""
        own = (frame.handled[-1] for frame in reversed(self.frames) if frame.handled)
        return next(own, self.handled_by_caller)

    # -- attributes ----------------------------------------------------------------------

    def module_attribute(self, module: ModuleType, name: str, source: Source | None) -> VariableTracker:
        # What the traced code stored comes first: the real module is not changed before the graph has run.
        stored = self.side_effects.load_global(getattr(module, "__dict__", {}), name)
        if stored is not None and stored.value is not None:
            return stored.value
        if stored is not None:
            self.raise_exception(AttributeError, f"module '{module.__name__}' has no attribute '{name}'")
        base = source if source is not None else self.module_source(module)
        # The program may depend on the AttributeError (``except AttributeError``, ``hasattr``), so it is guarded.
        if base is not None and not hasattr(module, name):
            self.guard(base, GuardKind.HASATTR, (name, False))
        value = self.evaluate(getattr, (module, name))
        return self.wrap(value, None if base is None else AttrSource(base, name))

    def module_source(self, module: ModuleType) -> Source | None:
        """The source of a module, by the module's name."""
        return ModuleSource(module.__name__) if sys.modules.get(module.__name__) is module else None

    def is_module_scope(self, name: str, scope: dict[str, object]) -> bool:
        """True if the dict contains the globals of an imported module."""
        module = sys.modules.get(name)
        return module is not None and module.__dict__ is scope

    def class_attribute(self, owner: VariableTracker, cls: type, name: str) -> VariableTracker:
        return construction.class_attribute(self, owner, cls, name)

    def has_attribute(self, value: VariableTracker, name: str) -> bool:
        try:
            realise(self, value.get_attribute(self, name))
        # ``hasattr`` catches only AttributeError; it propagates other exceptions of a property.
        except ObservedException as error:
            if issubclass(error.value.python_type(), AttributeError):
                return False
            raise
        return True

    # -- iteration -----------------------------------------------------------------------

    def iterate_by_index(self, owner: VariableTracker) -> VariableTracker:
        return self.call_python(polyfills.by_index, owner)

    def until_stop(self, iterator: VariableTracker, step: Callable[[], VariableTracker]) -> VariableTracker | None:
        try:
            return realise(self, step())
        except ObservedException as error:
            if issubclass(error.value.python_type(), StopIteration):
                iterator.ending = error.value.get_attribute(self, "value")
                return None
            raise

    def stop(self, iterator: VariableTracker) -> NoReturn:
        value = self.returned_by(iterator)
        # ``return`` without a value raises ``StopIteration()``, whose ``args`` are empty, not ``StopIteration(None)``.
        nothing = value.is_constant() and value.constant() is None
        raise ObservedException(ExceptionVariable(StopIteration, [] if nothing else [value]))

    def send(self, iterator: VariableTracker, value: VariableTracker) -> VariableTracker | None:
        """``iterator.send(value)``; None at its end."""
        if isinstance(iterator, GeneratorVariable):
            return iterator.send(value)
        # ``yield from`` calls ``next`` to send None, since most iterators have no method ``send`` (PEP 380).
        if value.is_constant() and value.constant() is None:
            return iterator.next_item(self)
        return self.until_stop(iterator, lambda: iterator.call_method(self, "send", [value], {}))

    def returned_by(self, iterator: VariableTracker) -> VariableTracker:
        """Value that an exhausted generator returned."""
        return ConstantVariable(None) if iterator.ending is None else realise(self, iterator.ending)

    # -- the graph -----------------------------------------------------------------------

    def apply(
        self, target: Any, arguments: Sequence[VariableTracker], keywords: Keywords | None = None
    ) -> VariableTracker:
        return self._node("call_function", target, arguments, keywords or {})

    def apply_method(
        self, name: str, arguments: Sequence[VariableTracker], keywords: Keywords | None = None
    ) -> VariableTracker:
        return self._node("call_method", name, arguments, keywords or {})

    def _node(self, op: str, target: Any, arguments: Sequence[VariableTracker], keywords: Keywords) -> VariableTracker:
        # The steps: call overrides, refuse arrays, realise the arguments, run the operator on fake tensors, wrap its
        # result. If a ``__torch_function__`` of an argument or mode replaces the operator, no node is created.
        answer = overrides.ask_about_node(self, op, target, arguments, keywords)
        if answer is not None:
            return answer
        self._refuse_arrays(target, (*arguments, *keywords.values()))
        plain = [self._deep(each).proxy() for each in arguments]
        named = {name: self._deep(each).proxy() for name, each in keywords.items()}
        warned = len(self.output.warnings)
        try:
            node = self.output.apply(op, target, plain, named)
        except IndexError as error:  # an index or a dimension out of range
            self.raise_exception(IndexError, *error.args)  # as in eager mode, the program may catch it
        except ZeroDivisionError as error:  # of symbolic numbers: a guard says that the divisor is zero
            realise(self, arguments[-1]).truth(self)
            self.raise_exception(ZeroDivisionError, *_words_of_division(target, arguments, error))
        except TorchRuntimeError as error:  # the program may catch the operator's own error, which has another text
            if self._may_catch():
                name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
                inner = error.inner_exception
                raise breaks.unsupported(breaks.FAKE_NOT_IMPLEMENTED, str(inner), name=name, error=inner) from None
            raise
        # The operator ran under the real filters of the module ``warnings``. Filters that the traced code sets are not
        # installed yet, so it is unknown whether this warning is shown, ignored or raised.
        if len(self.output.warnings) > warned and self.side_effects.stored_globals(vars(warnings)):
            name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
            what = f"{name}, which warns, under filters that the traced code set"
            raise breaks.unsupported(breaks.UNSUPPORTED_CALL, what, name=what)
        self.output.is_caught = self.output.is_caught or self._may_catch()
        result = self.result(node)
        # ``torch.add(x, y, out=z)`` returns z itself: the result has z's tracker, so that ``is`` and later changes of z
        # concern one tensor.
        out = keywords.get("out")
        return realise(self, out) if out is not None and isinstance(realise(self, out), TensorVariable) else result

    def _may_catch(self) -> bool:
        """True if the program may catch an exception that is raised here."""
        return any(map(_may_suppress, self.generic_contexts)) or any(frame.may_catch() for frame in self.frames)

    def ask(self, function: object, arguments: Sequence[VariableTracker], keywords: Keywords) -> VariableTracker | None:
        return overrides.ask(self, function, arguments, keywords)

    def _refuse_arrays(self, target: Any, arguments: Sequence[VariableTracker]) -> None:
        if not isinstance(target, TAKE_ARRAYS) and target not in MAKE_TENSORS and has_array(arguments):
            name = getattr(target, "__name__", str(target))
            if getattr(target, "__module__", "") != "_operator" and target is not arrays.array_attribute:
                raise breaks.unsupported(breaks.NDARRAY_IN_TORCH, name, name=name)

    def _deep(self, tracker: VariableTracker) -> VariableTracker:
        tracker = realise(self, tracker)
        # A node refers to the elements of a list argument, not to the list. Lazy elements are realised (and guarded)
        # first.
        match tracker:
            case SequenceVariable():
                for item in tracker.unpack(self):
                    self._deep(item)
            case DictVariable():
                for value in tracker.values(self):
                    self._deep(value)
        return tracker

    def result(self, node: torch.fx.Node) -> VariableTracker:
        """The tracker of what a node computes; a constant needs no node."""
        example = node.meta[EXAMPLE]
        match example:
            case torch.Tensor():
                if example.is_sparse or example.layout in rules.SPARSE_COMPRESSED:
                    self.output.erase(node)
                    raise breaks.unsupported(breaks.SPARSE_RESULT, str(node.target), name=node.target)
                if torch_internals.is_wrapper(example):
                    return WrapperVariable(node, cls=type(example))
                is_parameter = isinstance(example, torch.nn.Parameter)
                return TensorVariable(node, cls=torch.nn.Parameter if is_parameter else torch.Tensor)
            case torch.SymInt() | torch.SymFloat() | torch.SymBool():
                return self._symbolic(node, example)
            case None:
                return ConstantVariable(None)
            case tuple() | list():
                return self._items(node, example)
        # A plain value (``x.dim()``) is known while tracing and guarded through its inputs: no user would need the
        # node.
        if node.target not in ANSWERS and node.target not in torch_operators.transform_steps():
            self.output.erase(node)
        return self.constant_or_wrap(example)

    def _symbolic(self, node: torch.fx.Node, example: torch.SymInt | torch.SymFloat | torch.SymBool) -> VariableTracker:
        expr = example.node.expr
        # SymPy removed all symbols, as in ``s0 - s0``: the number is the same in each run.
        if not expr.free_symbols:
            kind: Any = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}[type(example)]
            self.output.erase(node)
            # SymPy gives infinity for some powers; the real value is finite.
            return ConstantVariable(kind(example.node.hint if example.node.has_hint() else example))
        # Python's ints are unbounded, those of a graph are int64. An int that may overflow becomes a constant.
        if isinstance(example, torch.SymInt) and not self.output.inputs.keep_in_range(example):
            self.output.erase(node)
            return ConstantVariable(example.node.hint)
        return SymbolicVariable(node)

    def _items(self, node: torch.fx.Node, example: Sequence[object]) -> VariableTracker:
        if all(is_constant_value(each) for each in example):
            if node.target not in ANSWERS:
                self.output.erase(node)
            return self.constant_or_wrap(example)
        items: list[VariableTracker] = []
        for index, item in enumerate(example):
            # Uses of this item then depend on no node: only the items that vary are read from the result.
            if is_constant_value(item):
                items.append(ConstantVariable(item))
            else:
                items.append(self.result(self.output.apply("call_function", operator.getitem, (node, index), {})))
        return ListVariable(items) if isinstance(example, list) else TupleVariable(items, cls=type(example))

    def sizes(self, tensor: VariableTracker, property: str) -> VariableTracker:
        assert isinstance(tensor, TensorVariable)
        values = tensor.example.shape if property == "size" else tensor.example.stride()
        cls = torch.Size if property == "size" else tuple
        # Static sizes are constants without a node; only a dynamic size is read from the call's result.
        if all(isinstance(each, int) for each in values):
            return TupleVariable([ConstantVariable(each) for each in values], cls=cls)
        node = self.output.apply("call_method", property, (tensor.node,), {})
        items = [
            ConstantVariable(value)
            if isinstance(value, int)
            else self.result(self.output.apply("call_function", operator.getitem, (node, index), {}))
            for index, value in enumerate(values)
        ]
        return TupleVariable(items, cls=cls)

    def rewrite_assert(self, frame: Translator, jump: Instruction, condition: VariableTracker) -> bool:
        """Trace ``assert tensor`` (or a symbol) as an operator, not a branch; return False for any other jump."""
        # The instructions of ``assert x, "text"``; ``frame.pc`` is already after the jump.
        #     POP_JUMP_IF_TRUE     to the code after the assertion
        #     LOAD_ASSERTION_ERROR
        #     LOAD_CONST, CALL 0   with a message only
        #     RAISE_VARARGS
        following = frame.view.instructions[frame.pc : frame.pc + 3]
        if (
            not config.rewrite_assert_with_torch_assert
            or not following
            or following[0].opcode != "LOAD_ASSERTION_ERROR"
        ):
            return False
        if isinstance(condition, SymbolicVariable):
            # A condition on symbols needs no operator: it becomes a guard, or an assertion at run time if it has an
            # unbacked symbol.
            holds = torch_internals.promise(condition.example)
            if holds:
                frame.pop_raw()
                frame.jump(jump.target)
            return holds
        message = "assertion error"
        if following[1].opcode != "RAISE_VARARGS":
            if following[2].opcode not in ("PRECALL", "CALL") or not isinstance(following[1].argval, str):
                return False  # a message that is computed
            message = following[1].argval
        # The operator fails when the graph runs, and tracing continues as if the assertion held. A jump on the tensor's
        # truth would break the graph.
        self.apply(torch._assert_async, [condition, ConstantVariable(message)])
        frame.pop_raw()
        frame.jump(jump.target)
        return True

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

    def convert_for_format(self, value: VariableTracker, conversion: str) -> VariableTracker:
        """``!s``, ``!r`` or ``!a`` of an f-string."""
        return text.convert(self, value, conversion)

    def join_strings(self, parts: Sequence[VariableTracker]) -> VariableTracker:
        """The string that joins the parts of an f-string."""
        return strings.join(parts)


OURS = (rules.POLYFILLS, *rules.ANNOTATIONS)
"""Files whose frames are not part of the user's stack."""
TAKE_ARRAYS = (arrays.ArrayFunction, arrays.ArrayMethod)
MAKE_TENSORS = (torch.as_tensor, torch.tensor, torch.asarray)
ANSWERS = frozenset((getattr, operator.eq, operator.ne, torch.broadcast_shapes))
"""Nodes that stay in the graph, as in torch, although their result is known: ``x.is_leaf``, ``x == None``."""


def _words_of_division(
    target: Any, arguments: Sequence[VariableTracker], error: ZeroDivisionError
) -> tuple[object, ...]:
    """Arguments of Python's ZeroDivisionError for numbers of these classes: symbols raise another text."""
    kinds = [each.python_type() for each in arguments]
    if len(kinds) == 2 and all(each in (bool, int, float) for each in kinds):
        try:  # the numbers 1 and 0 of the same Python classes give the interpreter's own text
            target(kinds[0](1), kinds[1](0))
        except ZeroDivisionError as own:
            return own.args
    return error.args


def _may_suppress(manager: VariableTracker) -> bool:
    """True if a context may suppress an exception: torch's own contexts and most generator contexts do not."""
    cls = manager.python_type()
    return cls is contextlib.suppress or cls.__module__.partition(".")[0] not in ("torch", "contextlib")
