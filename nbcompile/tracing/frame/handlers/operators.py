"""Instructions that compute: operators, comparisons, containers, strings.

In torch: torch/_dynamo/symbolic_convert.py (BINARY_OP, BUILD_LIST...). Read
next: control.py
"""

from __future__ import annotations

from nbcompile.bytecode.instruction import Instruction
from nbcompile.tracing.calls import comparisons, deferred, membership, operations, text
from nbcompile.tracing.frame.instruction_table import handles
from nbcompile.tracing.frame.translator import Translator
from nbcompile.tracing.variables import strings
from nbcompile.tracing.variables.base import NullVariable, VariableTracker, realise, realise_unless_deferred
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.mappings import DictVariable, pairs_of
from nbcompile.tracing.variables.sequences import ListVariable, SequenceVariable, TupleVariable
from nbcompile.tracing.variables.sets import SetVariable
from nbcompile.tracing.variables.slices import slice_of


@handles("BINARY_OP")
def _binary(frame: Translator, instruction: Instruction) -> None:
    symbol = str(instruction.argval)
    if (deferred_result := deferred.binary(frame.interpreter, symbol.removesuffix("="), *frame.stack[-2:])) is not None:
        del frame.stack[-2:]
        frame.push(deferred_result)
        return
    left, right = frame.pop_pair()
    # ``x += 1`` and ``x + 1`` are one opcode; the argument says which.
    in_place = symbol.endswith("=")
    frame.push(operations.binary(frame.interpreter, symbol.removesuffix("="), left, right, in_place))


@handles("UNARY_NEGATIVE")
def _negative(frame: Translator, instruction: Instruction) -> None:
    frame.push(operations.unary(frame.interpreter, "-", frame.pop()))


@handles("UNARY_POSITIVE")
def _positive(frame: Translator, instruction: Instruction) -> None:
    frame.push(operations.unary(frame.interpreter, "+", frame.pop()))


@handles("UNARY_INVERT")
def _invert(frame: Translator, instruction: Instruction) -> None:
    frame.push(operations.unary(frame.interpreter, "~", frame.pop()))


@handles("UNARY_NOT")
def _not(frame: Translator, instruction: Instruction) -> None:
    frame.push(ConstantVariable(not frame.pop().truth(frame.interpreter)))


@handles("TO_BOOL")
def _to_bool(frame: Translator, instruction: Instruction) -> None:
    """3.13: the jump that follows tests the result; a tensor is left to that jump, which can break."""


@handles("COMPARE_OP")
def _compare(frame: Translator, instruction: Instruction) -> None:
    if (
        deferred_result := deferred.comparison(frame.interpreter, str(instruction.argval), *frame.stack[-2:])
    ) is not None:
        del frame.stack[-2:]
        frame.push(deferred_result)
        return
    left, right = frame.pop_pair()
    frame.push(comparisons.compare(frame.interpreter, str(instruction.argval), left, right))


@handles("IS_OP")
def _is(frame: Translator, instruction: Instruction) -> None:
    left, right = frame.pop_pair()
    # The argument inverts the test: ``is not``.
    frame.push(ConstantVariable(comparisons.is_same(frame.interpreter, left, right) != bool(instruction.arg)))


@handles("CONTAINS_OP")
def _contains(frame: Translator, instruction: Instruction) -> None:
    container, item = frame.pop(), frame.pop()
    found = membership.contains(frame.interpreter, container, item)
    # The argument inverts the test: ``not in``.
    frame.push(ConstantVariable(not found.truth(frame.interpreter)) if instruction.arg else found)


# -- containers ------------------------------------------------------------------------------


@handles("BUILD_TUPLE")
def _tuple(frame: Translator, instruction: Instruction) -> None:
    frame.push(TupleVariable(frame.pop_many(instruction.arg or 0)))


@handles("BUILD_LIST")
def _list(frame: Translator, instruction: Instruction) -> None:
    frame.push(ListVariable(frame.pop_many(instruction.arg or 0)))


@handles("BUILD_SET")
def _set(frame: Translator, instruction: Instruction) -> None:
    tracer = frame.interpreter
    frame.push(SetVariable(tracer, [realise(tracer, item) for item in frame.pop_many(instruction.arg or 0)]))


