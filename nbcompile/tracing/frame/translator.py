"""The symbolic interpreter's loop: one frame, one instruction at a time.

A translator holds what CPython's frame holds (locals, cells, operand stack,
program counter), with trackers instead of values. Each instruction has one
handler (handlers/); an exception of the traced program goes to the handler that
the exception table names.

    LOAD_FAST x; LOAD_CONST 1; BINARY_OP +; RETURN_VALUE
    [x]          [x, 1]        [add]        -> add

In torch: torch/_dynamo/symbolic_convert.py (InstructionTranslatorBase). Read
next: nbcompile/tracing/frame/interpreter.py, which ends the graph.
"""

from __future__ import annotations

import builtins as builtins_module
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import TYPE_CHECKING, NoReturn

from nbcompile.bytecode.disassemble import disassemble
from nbcompile.bytecode.instruction import Instruction, Label, label_indices
from nbcompile.bytecode.superinstructions import expand_superinstructions
from nbcompile.capture.guard import GuardKind
from nbcompile.capture.source import AttrSource, BuiltinSource, GlobalSource, ItemSource, ModuleSource, Source
from nbcompile.record.model import Operand, StackLine
from nbcompile.support.process_state import STATE, Lifetime
from nbcompile.tracing import breaks, rules
from nbcompile.tracing.calls.attributes import is_module_scope
from nbcompile.tracing.exceptions import Unhashable
from nbcompile.tracing.frame import instruction_table
from nbcompile.tracing.variables.base import (
    LazyVariable,
    NullVariable,
    VariableTracker,
    realise,
    realise_unless_deferred,
)
from nbcompile.tracing.variables.cells import CellVariable
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.exceptions import ExceptionVariable, TracebackVariable, set_context
from nbcompile.tracing.variables.observed import ObservedException

if TYPE_CHECKING:
    from nbcompile.tracing.frame.protocol import FrameInterpreter
from nbcompile.tracing.frame.step_description import LONGEST_CLAUSE, described, stack_line


@dataclass(frozen=True, slots=True)
class CodeView:
    """The instructions of a code object, without superinstructions, and where its labels are."""

    instructions: list[Instruction]
    labels: dict[Label, int]


_views: weakref.WeakKeyDictionary[CodeType, CodeView] = STATE.add(
    "tracing.frame.translator._views", weakref.WeakKeyDictionary(), Lifetime.OWNER
)


def code_view(code: CodeType) -> CodeView:
    """View of a code object, disassembled once."""
    view = _views.get(code)
    if view is None:
        instructions = expand_superinstructions(disassemble(code))
        view = _views[code] = CodeView(instructions, label_indices(instructions))
    return view


@dataclass(frozen=True, slots=True)
class FrameResult:
    """A frame's end: what it returned, or yielded."""

    value: VariableTracker
    yielded: bool = False


@dataclass(slots=True, eq=False)
class ActiveContext:
    """A ``with`` block that tracing is inside of."""

    manager: VariableTracker
    depth: int
    """The position of its exit slot on the operand stack."""
    handler: Label | None
    """Start of the exception handler of the block."""


