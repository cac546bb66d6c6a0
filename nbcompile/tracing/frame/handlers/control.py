"""Instructions that decide what runs next: jumps, loops, returns, exceptions, ``with``.

In torch: torch/_dynamo/symbolic_convert.py (generic_jump, FOR_ITER,
PUSH_EXC_INFO, BEFORE_WITH...). Read next: calls.py
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Mapping, Sequence
from typing import Any

from nbcompile.bytecode.dialects import HERE, INTRINSICS
from nbcompile.bytecode.instruction import Instruction
from nbcompile.support.class_flags import HEAP_TYPE
from nbcompile.tracing import breaks
from nbcompile.tracing.calls.comparisons import missing_gradient
from nbcompile.tracing.frame.assertions import rewrite_assert
from nbcompile.tracing.frame.instruction_table import HANDLERS, handles
from nbcompile.tracing.frame.translator import ActiveContext, FrameResult, Translator
from nbcompile.tracing.polyfills.classes import match_class
from nbcompile.tracing.variables.base import VariableTracker, realise
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.contexts import ContextVariable, ExitVariable
from nbcompile.tracing.variables.exceptions import ExceptionVariable, GivenExceptionVariable, exception_to_raise
from nbcompile.tracing.variables.objects import ObjectVariable
from nbcompile.tracing.variables.observed import ObservedException
from nbcompile.tracing.variables.symbolic import SymbolicVariable
from nbcompile.tracing.variables.tensor import TensorVariable

C_METHODS = (types.MethodDescriptorType, types.WrapperDescriptorType, types.BuiltinFunctionType)

# -- jumps -----------------------------------------------------------------------------------


@handles("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_ABSOLUTE")
def _jump(frame: Translator, instruction: Instruction) -> None:
    frame.jump(instruction.target)


def _truth_jump(*opcodes: str, expected: bool, keep: bool = False) -> None:
    @handles(*opcodes)
    def jump(frame: Translator, instruction: Instruction) -> None:
        value = realise(frame.interpreter, frame.stack[-1])
        # Only the run knows the truth of a tensor. ``assert x`` jumps over its raise if x is true: an assertion in the
        # graph is better than a break.
        known_later = isinstance(value, (TensorVariable, SymbolicVariable))
        if expected and known_later and rewrite_assert(frame, instruction, value):
            return
        frame.tested_symbol = isinstance(value, SymbolicVariable)
        taken = value.truth(frame.interpreter) is expected
        # ``a or b`` (JUMP_IF_TRUE_OR_POP) leaves the tested value on the stack where it jumps: it is the result.
        if not (taken and keep):
            frame.pop_raw()
        if taken:
            frame.jump(instruction.target)


def _none_jump(*opcodes: str, expected: bool) -> None:
    @handles(*opcodes)
    def jump(frame: Translator, instruction: Instruction) -> None:
        value = frame.pop()
        # In a ``backward`` without materialized gradients, only the run knows which of several gradients is None.
        if isinstance(value, TensorVariable) and value.may_be_missing:
            raise missing_gradient()
        is_none = value.is_constant() and value.constant() is None
        if is_none is expected:
            frame.jump(instruction.target)


_truth_jump("POP_JUMP_IF_TRUE", "POP_JUMP_FORWARD_IF_TRUE", "POP_JUMP_BACKWARD_IF_TRUE", expected=True)
_truth_jump("POP_JUMP_IF_FALSE", "POP_JUMP_FORWARD_IF_FALSE", "POP_JUMP_BACKWARD_IF_FALSE", expected=False)
_truth_jump("JUMP_IF_TRUE_OR_POP", expected=True, keep=True)
_truth_jump("JUMP_IF_FALSE_OR_POP", expected=False, keep=True)
_none_jump("POP_JUMP_IF_NONE", "POP_JUMP_FORWARD_IF_NONE", "POP_JUMP_BACKWARD_IF_NONE", expected=True)
_none_jump("POP_JUMP_IF_NOT_NONE", "POP_JUMP_FORWARD_IF_NOT_NONE", "POP_JUMP_BACKWARD_IF_NOT_NONE", expected=False)


# -- loops -----------------------------------------------------------------------------------


@handles("GET_ITER")
def _get_iter(frame: Translator, instruction: Instruction) -> None:
    frame.push(frame.pop().iterate(frame.interpreter))


@handles("FOR_ITER")
def _for_iter(frame: Translator, instruction: Instruction) -> None:
    iterator = realise(frame.interpreter, frame.stack[-1])
    item = iterator.next_item(frame.interpreter)
    if item is not None:
        frame.push(item)
        return
    frame.pop_raw()
    frame.jump(instruction.target)
    # The target's instructions for the exhausted iterator were executed here.
    frame.pc += HERE.loop_exit_skips


@handles("RETURN_VALUE")
def _return(frame: Translator, instruction: Instruction) -> FrameResult:
    return FrameResult(frame.pop_raw())


# -- generators ------------------------------------------------------------------------------


@handles("RETURN_GENERATOR")
def _return_generator(frame: Translator, instruction: Instruction) -> None:
    frame.push(ConstantVariable(None))  # popped when the generator is first resumed


@handles("YIELD_VALUE")
def _yield(frame: Translator, instruction: Instruction) -> FrameResult:
    return FrameResult(frame.pop_raw(), yielded=True)


@handles("GET_YIELD_FROM_ITER")
def _yield_from(frame: Translator, instruction: Instruction) -> None:
    frame.push(frame.pop().iterate(frame.interpreter))


@handles("SEND")
def _send(frame: Translator, instruction: Instruction) -> None:
    # SEND resumes the iterator of a ``yield from`` with the value that the caller sent (None from ``next``).
    #     iterator, sent  ->  iterator, item     the frame then yields the item
    #     iterator, sent  ->  result             at its end, and jumps behind the loop
    sent = frame.pop()
    iterator = realise(frame.interpreter, frame.stack[-1])
    item = frame.interpreter.send(iterator, sent)
    if item is not None:
        frame.push(item)
        return
    end_yield_from(frame, instruction, frame.interpreter.returned_by(iterator))


def end_yield_from(frame: Translator, send: Instruction, result: VariableTracker) -> None:
    """Continue behind a ``yield from`` whose iterator, on top of the stack, is exhausted."""
    # 3.11 pops the iterator here; later versions leave it below the result, for END_SEND.
    if HERE.send_pops_iterator:
        frame.pop_raw()
    frame.push(result)
    frame.jump(send.target)


@handles("CLEANUP_THROW")
def _cleanup_throw(frame: Translator, instruction: Instruction) -> None:
    """A StopIteration thrown into a ``yield from`` ends it, with its value as the result."""
    error = frame.pop()
    if not issubclass(error.python_type(), StopIteration):
        raise ObservedException(error, has_context=True)
    # Below the exception: the iterator, and the value last sent. END_SEND follows and expects two values.
    frame.pop_many(2)
    frame.push(ConstantVariable(None))
    frame.push(error.get_attribute(frame.interpreter, "value"))


@handles("CALL_INTRINSIC_1", "CALL_INTRINSIC_2")
def _intrinsic(frame: Translator, instruction: Instruction) -> FrameResult | None:
    """CALL_INTRINSIC_1 and _2: the handler of the opcode that 3.11 has for the same."""
    name = INTRINSICS[instruction.opcode][instruction.arg or 0]
    if name not in HANDLERS:
        raise breaks.unsupported(breaks.UNSUPPORTED_INSTRUCTION, f"{instruction.opcode} {instruction.arg}", name=name)
    return HANDLERS[name](frame, instruction)


@handles("STOPITERATION_ERROR")
def _stop_iteration_error(frame: Translator, instruction: Instruction) -> None:
    """No effect: the tracker of a generator turns a StopIteration into a RuntimeError itself (an opcode since 3.12)."""


# -- exceptions ------------------------------------------------------------------------------


@handles("LOAD_ASSERTION_ERROR")
def _assertion_error(frame: Translator, instruction: Instruction) -> None:
    frame.push(frame.interpreter.wrap(AssertionError, None))


@handles("RAISE_VARARGS")
def _raise(frame: Translator, instruction: Instruction) -> None:
    # A bare ``raise`` raises what is being handled again.
    if not instruction.arg:
        handled = frame.interpreter.handled_exception()
        if handled is None:
            frame.interpreter.raise_exception(RuntimeError, "No active exception to reraise")
        raise ObservedException(handled, has_context=True)
    cause = frame.pop() if instruction.arg == 2 else None
    error = exception_to_raise(frame.interpreter, frame.pop(), "exceptions must derive from BaseException")
    if isinstance(error, ExceptionVariable):
        error.of_assertion = error.of_assertion or (_is_assertion(frame) and not frame.tested_symbol)
    if cause is not None and isinstance(error, ExceptionVariable | GivenExceptionVariable):
        is_none = cause.is_constant() and cause.constant() is None
        wrong = "exception causes must derive from BaseException"
        cause = cause if is_none else exception_to_raise(frame.interpreter, cause, wrong)
        error.set_cause(frame.interpreter, cause)
    raise ObservedException(error)


def _is_assertion(frame: Translator) -> bool:
    """True if the instruction that raises ends an ``assert`` statement whose message, if any, is a constant."""
    before = (each.opcode for each in reversed(frame.view.instructions[: frame.pc - 1]))
    first = next((opcode for opcode in before if opcode not in ("CALL", "PRECALL", "LOAD_CONST")), "")
    return first == "LOAD_ASSERTION_ERROR"


@handles("PUSH_EXC_INFO")
def _push_exception(frame: Translator, instruction: Instruction) -> None:
    error = frame.pop()
    # The slot keeps what was being handled before; POP_EXCEPT makes that current again. Here ``frame.handled`` is the
    # list of both, so the slot is only a value of the right depth.
    #     exception  ->  the one before, exception
    frame.push(frame.handled[-1] if frame.handled else ConstantVariable(None))
    frame.push(error)
    frame.handled.append(error)


@handles("POP_EXCEPT")
def _pop_exception(frame: Translator, instruction: Instruction) -> None:
    frame.pop_raw()
    frame.handled.pop()


@handles("CHECK_EXC_MATCH")
def _matches(frame: Translator, instruction: Instruction) -> None:
    tracer, expected = frame.interpreter, realise(frame.interpreter, frame.pop())
    found = expected.unpack(tracer) if issubclass(expected.python_type(), tuple) else [expected]
    classes = [getattr(realise(tracer, each), "value", None) for each in found]
    if not all(isinstance(each, type) and BaseException in each.__mro__ for each in classes):
        message = "catching classes that do not inherit from BaseException is not allowed"
        tracer.raise_exception(TypeError, message)
    # Only by the order of bases: Python calls no ``__subclasscheck__`` of a metaclass here.
    frame.push(ConstantVariable(not set(classes).isdisjoint(frame.stack[-1].python_type().__mro__)))


@handles("RERAISE")
def _reraise(frame: Translator, instruction: Instruction) -> None:
    raise ObservedException(frame.pop(), has_context=True)


# -- with ------------------------------------------------------------------------------------


@handles("BEFORE_WITH")
def _before_with(frame: Translator, instruction: Instruction) -> None:
    manager = frame.pop()
    # A manager from outside whose exit writes its state must leave that object as eager mode does; ours only records
    # the mode. No other code sees one that the traced code created.
    from_outside = isinstance(manager, ContextVariable) and manager.keeps_state and _is_users(frame, manager)
    known = isinstance(manager, ContextVariable) or (isinstance(manager, ObjectVariable) and _is_python(manager))
    if from_outside or not known:
        name = manager.type_name()
        raise breaks.unsupported(
            breaks.UNSUPPORTED_CONTEXT,
            f"Attempted SETUP_WITH/BEFORE_WITH/LOAD_SPECIAL on {manager.describe()}",
            name=name,
        )
    frame.push(ExitVariable(manager))
    # The instruction behind is the first in the block: its handler is the block's. A break uses it to tell this handler
    # from those of ``try`` (break_planning.py).
    following = frame.view.instructions[frame.pc]
    handler = following.protection.target if following.protection is not None else None
    # Position of the exit slot. An exception cuts the stack back to a depth, which determines the blocks that it
    # leaves.
    depth = len(frame.stack) - 1
    if isinstance(manager, ContextVariable):
        entered = manager.enter(frame.interpreter)
    else:
        frame.interpreter.generic_contexts.append(manager)
        entered = frame.interpreter.call_special(manager, "__enter__", [])
    # The context is active only now: an exception of ``__enter__`` is not for its ``__exit__``.
    frame.contexts.append(ActiveContext(manager, depth, handler))
    frame.push(entered)


def _is_python(manager: ObjectVariable) -> bool:
    """True if it has both methods, and neither is a C function."""
    methods = [inspect.getattr_static(manager.cls, name, None) for name in ("__enter__", "__exit__")]
    return all(each is not None and not isinstance(each, C_METHODS) for each in methods)


def _is_users(frame: Translator, manager: ContextVariable) -> bool:
    """True if the user's code outside holds it; the prologue of a resume function enters one of its own."""
    before = frame.view.instructions[frame.pc - 2]  # the argument that was loaded is deleted: no user's name begins so
    return manager.source is not None and not str(before.argval).startswith("___stack")