@handles("BUILD_MAP")
def _map(frame: Translator, instruction: Instruction) -> None:
    items = frame.pop_many(2 * (instruction.arg or 0))
    keys = [realise(frame.interpreter, key) for key in items[::2]]
    frame.push(DictVariable(frame.interpreter, zip(keys, items[1::2], strict=True)))


@handles("BUILD_CONST_KEY_MAP")
def _const_key_map(frame: Translator, instruction: Instruction) -> None:
    keys = frame.pop().unpack(frame.interpreter)
    frame.push(DictVariable(frame.interpreter, zip(keys, frame.pop_many(instruction.arg or 0), strict=True)))


@handles("BUILD_SLICE")
def _slice(frame: Translator, instruction: Instruction) -> None:
    parts = frame.pop_many(instruction.arg or 2)
    if frame.stack and frame.view.instructions[frame.pc].opcode == "BINARY_SUBSCR":
        # CPython evaluates the sliced object first, so its guards, and what it raises, come first.
        realise(frame.interpreter, frame.stack[-1])
    frame.push(slice_of(frame.interpreter, parts))


def _target(frame: Translator, instruction: Instruction) -> VariableTracker:
    """The container that a display builds, below on the stack; after a break it comes from outside."""
    return realise(frame.interpreter, frame.stack[-(instruction.arg or 1)])


@handles("LIST_APPEND")
def _append(frame: Translator, instruction: Instruction) -> None:
    item = frame.pop_keeping_deferred()
    _target(frame, instruction).call_method(frame.interpreter, "append", [item], {})


@handles("SET_ADD")
def _add(frame: Translator, instruction: Instruction) -> None:
    item = frame.pop()
    _target(frame, instruction).call_method(frame.interpreter, "add", [item], {})


@handles("MAP_ADD")
def _map_add(frame: Translator, instruction: Instruction) -> None:
    value, key = frame.pop_keeping_deferred(), frame.pop()
    _target(frame, instruction).set_item(frame.interpreter, key, value)


@handles("LIST_EXTEND")
def _extend(frame: Translator, instruction: Instruction) -> None:
    items = frame.pop()
    if items.cannot_be_iterated():
        frame.interpreter.raise_exception(TypeError, f"Value after * must be an iterable, not {items.error_name()}")
    _target(frame, instruction).call_method(frame.interpreter, "extend", [items], {})


@handles("SET_UPDATE")
def _set_update(frame: Translator, instruction: Instruction) -> None:
    items = frame.pop()
    _target(frame, instruction).call_method(frame.interpreter, "update", [items], {})


@handles("DICT_UPDATE", "DICT_MERGE")
def _dict_update(frame: Translator, instruction: Instruction) -> None:
    other = frame.pop()
    target = frame.stack[-(instruction.arg or 1)]
    merges = instruction.opcode == "DICT_MERGE"
    # ``f(**a, **b)`` merges into a new dict, and rejects a key twice; ``{**a, **b}`` takes the last.
    if merges:
        expect_argument(frame, _called(frame, instruction), "**", other)
    elif other.lacks("keys"):
        frame.interpreter.raise_exception(TypeError, f"'{other.type_name()}' object is not a mapping")
    if not merges and isinstance(target, DictVariable):
        target.fill(frame.interpreter, other)
        return
    for key, value in pairs_of(frame.interpreter, other):
        if target.contains(frame.interpreter, key):
            message = f"{function_text(frame, _called(frame, instruction))} got multiple values for keyword argument"
            frame.interpreter.raise_exception(TypeError, f"{message} '{key.constant()}'")
        target.set_item(frame.interpreter, key, value)


def expect_argument(frame: Translator, function: VariableTracker, stars: str, given: VariableTracker) -> None:
    """Reject ``f(*3)`` and ``f(**3)``."""
    expected = "a mapping" if stars == "**" else "an iterable"
    if given.lacks("keys") if stars == "**" else given.cannot_be_iterated():
        message = f"{function_text(frame, function)} argument after {stars} must be {expected}, not {given.type_name()}"
        frame.interpreter.raise_exception(TypeError, message)


