"""Cost of a user's line in eager mode: the bytes that its operators read and write.

    y = torch.sin(x) * 2     # sin, mul; 16 kB in eager        sin reads and writes 4 kB, and so does mul

Computed from shapes and dtypes of the captured graph; no time is measured. If the numbers of a kernel's launch are
smaller, fusion saved the rest. Dynamic sizes have their values in the compiled call.

In torch: torch/_inductor/utils.py (get_num_bytes) counts bytes that kernels move. Read next: nbcompile/views/facts.py
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Mapping

from nbcompile.record.model import CompiledFrame, Node

_FREE = frozenset(
    "view view_as reshape flatten unflatten permute transpose swapaxes movedim t T mT expand expand_as unsqueeze"
    " squeeze narrow select chunk split"
    " unbind getitem detach size numel dim stride item to contiguous diagonal unfold".split()
)
"""Operators that return existing memory (``to`` and ``contiguous`` mostly do)."""


def of_line(frame: CompiledFrame, ids: tuple[str, ...]) -> int:
    """Bytes moved by some operators of a frame's graph; 0 where a size is not known."""
    if frame.graph is None:
        return 0
    # A symbol has the value of the traced call; an unbacked one has none, and is omitted.
    hints = {each.name: int(each.hint) for each in frame.symbols if each.hint.lstrip("-").isdecimal()}
    nodes = {node.id: node for node in frame.graph.nodes}
    moved = 0
    # Eager runs one operator after the other: an input that two of them read is read twice, and counts twice.
    for node_id in ids:
        if _name(nodes[node_id]) in _FREE:
            continue
        sizes = [
            _bytes(node, hints) for node in (nodes[node_id], *(nodes[i] for i in nodes[node_id].inputs if i in nodes))
        ]
        # With an unknown size the sum would be too small.
        if None in sizes:
            return 0
        moved += sum(size for size in sizes if size is not None)
    return moved


def words(moved: int) -> str:
    """``16 kB``: at most four significant digits."""
    # Steps of a thousand, as memory bandwidth is given in GB/s.
    for unit in ("B", "kB", "MB", "GB"):
        if moved < 10_000:
            return f"{moved} {unit}"
        moved = round(moved / 1000)
    return f"{moved} TB"


def _name(node: Node) -> str:
    return node.target.rpartition(".")[2]


def _bytes(node: Node, hints: Mapping[str, int]) -> int | None:
    """Bytes of a node's tensor; 0 for a number, None if a size is unknown."""
    if node.shape is None:
        return 0
    total = _item_size(node.dtype)
    for size in node.shape:
        known = _value(size, hints)
        if known is None:
            return None
        total *= known
    return total


def _item_size(dtype: str) -> int:
    """Bits are part of a dtype's name: ``float32``, ``bfloat16``, ``float8_e4m3fn``."""
    # ``bool`` has no number in its name, and takes a byte; of ``float8_e4m3fn`` the first number counts.
    bits = re.search(r"\d+", dtype)
    return max(int(bits[0]) // 8, 1) if bits else 1


_ARITHMETIC = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv}


def _value(size: str, hints: Mapping[str, int]) -> int | None:
    """The value of a size's text, with symbols replaced by their values in the call: ``2*s77``."""
    if size.isdecimal():
        return int(size)

    # Sizes are sums and products of symbols. The text is read as a tree and not evaluated: a record may
    # come from a file.
    def value(tree: ast.expr) -> int:
        match tree:
            case ast.Constant(int(number)):
                return number
            case ast.Name(name):
                return hints[name]
            case ast.BinOp(left, sign, right):
                return int(_ARITHMETIC[type(sign)](value(left), value(right)))
        raise KeyError(size)

    try:
        return value(ast.parse(size, mode="eval").body)
    # errors of the parser and of arithmetic
    except (KeyError, SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None
