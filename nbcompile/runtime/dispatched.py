"""Arguments of an operator as numbers, for torch's dispatcher in C: none becomes a Python object, nor its results.

    aten.linalg_inv_ex(slot 2, check_errors=False)      ("aten::linalg_inv_ex", "", 2, (TENSOR, 2, PLAIN, 0))

OpOverload's own call reads Python objects by the operator's schema and makes a Python tensor of each result, also of
those that are not requested: 1.4 us of a small one. Here the schema is read once, where the graph is loaded. An
operator's own function is called, if it has one (direct.py). What torch's C function does not take (numbers of any
type, types, devices) is called in Python, and so is what has a text among its arguments: 48 bytes of memory are lost
for each in torch 2.13 (docs/design/programs.md). So is an operator that raised: it raises again, with its message, so
that only operators are called from C that write to nothing and draw nothing.

In torch: torch/csrc/inductor/aoti_torch/c/shim.h (aoti_torch_call_dispatcher). Read next: nbcompile/runtime/operators.h
"""

from __future__ import annotations

import struct
from typing import Any

import torch

from nbcompile.ir.emitted import AtSlot, Call, RuntimeSize
from nbcompile.runtime import direct

PLAIN, TENSOR, LIST = range(3)
"""Forms of an argument, in the order of their numbers in operators.h."""
OPTIONAL = 3
"""Number that is added to the form of a value for an optional argument."""
MAX_ARGUMENTS = 32
"""Number of arguments, and of results, that there is room for in C."""

LISTED = -1
"""The number of results of an operator that returns a list, as in operators.h."""

Encoded = tuple[str, str, int, tuple[Any, ...]]
"""Name, overload, how many results; form and value of each argument, those of its items behind a list."""
Direct = tuple[int, tuple[Any, ...], tuple[str, ...], tuple[int, ...], int]
"""The three parts that direct.py encodes; slots of tensors among the arguments; how many results."""


def encoded(target: Any, step: Call) -> Encoded | Direct | None:
    """An operator's call for C, by its own function if there is one; None if it has to be called in Python."""
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return None
    schema = target._schema
    arguments = _arguments(schema, step)
    makes_views = any(result.is_view for result in step.results)
    if arguments is None or not (makes_views or _is_pure(target, arguments)):
        return None
    count = _results(schema)
    # A result is an item of several, or the only one.
    if max(len(arguments), count) > MAX_ARGUMENTS or any(len(each.path) != int(count != 1) for each in step.results):
        return None
    own = direct.encoded(target, arguments)
    if own:
        tensors = tuple(dict.fromkeys(slot for value in arguments.values() for slot in _slots(value)))
        return (*own, tensors, count)
    # The dispatcher's function is called without autograd, which has to see views.
    return None if makes_views else _for_dispatcher(schema, arguments)


def _for_dispatcher(schema: Any, arguments: dict[str, Any]) -> Encoded | None:
    numbers: list[Any] = []
    if not all(_encode(argument.type, arguments[argument.name], numbers) for argument in schema.arguments):
        return None
    return schema.name, schema.overload_name, len(schema.returns), tuple(numbers)


def _results(schema: Any) -> int:
    """The number of an operator's results, or LISTED."""
    is_listed = len(schema.returns) == 1 and schema.returns[0].type.kind() == "ListType"
    return LISTED if is_listed else len(schema.returns)


def _slots(value: object) -> list[int]:
    """Slots that an argument names."""
    return [value.slot] if isinstance(value, AtSlot) else []


def _arguments(schema: Any, step: Call) -> dict[str, Any] | None:
    """All arguments by their names, those that are left out with their defaults; None for what is not in the schema."""
    names = [argument.name for argument in schema.arguments]
    given = dict(zip(names, step.arguments, strict=False)) | dict(step.keywords)
    if len(step.arguments) > len(names) or not given.keys() <= set(names):
        return None
    return {argument.name: given.get(argument.name, argument.default_value) for argument in schema.arguments}


def _is_pure(target: torch._ops.OpOverload, arguments: dict[str, Any]) -> bool:
    """Return whether a call writes to nothing, draws no random numbers, and returns only new tensors."""
    schema = target._schema
    # Attention is tagged for its dropout: with a probability of 0 it draws nothing.
    draws = torch.Tag.nondeterministic_seeded in target.tags and arguments.get("dropout_p") != 0
    return (
        bool(schema.returns)
        and not draws
        and not any(each.alias_info for each in (*schema.arguments, *schema.returns))
        and all(each.type.kind() == "TensorType" for each in schema.returns)
    )


def _encode(kind: Any, value: object, numbers: list[Any]) -> bool:
    """Append an argument; False if it is one that torch's C function does not take."""
    optional = 0
    if kind.kind() == "OptionalType":
        if value is None:
            numbers += (PLAIN, 0)
            return True
        kind, optional = kind.getElementType(), OPTIONAL
    match kind.kind(), value:
        case "TensorType", AtSlot(slot):
            numbers += (TENSOR + optional, slot)
        case "IntType", RuntimeSize(at):
            numbers += (PLAIN + optional, (at,))
        # ``type``, as True is an int, too, and the schema means a number.
        case "IntType", int() if type(value) is int:
            numbers += (PLAIN + optional, value)
        case "BoolType", bool():
            numbers += (PLAIN + optional, int(value))
        case "FloatType", float() | int():
            # Every value is a word of 64 bits to the dispatcher (StableIValue
            # in torch/csrc/stable): a float is sent as its bits.
            numbers += (PLAIN + optional, struct.unpack("q", struct.pack("d", value))[0])
        case "ListType", list() | tuple():
            numbers += (LIST + optional, len(value))
            return all(_encode(kind.getElementType(), item, numbers) for item in value)
        case _:
            return False
    return True
