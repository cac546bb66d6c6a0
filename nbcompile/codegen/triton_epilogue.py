"""Operators after a product in its own kernel, element by element, rounded where eager mode rounds.

    silu(y) * z     ->   e0 = (total).to(tl.bfloat16).to(tl.float32)
                         e1 = (e0 * (1.0 / (1.0 + tl.exp(-e0)))).to(tl.bfloat16).to(tl.float32)
                         e2 = (e1 * tl.load(e2_operand + ...))

A chain: each operator has one user, the next one. Other operands are tensors that the result's shape covers.

In torch: torch/_inductor/select_algorithm.py (store_output). Read next: nbcompile/codegen/triton_grouped.py
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from nbcompile.codegen.triton_sizes import size_text, wide
from nbcompile.ir.index import index, indices

aten = torch.ops.aten
ROUNDED = {torch.bfloat16: "tl.bfloat16", torch.float16: "tl.float16"}
_TEXTS: dict[Any, str] = {
    aten.relu.default: "tl.where({0} < 0.0, 0.0, {0})",
    aten.sigmoid.default: "tl.div_rn(1.0, 1.0 + tl.exp(-{0}))",
    aten.silu.default: "{0} * tl.div_rn(1.0, 1.0 + tl.exp(-{0}))",
    aten.gelu.default: "{0} * (0.5 * (1.0 + tl.erf(0.7071067811865476 * {0})))",
    aten.neg.default: "-{0}", aten.abs.default: "tl.abs({0})", aten.add.Tensor: "{0} + {1}",
    aten.sub.Tensor: "{0} - {1}", aten.mul.Tensor: "{0} * {1}", aten._to_copy.default: "{0}",
}  # fmt: skip
"""Operators that may follow, by the text of their arguments in float32."""
_FLOATS = (torch.float32, *ROUNDED)


@dataclass(frozen=True, slots=True)
class Epilogue:
    """Operators that follow a product, in order, and their other operands."""

    nodes: tuple[fx.Node, ...] = ()
    operands: tuple[fx.Node, ...] = ()

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the operands."""
        return tuple(f"operand{at}" for at in range(len(self.operands)))


def following(node: fx.Node) -> Epilogue:
    """The chain of operators that follow a product."""
    nodes: list[fx.Node] = []
    operands: list[fx.Node] = []
    last, result = node, node.meta["val"]
    # A value with another user has to be in memory as well: the chain ends with it.
    while len(last.users) == 1:
        (user,) = last.users
        others = [argument for argument in user.args if isinstance(argument, fx.Node) and argument is not last]
        if not _is_possible(user, last, result.shape) or not all(_is_covered(other, result) for other in others):
            break
        nodes.append(user)
        operands += [other for other in others if other not in operands]
        last = user
    return Epilogue(tuple(nodes), tuple(operands))


def _is_possible(user: fx.Node, last: fx.Node, shape: Sequence[Any]) -> bool:
    value = user.meta.get("val")
    if user.target not in _TEXTS or not isinstance(value, torch.Tensor) or value.dtype not in _FLOATS:
        return False
    # Options: alpha of a sum, the other kind of gelu, a layout. The type of a copy is the result's.
    if user.kwargs.keys() - {"dtype"} or last not in user.args or indices(value.shape) != indices(shape):
        return False
    numbers = [argument for argument in user.args if not isinstance(argument, fx.Node)]
    return all(type(number) in (int, float) and math.isfinite(number) for number in numbers)  # type: ignore[arg-type]


def _is_covered(operand: fx.Node, result: torch.Tensor) -> bool:
    """Return whether an operand has the result's shape, or one that is broadcast to it, and is on its device."""
    value, shape = operand.meta.get("val"), result.shape
    if not isinstance(value, torch.Tensor) or value.dtype not in _FLOATS or value.dim() > len(shape):
        return False
    if value.device != result.device:
        return False
    own = indices(shape)[len(shape) - value.dim() :]
    # Aligned at the right, as broadcasting does: (columns), (rows, columns) and (1, columns) cover (rows, columns).
    # Symbolic sizes are equal if they are the same expression: a comparison would add a guard.
    return all(extent in (1, size) for extent, size in zip(indices(value.shape), own, strict=True))


def lines(epilogue: Epilogue, product: fx.Node) -> Iterator[str]:
    """Iterate over lines; ``total`` becomes the result, in float32 unless the last operator's type is another one."""
    # The product is rounded to its dtype before an operator reads it, as if it had been stored.
    yield f"total = {_rounded('total', product.meta['val'].dtype)}"
    last, names = product, dict(zip(epilogue.operands, epilogue.parameters, strict=True))
    for at, (operand, name) in enumerate(names.items()):
        value = operand.meta["val"]
        offset = " + ".join(_terms(value)) or "row * 0 + column * 0"
        yield f"value{at} = tl.load({name} + ({offset}), is_row & is_column, 0.0).to(tl.float32)"
    loaded = {operand: f"value{at}" for at, operand in enumerate(names)}
    for node in epilogue.nodes:
        texts = [
            "total"
            if argument is last
            else _read(loaded[argument], argument, node)
            if isinstance(argument, fx.Node)
            else repr(float(argument))  # type: ignore[arg-type]
            for argument in node.args
        ]
        text = _TEXTS[node.target].format(*(f"({text})" for text in texts))
        yield f"total = {_rounded(text, node.meta['val'].dtype)}"
        last = node


def _read(loaded: str, operand: fx.Node, node: fx.Node) -> str:
    """An operand in the type of an operator: a tensor without dimensions may have more bits, or others."""
    dtype = node.meta["val"].dtype
    return loaded if operand.meta["val"].dtype == dtype else _rounded(loaded, dtype)


def _terms(value: torch.Tensor) -> Iterator[str]:
    #      3 dimensions    group, row, column
    #      2                      row, column
    #      1                           column      and row * 0, for the tile's shape
    positions = ("group.to(tl.int64)", "row.to(tl.int64)", "column")[3 - value.dim() :]
    strides = (
        0 if index(extent) == 1 else size_text(step) for extent, step in zip(value.shape, value.stride(), strict=True)
    )
    # A broadcast dimension has a position, too, as the tile has both sides.
    terms = [
        f"{wide(position, extent, stride)} * {stride}" if isinstance(stride, int) else f"{position} * ({stride})"
        for position, extent, stride in zip(positions, map(size_text, value.shape), strides, strict=True)
    ]
    yield from (["row * 0"] if value.dim() < 2 else [])
    yield from (["column * 0"] if value.dim() < 1 else [])
    yield from terms


def _rounded(text: str, dtype: torch.dtype) -> str:
    return f"({text}).to({ROUNDED[dtype]}).to(tl.float32)" if dtype in ROUNDED else f"({text})"
