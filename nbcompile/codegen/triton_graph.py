"""A graph of numbers as Triton expressions: functions that a kernel evaluates for each element of a tile.

    def score_mod(score, b, h, i, j): return score + bias[h]        s0 = tl.load(bias + ...);  s1 = scores + s0

Numbers in floating point are float32, as eager mode computes scores of 16-bit types.

In torch: torch/_inductor/select_algorithm.py (modification). Read next: nbcompile/codegen/triton_flex.py
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from nbcompile.codegen.triton_values import NoTriton

Buffers = Sequence[tuple[str, torch.Tensor]]
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_TYPES = {
    torch.bool: "tl.int1", torch.int32: "tl.int32", torch.int64: "tl.int64", **dict.fromkeys(_FLOATS, "tl.float32"),
}  # fmt: skip
"""Types of numbers that are computed."""
_LOADED = {**_TYPES, **dict.fromkeys((torch.int8, torch.uint8, torch.int16), "tl.int32")}
"""Types of elements of buffers."""
# Triton divides integers as C does, toward zero, and Python downward: the
# two differ where the signs differ and the division leaves a remainder.
_SIGNS = "(({0} % {1} != 0) & (({0} < 0) != ({1} < 0)))"
_TEXTS = {
    "add": "({0} + {1})", "sub": "({0} - {1})", "mul": "({0} * {1})", "neg": "(-{0})", "abs": "tl.abs({0})",
    "eq": "({0} == {1})", "ne": "({0} != {1})", "lt": "({0} < {1})", "le": "({0} <= {1})", "gt": "({0} > {1})",
    "ge": "({0} >= {1})", "logical_and": "(({0} != 0) & ({1} != 0))", "logical_or": "(({0} != 0) | ({1} != 0))",
    "logical_xor": "(({0} != 0) ^ ({1} != 0))", "logical_not": "({0} == 0)", "bitwise_and": "({0} & {1})",
    "bitwise_or": "({0} | {1})", "bitwise_xor": "({0} ^ {1})", "bitwise_not": "(~{0})",
    "where": "tl.where({0}, {1}, {2})", "exp": "tl.exp({0})", "log": "tl.log({0})", "sqrt": "tl.sqrt_rn({0})",
    "exp2": "tl.exp2({0})", "sin": "tl.sin({0})", "cos": "tl.cos({0})", "rsqrt": "tl.rsqrt({0})",
    "tanh": "libdevice.tanh({0})", "sigmoid": "(1.0 / (1.0 + tl.exp(-{0})))", "alias": "{0}", "clone": "{0}",
    "_to_copy": "{0}", "convert_element_type": "{0}", "lift_fresh_copy": "{0}", "scalar_tensor": "{0}",
    "maximum": "tl.maximum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)",
    "minimum": "tl.minimum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)",
    "relu": "tl.maximum({0}, 0.0, propagate_nan=tl.PropagateNan.ALL)", "square": "({0} * {0})", "detach": "{0}",
    "masked_fill": "tl.where({1}, {2}, {0})", "reciprocal": "tl.div_rn(1.0, {0})",
    "sgn": "tl.where({0} > 0, 1.0, tl.where({0} < 0, -1.0, 0.0))",
    "tanh_backward": "({0} * (1.0 - {1} * {1}))", "sigmoid_backward": "({0} * (1.0 - {1}) * {1})",
    "threshold_backward": "tl.where({1} <= {2}, 0.0, {0})",
}  # fmt: skip
"""Operators of ATen, by the text of their arguments."""
_POWERS: dict[Any, str] = {1: "{0}", 2: "({0} * {0})", 3: "({0} * {0} * {0})"}
_OF_TRUTH_VALUES = ("where", "masked_fill")
"""Operators with an argument of truth values, which keeps its type."""
_CONSTANTS = {
    "full": None, "new_full": None, "full_like": None, "ones": 1, "new_ones": 1, "ones_like": 1, "zeros": 0,
    "new_zeros": 0, "zeros_like": 0,
}  # fmt: skip
"""Operators of a constant, which is the last argument or this number."""
_WITHOUT_EFFECT = {"rounding_mode", "dtype", "layout", "device", "pin_memory", "memory_format"}
"""Options that the result's type implies, or that :func:`_division` reads."""
_COMPARISONS = frozenset(
    {"eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "logical_not"}
)


@dataclass(frozen=True, slots=True)
class Scatter:
    """The gradient of a tensor that is read: each element of the tile is added to zeros at an offset."""

    offset: str
    """Text, in elements of a tensor without gaps."""
    value: str


def expressions(
    graph: fx.GraphModule, arguments: Sequence[str], buffers: Buffers, mask: str, shape: str, prefix: str
) -> tuple[str, list[str]]:
    """The result's text, and lines that compute its operands: as :func:`results`, of one result."""
    (result, *_), lines = results(graph, arguments, buffers, mask, shape, prefix)
    if not isinstance(result, str):
        raise NoTriton("a score_mod or mask_mod without a result")
    return result, lines


def results(
    graph: fx.GraphModule, arguments: Sequence[str], buffers: Buffers, mask: str, shape: str, prefix: str
) -> tuple[list[str | Scatter | None], list[str]]:
    """The texts of the results, and lines that compute their operands.

    Args:
        graph: A graph over tensors without dimensions, and the buffers that it indexes.
        arguments: Texts of the numbers.
        buffers: Names and fake tensors of the other arguments.
        mask: Condition under which a buffer may be read.
        shape: Shape of the tile.
        prefix: Prefix of the names of lines.

    Raises:
        NoTriton: an operator has no text.
    """
    values: dict[fx.Node, Any] = {}
    given = iter((*arguments, *buffers))
    lines: list[str] = []
    for node in graph.graph.nodes:
        match node.op:
            case "placeholder":
                values[node] = next(given)
            case "output":
                found = [node.args[0]] if isinstance(node.args[0], fx.Node) else node.args[0]
                return [_result(values, value) for value in found], lines
            case "call_function" if not _is_used(node):
                pass
            case "call_function" if _name(node) == "zeros_and_scatter":
                values[node] = _scattered(node, values)
            case "call_function":
                # A line for each node, so that a value with two users is computed once.
                values[node] = f"{prefix}{len(lines)}"
                lines.append(f"{values[node]} = {_call(node, values, mask, shape)}")
            case _:
                raise NoTriton(f"a score_mod or mask_mod with {node.op} {node.target}")
    raise NoTriton("a score_mod or mask_mod without a result")


def _is_used(node: fx.Node) -> bool:
    """Return whether a result depends on a node: torch's graph of a derivative has dead nodes."""
    return any(user.op == "output" or _is_used(user) for user in node.users)


def _result(values: dict[fx.Node, Any], value: object) -> str | Scatter | None:
    if value is None or (isinstance(value, fx.Node) and isinstance(values[value], Scatter)):
        return values[value] if isinstance(value, fx.Node) else None
    return _text(values, value)


def _text(values: dict[fx.Node, Any], value: object) -> str:
    match value:
        case fx.Node() if isinstance(values[value], str):
            return str(values[value])
        case bool() | int():
            return str(value)
        case float():
            return repr(value) if abs(value) < float("inf") else f"float('{value}')"
    raise NoTriton(f"a score_mod or mask_mod that computes with {value}")


def _name(node: fx.Node) -> str:
    return node.target.overloadpacket.__name__ if isinstance(node.target, torch._ops.OpOverload) else str(node.target)


def _call(node: fx.Node, values: dict[fx.Node, Any], mask: str, shape: str) -> str:
    name = _name(node)
    if name == "index":
        return _load(node, values, mask, shape)
    kind = _kind(node, name)
    if name in _CONSTANTS:
        number = node.args[-1] if _CONSTANTS[name] is None else _CONSTANTS[name]
        return f"tl.full([1, 1], {_text(values, number)}, {kind})"
    texts = [_text(values, argument) for argument in node.args if not isinstance(argument, torch.dtype)]
    # Operands get the type of the result, as eager promotes them. The result
    # of a comparison is a truth value, which operands must not become.
    if name not in _COMPARISONS and name not in _OF_TRUTH_VALUES and not name.startswith("bitwise"):
        texts = [_as(text, kind) for text in texts]
    if name in ("div", "floor_divide", "remainder"):
        return _division(node, name, texts, is_float=kind == "tl.float32")
    if name == "pow" and node.args[1] in _POWERS:
        return _as(_POWERS[node.args[1]].format(texts[0]), kind)
    if name not in _TEXTS:
        raise NoTriton(f"a score_mod or mask_mod with {name}")
    return _as(_TEXTS[name].format(*texts), kind)


def _kind(node: fx.Node, name: str) -> str:
    """Triton's type of a result, of a number; its operator has no options that would change it."""
    result: Any = node.meta.get("val")
    dtype = result.dtype if isinstance(result, torch.Tensor) else None
    if dtype not in _TYPES or result.dim():
        raise NoTriton(f"a score_mod or mask_mod with {name} of {dtype}")
    if node.kwargs.keys() - _WITHOUT_EFFECT or (name in ("add", "sub") and len(node.args) > 2):
        raise NoTriton(f"a score_mod or mask_mod with {name} and {', '.join(node.kwargs)}")
    return _TYPES[dtype]


def _as(text: str, kind: str) -> str:
    """The text of a value in a type; a plain number is one of Triton's."""
    # The text of a number is one of Python's, which has no .to(): tl.full makes it a value of the type.
    digits = text.lstrip("-").replace(".", "").replace("e-", "").replace("e+", "").isdigit()
    is_number = digits or text in ("True", "False") or text.startswith("float(")
    return f"tl.full([1, 1], {text}, {kind})" if is_number else f"({text}).to({kind})"


def _division(node: fx.Node, name: str, texts: Sequence[str], *, is_float: bool) -> str:
    mode = "floor" if name == "floor_divide" else node.kwargs.get("rounding_mode")
    if name == "div" and mode is None:
        # ``/`` of float32 numbers is an approximation on the device.
        return f"tl.div_rn({texts[0]}, {texts[1]})" if is_float else f"({texts[0]} / {texts[1]})"
    if is_float:
        raise NoTriton(f"a score_mod or mask_mod with {name} in floating point")
    if name == "remainder":
        return f"tl.where({_SIGNS}, {{0}} % {{1}} + {{1}}, {{0}} % {{1}})".format(*texts)
    if mode == "trunc":
        return f"({texts[0]} // {texts[1]})"
    return f"tl.where({_SIGNS}, {{0}} // {{1}} - 1, {{0}} // {{1}})".format(*texts)


def _load(node: fx.Node, values: dict[fx.Node, Any], mask: str, shape: str) -> str:
    """An element of a buffer, at numbers along all of its dimensions; a negative one counts from the end."""
    buffer, indices = node.args
    if (
        not isinstance(buffer, fx.Node)
        or not isinstance(values[buffer], tuple)
        or not isinstance(indices, (list, tuple))
    ):
        raise NoTriton("a score_mod or mask_mod that indexes what it computed")
    name, tensor = values[buffer]
    if len(indices) != tensor.dim() or not all(isinstance(extent, int) for extent in (*tensor.shape, *tensor.stride())):
        raise NoTriton("a score_mod or mask_mod that takes a part of a tensor")
    if tensor.dtype not in _LOADED:
        raise NoTriton(f"a score_mod or mask_mod that reads a tensor of {tensor.dtype}")
    offset = _offset(values, indices, tensor.shape, tensor.stride())
    loaded = f"tl.load({name} + tl.broadcast_to({offset}, {shape}), {mask}, 0)"
    return f"({loaded}).to({_LOADED[tensor.dtype]})"


def _offset(values: dict[fx.Node, Any], indices: Sequence[Any], size: Sequence[int], stride: Sequence[int]) -> str:
    """Offset of an element."""
    terms = []
    for index, extent, step in zip(indices, size, stride, strict=True):
        text = _as(_text(values, index), "tl.int64")
        terms.append(f"tl.where({text} < 0, {text} + {extent}, {text}) * {step}")
    return " + ".join(terms)


def _scattered(node: fx.Node, values: dict[fx.Node, Any]) -> Scatter:
    """The numbers that a function's derivative adds to zeros, in a tensor of known sizes."""
    result: Any = node.meta["val"]
    indices, value = node.args[1:3]
    if not isinstance(indices, (list, tuple)) or len(indices) != result.dim() or None in indices:
        raise NoTriton("a score_mod or mask_mod whose derivative is a part of a tensor")
    if not all(isinstance(extent, int) for extent in result.shape):
        raise NoTriton("a score_mod or mask_mod with a gradient of dynamic size")
    stride = [math.prod(result.shape[at + 1 :]) for at in range(result.dim())]
    return Scatter(_offset(values, indices, result.shape, stride), _text(values, value))