def function_text(frame: Translator, function: VariableTracker) -> str:
    """``module.function()``, as CPython names what is called."""
    function = realise(frame.interpreter, function)
    name, module = (
        function.get_attribute(frame.interpreter, attribute).constant() for attribute in ("__qualname__", "__module__")
    )
    return f"{name}()" if module in (None, "builtins") else f"{module}.{name}()"


def _called(frame: Translator, instruction: Instruction) -> VariableTracker:
    """The function whose keywords are gathered: below them are its arguments, from 3.13 on a NULL, and itself."""
    #      3.11, 3.12     NULL   f      arguments   dict         the operand stack of f(*arguments, **a, **b)
    #      3.13           f      NULL   arguments   dict         when b is merged; instruction.arg is 1
    below = frame.stack[-(instruction.arg or 1) - 2]
    return frame.stack[-(instruction.arg or 1) - 3] if isinstance(below, NullVariable) else below


@handles("LIST_TO_TUPLE")
def _to_tuple(frame: Translator, instruction: Instruction) -> None:
    frame.push(TupleVariable(frame.pop().unpack_keeping_deferred(frame.interpreter)))


def _unpacked(frame: Translator, owner: VariableTracker) -> list[VariableTracker]:
    if not any(hasattr(owner.python_type(), name) for name in ("__iter__", "__getitem__")):
        frame.interpreter.raise_exception(TypeError, f"cannot unpack non-iterable {owner.type_name()} object")
    return owner.unpack(frame.interpreter)


@handles("UNPACK_SEQUENCE")
def _unpack(frame: Translator, instruction: Instruction) -> None:
    owner = frame.pop()
    items = owner.items if isinstance(owner, SequenceVariable) else _unpacked(frame, owner)
    expected = instruction.arg or 0
    if len(items) != expected:
        few = f"not enough values to unpack (expected {expected}, got {len(items)})"
        frame.interpreter.raise_exception(
            ValueError, few if len(items) < expected else f"too many values to unpack (expected {expected})"
        )
    # UNPACK_SEQUENCE leaves the first item on top.
    for item in reversed(items):
        frame.push(item)


@handles("UNPACK_EX")
def _unpack_star(frame: Translator, instruction: Instruction) -> None:
    # ``a, *b, c = xs``: the low byte counts the names before the star, the rest those after it.
    before, after = (instruction.arg or 0) & 0xFF, (instruction.arg or 0) >> 8
    items = _unpacked(frame, frame.pop())
    if len(items) < before + after:
        frame.interpreter.raise_exception(
            ValueError, f"not enough values to unpack (expected at least {before + after}, got {len(items)})"
        )
    end = len(items) - after
    for item in reversed([*items[:before], ListVariable(items[before:end]), *items[end:]]):
        frame.push(item)


# -- strings ---------------------------------------------------------------------------------

_CONVERSIONS = {0: "", 1: "s", 2: "r", 3: "a"}


@handles("FORMAT_VALUE")
def _format_value(frame: Translator, instruction: Instruction) -> None:
    # The low two bits choose the conversion (``!s``, ``!r``, ``!a``); 4: a format specification is on the stack.
    flags = instruction.arg or 0
    specification = frame.pop() if flags & 4 else ConstantVariable("")
    value = text.convert(frame.interpreter, frame.pop_raw(), _CONVERSIONS[flags & 3])
    frame.push(frame.interpreter.format_value(value, specification))


@handles("CONVERT_VALUE")
def _convert_value(frame: Translator, instruction: Instruction) -> None:
    frame.push(text.convert(frame.interpreter, frame.pop_raw(), _CONVERSIONS[instruction.arg or 0]))


@handles("FORMAT_SIMPLE")
def _format_simple(frame: Translator, instruction: Instruction) -> None:
    frame.push(frame.interpreter.format_value(frame.pop_raw(), ConstantVariable("")))


@handles("FORMAT_WITH_SPEC")
def _format_with(frame: Translator, instruction: Instruction) -> None:
    specification = frame.pop()
    frame.push(frame.interpreter.format_value(frame.pop_raw(), specification))


@handles("BUILD_STRING")
def _string(frame: Translator, instruction: Instruction) -> None:
    parts = [realise_unless_deferred(frame.interpreter, part) for part in frame.pop_many(instruction.arg or 0)]
    frame.push(strings.join(parts))
