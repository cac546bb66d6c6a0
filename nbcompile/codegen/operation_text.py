"""C++ text of one operation, from the texts of its operands.

    operation("add", ..., ["a", "b * c"])      a + (b * c)
    operation("pow", ..., ["x", "2"])          x * x

In torch: torch/_inductor/codegen/cpp.py (``CppVecOverrides``). Read next: nbcompile/codegen/vector_expr.py
"""

from __future__ import annotations

import re

import torch

from nbcompile.codegen.printers import C_TYPES, cpp_operation
from nbcompile.ir.expr import Constant, Expr

DIVISIONS = ("floor_div", "trunc_div", "remainder", "fmod")


def operation(op: str, args: tuple[Expr, ...], dtype: torch.dtype, texts: list[str]) -> str:
    """C++ text of an operation; ``texts`` are the texts of its operands ``args``."""
    if op == "cast":
        return f"cast<{C_TYPES[dtype]}>({texts[0]})"
    if op == "pow" and isinstance(args[1], Constant) and args[0].dtype.is_floating_point:
        special = _power(args[1].value, texts[0])
        if special:
            return special
    pattern = cpp_operation(op, args[0].dtype)
    # Arguments of a call need no parentheses, those of an infix operator do.
    is_call = "(" in pattern
    return pattern.format(*(text if is_call else parenthesized(text) for text in texts))


def _power(exponent: bool | float, base: str) -> str:
    """Powers that eager mode computes by multiplication."""
    operand = parenthesized(base)
    match exponent:
        case 1:
            return base
        case 2:
            return f"{operand} * {operand}"
        case 3:
            return f"{operand} * {operand} * {operand}"
        case 0.5:
            return f"sqrt({base})"
        case -1:
            return f"reciprocal({base})"
    return ""


_CALL = re.compile(r"[\w:]+(<[^()]*>)?\(")


def parenthesized(text: str) -> str:
    """Text in parentheses, unless it is a single name or call."""
    call = _CALL.match(text)
    if text.isidentifier() or (call and _closes_at_end(text, call.end())):
        return text
    return f"({text})"


def _closes_at_end(text: str, start: int) -> bool:
    depth = 1
    for at in range(start, len(text)):
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if depth == 0:
            return at == len(text) - 1
    return False