@handles("WITH_EXCEPT_START")
def _with_except(frame: Translator, instruction: Instruction) -> None:
    # The stack of the handler of a ``with``, topmost last:
    #     exit slot, lasti, the exception handled before, the exception
    error = frame.stack[-1]
    exit_function = frame.stack[-4]
    trace = error.get_attribute(frame.interpreter, "__traceback__")
    arguments = [frame.interpreter.wrap(error.python_type(), None), error, trace]
    frame.push(frame.interpreter.leave_context(frame, exit_function, arguments))


# -- match -----------------------------------------------------------------------------------


@handles("GET_LEN")
def _get_len(frame: Translator, instruction: Instruction) -> None:
    frame.push(realise(frame.interpreter, frame.stack[-1]).length(frame.interpreter))


@handles("MATCH_SEQUENCE")
def _match_sequence(frame: Translator, instruction: Instruction) -> None:
    _match_flag(frame, 1 << 5, Sequence)  # Py_TPFLAGS_SEQUENCE


@handles("MATCH_MAPPING")
def _match_mapping(frame: Translator, instruction: Instruction) -> None:
    _match_flag(frame, 1 << 6, Mapping)  # Py_TPFLAGS_MAPPING


def _match_flag(frame: Translator, flag: int, abstract: type) -> None:
    """Ask the class of the subject for a flag, which a registration with an abstract class sets."""
    subject = realise(frame.interpreter, frame.stack[-1])
    cls = subject.python_type()
    answer = bool(cls.__flags__ & flag)
    if cls.__flags__ & HEAP_TYPE and issubclass(cls, abstract) is answer:
        is_old = isinstance(subject, ObjectVariable) and not subject.is_new()
        frame.interpreter.assume_subclass((is_old and subject.source) or cls, abstract, answer)
    frame.push(ConstantVariable(answer))


