"""Instructions that call, and those that create functions.

In torch: torch/_dynamo/symbolic_convert.py (CALL, CALL_FUNCTION_EX,
MAKE_FUNCTION). Read next: nbcompile/tracing/frame/inlining.py
"""

from __future__ import annotations

from dataclasses import dataclass
from types import CodeType

from nbcompile.bytecode.dialects import HERE
from nbcompile.bytecode.instruction import Instruction
from nbcompile.tracing import breaks
from nbcompile.tracing.frame.handlers.operators import expect_argument
from nbcompile.tracing.frame.instruction_table import handles
from nbcompile.tracing.frame.translator import Translator
from nbcompile.tracing.variables.base import NullVariable, VariableTracker, realise
from nbcompile.tracing.variables.cells import CellVariable
from nbcompile.tracing.variables.contexts import ExitVariable
from nbcompile.tracing.variables.functions import NestedFunctionVariable
from nbcompile.tracing.variables.mappings import DictVariable
from nbcompile.tracing.variables.sequences import TupleVariable


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A call on the operand stack, nothing popped yet."""

    function: VariableTracker
    arguments: list[VariableTracker]
    keywords: dict[str, VariableTracker]
    slots: int
    """Number of stack values that the call uses."""


def pending_call(frame: Translator, instruction: Instruction) -> PendingCall:
    """Read CALL or CALL_KW off the stack."""
    # Stack of a call of n arguments; with CALL_KW, a tuple of the keywords' names is above them.
    #     NULL-or-f, f-or-self, argument 1, ..., argument n [, names]
    stack = list(frame.stack)
    # The keyword arguments are the last ones. KW_NAMES (3.11 and 3.12) has left their names in the frame.
    names = frame.keyword_names
    slots = (instruction.arg or 0) + 2
    if instruction.opcode == "CALL_KW":
        names = tuple(stack.pop().constant())  # type: ignore[arg-type]
        slots += 1
    count = instruction.arg or 0
    values = stack[len(stack) - count :]
    first, second = stack[len(stack) - count - 2], stack[len(stack) - count - 1]
    # Before 3.13: NULL f, or method self. From 3.13 on: f NULL, or f self.
    if HERE.null_below_callable:
        function, own = (second, None) if isinstance(first, NullVariable) else (first, second)
    else:
        function, own = first, None if isinstance(second, NullVariable) else second
    positional = values[: count - len(names)]
    keywords = dict(zip(names, values[count - len(names) :], strict=True))
    return PendingCall(
        realise(frame.interpreter, function), positional if own is None else [own, *positional], keywords, slots
    )


def pending_call_ex(
    frame: Translator, instruction: Instruction
) -> tuple[VariableTracker, VariableTracker, VariableTracker | None, int]:
    """Read CALL_FUNCTION_EX off the stack: function, positional, keywords, slots used."""
    stack = [
        realise(frame.interpreter, value) if not isinstance(value, NullVariable) else value
        for value in frame.stack[-4:]
    ]
    keywords = stack.pop() if (instruction.arg or 0) & 1 else None
    positional = stack.pop()
    top = stack.pop()
    slots = 3 + (keywords is not None)
    if isinstance(top, NullVariable):  # 3.13: the NULL is above the callable
        return stack.pop(), positional, keywords, slots
    return top, positional, keywords, slots


@handles("CALL", "CALL_KW")
def _call(frame: Translator, instruction: Instruction) -> None:
    call = pending_call(frame, instruction)
    frame.keyword_names = ()  # names are for one call only
    del frame.stack[-call.slots :]
    # The end of a ``with`` block calls its exit slot like any function; here it also ends the active context.
    if isinstance(call.function, ExitVariable):
        frame.push(frame.interpreter.leave_context(frame, call.function, call.arguments))
        return
    frame.calling = call.function
    frame.push(frame.interpreter.call(call.function, call.arguments, call.keywords))


@handles("KW_NAMES")
def _keyword_names(frame: Translator, instruction: Instruction) -> None:
    value = instruction.argval if isinstance(instruction.argval, tuple) else frame.code.co_consts[instruction.arg or 0]
    frame.keyword_names = tuple(value)


@handles("CALL_FUNCTION_EX")
def _call_ex(frame: Translator, instruction: Instruction) -> None:
    # Unpacking ``*obj`` may run its ``__iter__``, which must not count as the callee of this instruction.
    frame.calling = None
    function, positional, keywords, slots = pending_call_ex(frame, instruction)
    del frame.stack[-slots:]
    # Arguments that are only passed on are not realised.
    expect_argument(frame, function, "*", positional)
    if keywords is not None:
        expect_argument(frame, function, "**", keywords)
    arguments = (
        positional.items
        if isinstance(positional, TupleVariable)
        else positional.unpack_keeping_deferred(frame.interpreter)
    )
    named: dict[str, VariableTracker] = {}
    # The dict that ``f(**kw)`` builds is new: its values are known. One from outside is read key by key, which guards
    # what is read.
    if isinstance(keywords, DictVariable) and keywords.source is None:
        named = {_keyword(frame, key): value for key, value in keywords.entries.values()}
    elif keywords is not None:
        mapping = (
            keywords
            if isinstance(keywords, DictVariable)
            else frame.interpreter.call(frame.interpreter.wrap(dict, None), [keywords])
        )
        named = {
            _keyword(frame, key): mapping.get_item(frame.interpreter, key) for key in mapping.unpack(frame.interpreter)
        }
    frame.calling = function
    frame.push(frame.interpreter.call(function, arguments, named))


def _keyword(frame: Translator, key: VariableTracker) -> str:
    if not issubclass(key.python_type(), str):
        frame.interpreter.raise_exception(TypeError, "keywords must be strings")
    if not key.is_constant():  # of a subclass: the very object is a key of the callee's ``**kwargs``
        raise breaks.unsupported(breaks.UNSUPPORTED_CALL, f"keyword {key.describe()}", name="str subclass as a keyword")
    return str(key.constant())


@handles("MAKE_FUNCTION")
def _make_function(frame: Translator, instruction: Instruction) -> None:
    code = frame.pop().constant()
    assert isinstance(code, CodeType)
    # Bits of the argument say which parts are on the stack, the topmost first: 8 closure, 4 annotations, 2 keyword
    # defaults, 1 defaults. From 3.13 on, SET_FUNCTION_ATTRIBUTE adds each part instead.
    flags = instruction.arg or 0
    cells = frame.pop().unpack(frame.interpreter) if flags & 8 else []
    annotations = frame.pop() if flags & 4 else None
    keyword_defaults = frame.pop() if flags & 2 else None
    defaults = frame.pop().unpack(frame.interpreter) if flags & 1 else []
    named = {}
    if isinstance(keyword_defaults, DictVariable):
        named = {
            str(key.constant()): keyword_defaults.get_item(frame.interpreter, key)
            for key in keyword_defaults.unpack(frame.interpreter)
        }
    frame.push(NestedFunctionVariable(code, frame.scope, defaults, named, _cells(cells), annotations))


def _cells(values: list[VariableTracker]) -> list[CellVariable]:
    assert all(isinstance(each, CellVariable) for each in values)
    return values  # type: ignore[return-value]


@handles("SET_FUNCTION_ATTRIBUTE")
def _set_function_attribute(frame: Translator, instruction: Instruction) -> None:
    function = frame.pop()
    value = frame.pop()
    assert isinstance(function, NestedFunctionVariable)
    match instruction.arg:
        case 1:
            function.defaults = value.unpack(frame.interpreter)
        case 2:
            assert isinstance(value, DictVariable)
            function.named_defaults = {
                str(key.constant()): value.get_item(frame.interpreter, key) for key in value.unpack(frame.interpreter)
            }
        case 4:
            function.annotations = value
        case 8:
            function.cells = _cells(value.unpack(frame.interpreter))
    frame.push(function)