@dataclass(slots=True)
class Translator:
    """One frame of the traced program."""

    interpreter: FrameInterpreter
    code: CodeType
    scope: dict[str, object]
    locals: dict[str, VariableTracker]
    cells: dict[str, CellVariable]
    globals_base: Source | None = None
    """The function whose globals these are, where they are not the top frame's or a module's."""
    function: VariableTracker | None = None
    stack: list[VariableTracker] = field(default_factory=list)
    pushed_by: dict[int, Instruction] = field(default_factory=dict)
    """Instruction that pushed each stack slot."""
    pc: int = 0
    current: Instruction = field(default_factory=lambda: Instruction("NOP"))
    keyword_names: tuple[str, ...] = ()
    contexts: list[ActiveContext] = field(default_factory=list)
    handled: list[VariableTracker] = field(default_factory=list)
    """Exceptions that an ``except`` block is handling right now."""
    snapshot: VariableTracker | None = None
    """Result of ``locals()``."""
    callers: tuple[StackLine, ...] = ()
    """Source lines of the frames below this one, while it runs."""
    steps: int = 0
    """Number of instructions that it has run."""
    checkpoint: int | None = None
    """Number of instructions after which the frame could last be left to Python."""
    calling: VariableTracker | None = None
    """Callee of the call instruction that runs right now: the frame of just that function returns to it directly."""
    tested_symbol: bool = False  # by the last conditional jump: nothing before such an assertion is worth a graph
    returns_to_call: bool = False
    """True if what it returns is what its caller's call instruction pushes, and nothing happens in between."""
    view: CodeView = field(init=False)
    is_polyfill: bool = field(init=False)

    def __post_init__(self) -> None:
        self.view = code_view(self.code)
        self.is_polyfill = self.code.co_filename.startswith((rules.POLYFILLS, *rules.ANNOTATIONS))

    # -- the loop ------------------------------------------------------------------------

    def run(self) -> FrameResult:
        """Continue until the frame returns or yields; ObservedException if it raises."""
        while True:
            finished = self.step()
            if finished is not None:
                return finished

    def step(self) -> FrameResult | None:
        """Trace one instruction."""
        self.interpreter.before_step(self)
        self.steps += 1
        self.current = instruction = self.view.instructions[self.pc]
        self.interpreter.note_step(self)
        self.pc += 1
        handler = instruction_table.HANDLERS.get(instruction.opcode)
        if handler is None:
            raise self._annotated(
                # No handler, no guess: the graph ends before the instruction, and CPython runs it.
                breaks.unsupported(breaks.UNSUPPORTED_INSTRUCTION, instruction.opcode, name=instruction.opcode)
            )
        try:
            return handler(self, instruction)
        except ObservedException as error:
            if not error.has_context:
                error.has_context = True
                self._note_context(error.value)
            if not self.unwind_to_handler(error.value):
                raise
        except Unhashable as error:
            wrong = ExceptionVariable(TypeError, [ConstantVariable(str(error))])
            self._note_context(wrong)
            if not self.unwind_to_handler(wrong):
                raise ObservedException(wrong, has_context=True) from None
        except breaks.Unsupported as error:
            raise self._annotated(error) from None if error.__traceback__ is None else error
        return None

    def _annotated(self, error: breaks.Unsupported) -> breaks.Unsupported:
        """Error with the line of the user's code in which it happened, noted by the innermost frame."""
        # The error passes through ``step`` of every caller on its way out:
        # only the innermost frame, which is the first, notes where it is.
        if not error.stack:
            error.stack = self.interpreter.stack()
            error.callee = self.interpreter.callee()
            self.interpreter.broken = tuple(self.interpreter.frames)
            error.is_final |= self.interpreter.output.errors_on_break
        return error

    def _note_context(self, error: VariableTracker) -> None:
        """``__context__``: what was being handled, here or by a caller, when the exception was raised."""
        set_context(self.interpreter, error, self.interpreter.context_of_raise())

    def unwind_to_handler(self, error: VariableTracker) -> bool:
        """Continue at the handler that protects the current instruction, if one does."""
        protection = self.current.protection
        if protection is None:
            return False
        if isinstance(error, ExceptionVariable):
            error.traceback = error.traceback or TracebackVariable()
        # As CPython unwinds: the stack is cut to the depth in the
        # exception table, then the operands of the handler are pushed.
        #     [exit, a, b]   depth 1, lasti   ->   [exit, offset, error]
        # Blocks whose exit was in the removed part have been left.
        del self.stack[protection.depth :]
        while self.contexts and self.contexts[-1].depth >= protection.depth:
            self.contexts.pop()
        if protection.lasti:
            self.push(ConstantVariable(self.current.offset))
        self.push(error)
        self.pc = self.view.labels[protection.target]
        return True

    def may_catch(self) -> bool:
        """True if an ``except`` clause protects the current instruction; the handler of a ``with`` is none."""
        labels, protection = self.view.labels, self.current.protection
        passed: set[Label] = set()
        while protection is not None and protection.target not in passed:
            passed.add(protection.target)
            begin = labels[protection.target]
            if _is_except(self.view.instructions[begin : begin + LONGEST_CLAUSE]):
                return True
            protection = self.view.instructions[begin].protection
        return False

    def can_stop_here(self) -> bool:
        """True if the rest of the frame could run uncompiled from here on, and what came before is worth it."""
        if self.stack or self.contexts:
            return False
        following = self.view.instructions[self.pc]
        return (
            following.protection is None
            and following.opcode not in ("RESUME", "POP_TOP", "RETURN_VALUE")
            and self.interpreter.output.operators() > 1
        )

    def jump(self, target: Label | None) -> None:
        """Continue at a label."""
        assert target is not None
        self.pc = self.view.labels[target]

    # -- the operand stack ---------------------------------------------------------------

    # A value that is loaded is a LazyVariable until an instruction looks at it: what is only
    # stored, passed on or returned gets no guard. In torch: torch/_dynamo/variables/lazy.py.
    def push(self, value: VariableTracker) -> None:
        """Push a value onto the operand stack."""
        self.stack.append(value)
        # Rows above the top are out of date until the next push; operands() reads those below it.
        self.pushed_by[len(self.stack)] = self.current

    def pop(self) -> VariableTracker:
        """The top, looked at from now on."""
        return realise(self.interpreter, self.stack.pop())

    def pop_keeping_deferred(self) -> VariableTracker:
        """The top, to be stored in an object: a deferred value stays deferred."""
        return realise_unless_deferred(self.interpreter, self.stack.pop())

    def pop_pair(self) -> tuple[VariableTracker, VariableTracker]:
        """The two topmost, the lower one looked at first, as Python evaluates them."""
        right, left = self.stack.pop(), self.stack.pop()
        return realise(self.interpreter, left), realise(self.interpreter, right)

    def pop_raw(self) -> VariableTracker:
        """The top of the stack, not realised: an input that is only passed on stays unguarded."""
        return self.stack.pop()

    def pop_many(self, count: int) -> list[VariableTracker]:
        """The topmost values, in order, as they are."""
        if count == 0:
            return []
        values = self.stack[-count:]
        del self.stack[-count:]
        return values

    # -- names ---------------------------------------------------------------------------

    def load_local(self, name: str) -> VariableTracker:
        """A local; UnboundLocalError in the traced program if it has no value."""
        value = self.locals.get(name)
        if value is None:
            self.raise_unbound(name)
        return value

    def raise_unbound(self, name: str) -> NoReturn:
        """UnboundLocalError in the traced program."""
        text = f"cannot access local variable '{name}' where it is not associated with a value"
        self.interpreter.raise_exception(UnboundLocalError, text)

    def load_global(self, name: str) -> VariableTracker:
        """A global, or a builtin."""
        interpreter = self.interpreter
        # In the order of Python's look-up, on the state of the traced program: what it has stored (a change
        # without a value is a deletion, and uncovers the builtin), what is in the module, the builtins.
        change = interpreter.side_effects.load_global(self.scope, name)
        if change is not None and change.value is not None:
            return change.value
        if name in self.scope and change is None:
            return LazyVariable(self.scope[name], self.global_source(name))
        builtins = self.scope.get("__builtins__", interpreter.output.frame.builtins)
        members = builtins if isinstance(builtins, dict) else vars(builtins)
        if name in members:
            return interpreter.wrap(members[name], self._builtin_source(name, members))
        # An attribute that the traced code deleted is absent, whatever the module had before.
        known_here = change is not None or self._guard_absent(name, self.scope.get("__name__"))
        if not (known_here and members is vars(builtins_module) and self._guard_absent(name, "builtins")):
            raise breaks.unsupported(
                breaks.OBSERVED_EXCEPTION, f"name '{name}' is not defined", name="NameError", arguments=f"('{name}')"
            )
        self.raise_unknown_name(name, f"name '{name}' is not defined")

    def _guard_absent(self, name: str, module: object) -> bool:
        """Guard that a module has no such global; False if no address leads to its globals."""
        scope = vars(builtins_module) if module == "builtins" else self.scope
        if not (isinstance(module, str) and is_module_scope(module, scope)):
            return False
        members = AttrSource(ModuleSource(module), "__dict__")
        self.interpreter.guard(members, GuardKind.DICT_CONTAINS, (name, False))
        return True

    def raise_unknown_name(self, name: str, text: str) -> NoReturn:
        """Raise NameError in the traced program; its attribute ``name`` is the name."""
        error = ExceptionVariable(NameError, [ConstantVariable(text)])
        self.interpreter.side_effects.store_attribute(self.interpreter, error, "name", ConstantVariable(name))
        raise ObservedException(error)

    def _builtin_source(self, name: str, members: dict[str, object]) -> Source | None:
        """The address of a builtin: it is meant as long as the module has no global of that name."""
        frame = self.interpreter.output.frame
        if self.scope is not frame.globals:
            module = self.scope.get("__name__")
            if isinstance(module, str) and is_module_scope(module, self.scope):
                if rules.is_trusted_module(module):
                    return None
                scope: Source = AttrSource(ModuleSource(module), "__dict__")
            elif self.globals_base is not None:
                scope = AttrSource(self.globals_base, "__globals__")
            else:
                return None
            # A global of that name, added by a later call, would hide the builtin.
            self.interpreter.guard(scope, GuardKind.DICT_CONTAINS, (name, False))
        return BuiltinSource(name) if members is frame.builtins and name not in frame.globals else None

    def global_source(self, name: str) -> Source:
        """The address of a global of this frame's module."""
        # From the most to the least durable address: globals of the frame itself,
        # those of an imported module, those of a function that is reached from the
        # frame; else the value has no address, and the compiled code holds the object.
        if self.scope is self.interpreter.output.frame.globals:
            return GlobalSource(name)
        module = self.scope.get("__name__")
        if isinstance(module, str) and is_module_scope(module, self.scope):
            return AttrSource(ModuleSource(module), name)
        if self.globals_base is not None:
            return ItemSource(AttrSource(self.globals_base, "__globals__"), name)
        return self.interpreter.keep(self.scope[name], name)

    # -- for people ----------------------------------------------------------------------

    def stack_line(self) -> StackLine:
        """Line of the user's source at which this frame is; clean-up code has no line, and gets that of the code
        before it.
        """
        current = self.current
        if current.line is None and current in self.view.instructions:
            before = self.view.instructions[: self.view.instructions.index(current)]
            current = next((each for each in reversed(before) if each.line is not None), current)
        return stack_line(self.code, current)

    def operands(self) -> tuple[Operand, ...]:
        """Values on the operand stack with the source that pushed them, once for each piece of source."""
        found: dict[StackLine, Operand] = {}
        for height, value in enumerate(self.stack, 1):
            pushing = self.pushed_by[height]
            if pushing.line is not None and not isinstance(value, NullVariable):
                line = stack_line(self.code, pushing)
                found.setdefault(line, Operand(value.describe(), line))
        return tuple(found.values())

    def describe_step(self) -> tuple[str, ...]:
        """The operand stack, for the record."""
        return tuple(map(described, self.stack))

    def describe_locals(self) -> tuple[str, ...]:
        """The locals, for the record."""
        return tuple(f"{name} = {described(each)}" for name, each in self.locals.items())


def _is_except(handler: Sequence[Instruction]) -> bool:
    opcodes = [each.opcode for each in handler]
    if opcodes[:2] == ["PUSH_EXC_INFO", "POP_TOP"]:  # a bare ``except:``
        return True
    ends = opcodes.index("RERAISE") if "RERAISE" in opcodes else len(opcodes)
    return opcodes[:1] == ["PUSH_EXC_INFO"] and any(
        opcode in ("CHECK_EXC_MATCH", "CHECK_EG_MATCH") for opcode in opcodes[:ends]
    )