@handles("MATCH_KEYS")
def _match_keys(frame: Translator, instruction: Instruction) -> None:
    keys = realise(frame.interpreter, frame.stack[-1]).unpack(frame.interpreter)
    subject = realise(frame.interpreter, frame.stack[-2])
    found = all(subject.contains(frame.interpreter, key) for key in keys)
    # A key that is missing makes the pattern fail before any value is read.
    values = [subject.get_item(frame.interpreter, key) for key in keys] if found else []
    frame.push(frame.interpreter.tuple_of(values) if found else ConstantVariable(None))


MATCH_SELF = 1 << 22
"""Flag of classes in C whose objects match one positional pattern themselves."""


def _match(cls: Any) -> bool:
    match None:
        case cls():
            return True
    return False


@handles("MATCH_CLASS")
def _match_class(frame: Translator, instruction: Instruction) -> None:
    names, cls, subject = frame.pop(), realise(frame.interpreter, frame.pop()), frame.pop()
    real = getattr(cls, "value", None)
    if not isinstance(real, type):
        frame.interpreter.evaluate(_match, (real,))  # rejected in Python's own words
        raise AssertionError("no class")  # noqa: TRY004
    # ``case int(n)``: such classes match their own value by one positional pattern, without ``__match_args__``.
    matches_self = ConstantVariable(bool(real.__flags__ & MATCH_SELF))
    given = (subject, cls, ConstantVariable(instruction.arg or 0), names, matches_self)
    frame.push(frame.interpreter.call_python(match_class, *given))
