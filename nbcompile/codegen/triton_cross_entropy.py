"""Triton kernel of a linear layer and the numbers of a cross entropy: a tile of logits at a time, none in memory.

    for block in range(...):                        the classes of this program
        for step in range(0, 512, 32):              logits = rows of x by rows of the weight
        largest, total                              of each row so far: rescaled, and the tile is added (online)
        picked += logits of the target;  summed += logits

With few rows, several programs share the classes of a row, and a generated kernel combines their results.
A symbolic size is an argument: one kernel for all numbers of rows.

In torch: nothing. Read next: nbcompile/gpu/linear_cross_entropy.py
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from nbcompile.codegen.triton_flex_tiles import begin, emit_lines, in_brackets
from nbcompile.codegen.triton_sizes import Size, multiplied, quotient, wide
from nbcompile.ir.kernel import ProductTile

RESULTS = ("largests", "totals", "picks", "sums")
"""Names of the results, in float32, over splits and rows."""
NAMES = {"rows": "row_count", "classes": "class_count", "depth": "step_count"}
"""Names of symbolic sizes in a kernel."""


@dataclass(frozen=True, slots=True)
class LinearCrossEntropy:
    """Sizes and strides; a missing bias has none."""

    rows: Size
    classes: Size
    depth: Size
    x: tuple[Size, ...]
    weight: tuple[Size, ...]
    bias: tuple[Size, ...]
    target: tuple[Size, ...]
    ignored: int
    dtype: torch.dtype
    splits: int
    rows_hint: int
    """Rows for which a tile is chosen: those of the call that the graph is compiled for."""
    symbols: tuple[str, ...] = ()
    """Names of the symbolic sizes."""

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the arguments."""
        return ("x", "weight", *(("bias",) if self.bias else ()), "target", *RESULTS)

    @property
    def tile(self) -> ProductTile:
        """Rows, classes and steps of the sum of a program's tile."""
        if self.dtype == torch.float32:
            return ProductTile(32, 32, 16, 4, 3)
        return ProductTile(64 if self.rows_hint > 16 else 16, 64, 32, 4, 3)

    @property
    def programs(self) -> Size:
        """Number of programs."""
        return multiplied(quotient(self.rows, self.tile.rows), self.splits)

    @property
    def rounds(self) -> Size:
        """Products of a program: for each of its blocks of classes, the steps of the sum."""
        blocks = quotient(self.classes, self.tile.columns)
        return multiplied(quotient(blocks, self.splits), quotient(self.depth, self.tile.depth))

    @property
    def parenthesized(self) -> LinearCrossEntropy:
        """The same with the kernel's names of sizes, each of 32 bits as the numbers that are compared with it."""
        named = {name: short for name, short in NAMES.items() if isinstance(getattr(self, name), str)}
        strides = {name: in_brackets(getattr(self, name)) for name in ("x", "weight", "bias", "target")}
        return replace(self, **named, **strides)  # type: ignore[arg-type]


def emit(loss: LinearCrossEntropy, name: str) -> str:
    """The module's text: a function that ``triton.jit`` takes."""
    writer = begin(name, (*loss.parameters, *loss.symbols))
    for size, short in NAMES.items():
        if isinstance(text := getattr(loss, size), str):
            writer.line(f"{short} = ({text}).to(tl.int32)")
    loss, tile = loss.parenthesized, loss.tile
    tiles, blocks = quotient(loss.rows, tile.rows), quotient(loss.classes, tile.columns)
    (share,) = in_brackets([quotient(blocks, loss.splits)])
    of_target = f"{wide('i', loss.rows, loss.target[0])} * {loss.target[0]}"
    for line in (
        f"split = tl.program_id(0) // ({tiles})",
        f"i = tl.program_id(0) % ({tiles}) * {tile.rows} + tl.arange(0, {tile.rows})",
        f"label = tl.load(target + {of_target}, i < {loss.rows}, {loss.ignored})",
        f"largest = tl.full([{tile.rows}], float('-inf'), tl.float32)",
        f"total = tl.zeros([{tile.rows}], tl.float32)",
        f"summed = tl.zeros([{tile.rows}], tl.float32)",
        # A target that is no class is detected where the loss is computed of these numbers.
        f"picked = tl.zeros([{tile.rows}], tl.float32)",
        f"for block in range(split * {share}, tl.minimum(split * {share} + {share}, {blocks})):",
    ):
        writer.line(line)
    writer.depth += 2
    emit_lines(writer, _logits(loss, tile))
    emit_lines(writer, _numbers(loss))
    writer.depth -= 2
    writer.line(f"at = split.to(tl.int64) * {loss.rows} + i")
    for result, value in zip(RESULTS, ("largest", "total", "picked", "summed"), strict=True):
        writer.line(f"tl.store({result} + at, {value}, i < {loss.rows})")
    return writer.text()


def _logits(loss: LinearCrossEntropy, tile: ProductTile) -> Iterator[str]:
    yield f"column = block * {tile.columns} + tl.arange(0, {tile.columns})"
    yield f"logits = tl.zeros([{tile.rows}, {tile.columns}], tl.float32)"
    yield f"for step in range(0, {loss.depth}, {tile.depth}):"
    yield f"  r = step + tl.arange(0, {tile.depth})"
    row, column = wide("r[None, :]", loss.depth, loss.x[1]), wide("r[:, None]", loss.depth, loss.weight[1])
    yield (
        f"  rows = tl.load(x + i[:, None].to(tl.int64) * {loss.x[0]} + {row} * {loss.x[1]}, "
        f"(i[:, None] < {loss.rows}) & (r[None, :] < {loss.depth}), 0.0)"
    )
    yield (
        f"  columns = tl.load(weight + column[None, :].to(tl.int64) * {loss.weight[0]} + {column} * {loss.weight[1]}, "
        f"(column[None, :] < {loss.classes}) & (r[:, None] < {loss.depth}), 0.0)"
    )
    yield '  logits = tl.dot(rows, columns, logits, input_precision="ieee")'
    if loss.bias:
        of_bias = f"{wide('column', loss.classes, loss.bias[0])} * {loss.bias[0]}"
        yield f"bias_of_class = tl.load(bias + {of_bias}, column < {loss.classes}, 0.0)"
        yield "logits += bias_of_class.to(tl.float32)[None, :]"
    # Rounded like the linear layer's result.
    yield "logits = logits.to(x.dtype.element_ty).to(tl.float32)"


def _numbers(loss: LinearCrossEntropy) -> Iterator[str]:
    yield f"is_class = column[None, :] < {loss.classes}"
    yield f"is_label = (column[None, :] == label[:, None]) & (label[:, None] != {loss.ignored})"
    yield "picked += tl.sum(tl.where(is_label, logits, 0.0), 1)"
    yield "summed += tl.sum(tl.where(is_class, logits, 0.0), 1)"
    # Columns beyond the last class have weight 0 in the sum of exponentials.
    yield "logits = tl.where(is_class, logits, float('-inf'))"
    yield "now = tl.maximum(largest, tl.max(logits, 1))"
    # Where all logits so far are minus infinity, their difference would be NaN.
    yield "base = tl.where(now == float('-inf'), 0.0, now)"
    yield "total = total * tl.exp(largest - base) + tl.sum(tl.exp(logits - base[:, None]), 1)"
    yield "largest = now"
