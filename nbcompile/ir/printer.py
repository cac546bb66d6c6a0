"""Printer of the loop IR as text.

    buf0: float32[8] = max over r0 < 64 of in0[i0, r0]
    buf1: float32[8, 64] = exp(in0[i0, i1] - buf0[i0])

In torch: the ``__str__`` of torch/_inductor/ir.py's classes. Read next:
nbcompile/lowering/graph.py
"""

from __future__ import annotations

import math
from typing import Any, assert_never

import sympy
import torch

from nbcompile.ir.buffer import (
    Buffer,
    BufferView,
    Extern,
    ExternOutput,
    GraphAttribute,
    GraphInput,
    ModuleReference,
    Pointwise,
    Program,
    Reduction,
    Scan,
    Scatter,
    Tensor,
)
from nbcompile.ir.expr import OPERATIONS, Apply, Constant, Expr, Gather, IndexOf, Load, Local, Masked
from nbcompile.ir.index import FloorDiv, Index, Mod, reduction_variable
from nbcompile.ir.kernel import (
    Accumulate,
    Allocate,
    Carry,
    Free,
    Inner,
    Kernel,
    Let,
    Loop,
    Nest,
    Reuse,
    Schedule,
    Store,
    Update,
)
from nbcompile.ir.layout import Layout, contiguous, same_addresses

# Precedence of operators, as in Python.
_PRECEDENCE = {
    "or": 1, "and": 2, "==": 4, "!=": 4, "<": 4, "<=": 4, ">": 4, ">=": 4, "|": 5, "^": 6, "&": 7, "<<": 8, ">>": 8,
    "+": 9, "-": 9, "*": 10, "/": 10,
}  # fmt: skip
_ATOM = 20


def print_expr(body: Expr, precedence: int = 0) -> str:
    """Print a body in Python's notation, with the fewest parentheses."""
    match body:
        case Load(buffer, index, _, gathers):
            return f"{buffer}[{', '.join(print_index(each, gathers) for each in index)}]" if index else buffer
        case Constant(value, dtype):
            return print_number(value, dtype)
        case IndexOf(index, _, gathers):
            text = print_index(index, gathers)
            return f"({text})" if precedence and not index.is_Atom else text
        case Local(name):
            return name
        case Masked(condition, value, otherwise):
            text = f"{print_expr(value, 1)} if {print_expr(condition, 1)} else {print_expr(otherwise)}"
            return f"({text})" if precedence else text
        case Apply("cast", (value,), dtype):
            return f"{dtype_name(dtype)}({print_expr(value)})"
        case Apply("neg", (value,)):
            return f"-{print_expr(value, _ATOM)}"
        case Apply("logical_not", (value,)):
            text = f"not {print_expr(value, 3)}"
            return f"({text})" if precedence > 3 else text
        case Apply(op, args):
            infix = OPERATIONS[op].infix
            if not infix:
                return f"{op}({', '.join(map(print_expr, args))})"
            # A right operand of the same precedence keeps its parentheses: ``a - (b - c)`` is not ``a - b - c``.
            own_precedence = _PRECEDENCE[infix]
            text = f"{print_expr(args[0], own_precedence)} {infix} {print_expr(args[1], own_precedence + 1)}"
            return f"({text})" if own_precedence < precedence else text
        case _:
            assert_never(body)


def print_number(value: bool | float, dtype: torch.dtype) -> str:
    """The shortest decimal that the dtype rounds to the value."""
    if isinstance(value, (bool, int)) or not math.isfinite(value):
        return repr(value)
    # A float32 of 0.1 is 0.10000000149011612 as a Python float; float32 rounds 0.1 to the same value. 17 digits
    # distinguish all doubles.
    for digits in range(1, 18):
        text = repr(float(f"{value:.{digits}g}"))
        if torch.tensor(float(text), dtype=dtype).item() == value:
            return text
    return repr(value)


def print_index(index: Index, gathers: tuple[Gather, ...] = ()) -> str:
    """Print an index expression, with ``//`` and ``%``; each symbol of a gathered index is printed as that index."""
    names = {each.symbol: print_expr(each.value) for each in gathers}
    return _index(index, names, 0)


def _index(index: Any, names: dict[Any, str], precedence: int) -> str:
    if isinstance(index, (FloorDiv, Mod)):
        sign = "//" if isinstance(index, FloorDiv) else "%"
        text, own_precedence = f"{_index(index.args[0], names, 10)} {sign} {_index(index.args[1], names, 11)}", 10
    elif isinstance(index, sympy.Mul):
        # Numbers, then sizes, then loop variables: ``4*s0*i1``, whatever order sympy keeps.
        factors = sorted(index.args, key=lambda factor: (not factor.is_number, not _is_size(factor), str(factor)))
        if factors[0] == -1:
            return _negative(factors[1:], names, precedence)
        text, own_precedence = "*".join(_index(each, names, 10 if n == 0 else 11) for n, each in enumerate(factors)), 10
    elif isinstance(index, sympy.Add):
        # Positive terms come first, so that the text does not begin with a minus; a constant comes last:
        # ``i0 - r0 + 3``.
        terms = sorted(
            index.args, key=lambda term: (term.is_number, term.could_extract_minus_sign(), str(_variable(term)))
        )
        text, own_precedence = _index(terms[0], names, 9), 9
        for term in terms[1:]:
            negative = term.could_extract_minus_sign()
            text += f" - {_index(-term, names, 10)}" if negative else f" + {_index(term, names, 10)}"
    elif index in names:
        text, own_precedence = names[index], _ATOM
    else:
        text, own_precedence = str(index), _ATOM if not (index.is_number and index < 0) else 9
    return f"({text})" if own_precedence < precedence else text


def _negative(factors: list[Any], names: dict[Any, str], precedence: int) -> str:
    text = "-" + "*".join(_index(each, names, 11) for each in factors)
    return f"({text})" if precedence > 9 else text


def _is_size(factor: Any) -> bool:
    # ``i``, ``r`` and ``g`` begin the names of loops, of reduced loops and of gathered indices (ir/index.py).
    return isinstance(factor, sympy.Symbol) and factor.name[0] not in "irg"


def _variable(term: Any) -> Any:
    loops = [each for each in term.free_symbols if each.name[0] in "irg"]
    return sorted(map(str, loops)) or str(term)


def dtype_name(dtype: torch.dtype) -> str:
    """``float32``."""
    return str(dtype).removeprefix("torch.")


def print_type(dtype: torch.dtype, layout: Layout) -> str:
    """Print dtype and size, ``float32[8, 64]``, with the strides where they are not row-major."""
    text = f"{dtype_name(dtype)}[{', '.join(map(print_index, layout.size))}]"
    if same_addresses(layout, contiguous(layout.size)):
        return text
    return f"{text} stride ({', '.join(map(print_index, layout.stride))})"


def print_body(buffer: Buffer) -> str:
    """Print the definition of a buffer, without its name and type."""
    match buffer:
        case GraphInput(position=position):
            return f"argument {position}"
        case GraphAttribute(attribute=attribute):
            return f"attribute {attribute}"
        case Pointwise(body=body):
            return print_expr(body)
        case Reduction(body=body, kind=kind, reduced=reduced, dtype=dtype, accumulate=accumulate):
            loops = ", ".join(f"{reduction_variable(at)} < {print_index(n)}" for at, n in enumerate(reduced))
            text = f"{kind} over {loops or 'nothing'} of {print_expr(body)}"
            return text if dtype == accumulate or kind[:3] == "arg" else f"{dtype_name(dtype)}({text})"
        case Scan(body=body, kind=kind, dim=dim, dtype=dtype, accumulate=accumulate):
            text = f"{kind} along i{dim} so far of {print_expr(body)}"
            return text if dtype == accumulate or kind[:3] == "arg" else f"{dtype_name(dtype)}({text})"
        case Scatter(body=body, size=size, position=position, kind=kind, into=into):
            element = f"{into}[{', '.join(map(print_expr, position))}]"
            loops = ", ".join(f"i{at} < {print_index(n)}" for at, n in enumerate(size))
            return f"{into} with {_print_update(element, kind, body)} for {loops or 'one element'}"
        case Extern(target=target, args=args, kwargs=kwargs):
            named = [f"{key}={print_argument(each)}" for key, each in kwargs.items()]
            return f"{target}({', '.join([*map(print_argument, args), *named])})"
        case ExternOutput(extern=extern, path=path):
            return extern + "".join(f"[{at}]" for at in path)
        case _:
            assert_never(buffer)


def _print_update(element: str, kind: str, value: Expr) -> str:
    """``buf0[ids[i0]] += x[i0]``."""
    if kind in ("max", "min"):
        return f"{element} = {kind}({element}, {print_expr(value)})"
    return f"{element} {_UPDATE.get(kind, '=')} {print_expr(value)}"


def print_argument(value: Any) -> str:
    """Print an argument of an extern call."""
    match value:
        case BufferView(name, layout):
            return f"{name}({print_layout(layout)})"
        case ModuleReference(attribute):
            return f"self.{attribute}"
        case list() | tuple():
            return f"[{', '.join(map(print_argument, value))}]"
        case sympy.Basic():
            return print_index(value)
        case _:
            return repr(value)


def print_layout(layout: Layout) -> str:
    """Print a layout, ``8x64``, with stride and offset where they are not the default."""
    text = "x".join(print_index(each) for each in layout.size) or "scalar"
    if not same_addresses(Layout(layout.size, layout.stride), contiguous(layout.size)):
        text += f", stride {'x'.join(print_index(each) for each in layout.stride)}"
    return text if layout.offset == 0 else f"{text}, from {print_index(layout.offset)}"


def print_buffer(buffer: Buffer) -> str:
    """Print a buffer in one line: name, type, definition."""
    match buffer:
        case Extern(reason=reason):
            return f"{buffer.name} = {print_body(buffer)}    # {reason}"
        case Pointwise(writes_to=target) if target:
            return f"{target}.copy_: {print_type(buffer.dtype, buffer.layout)} = {print_body(buffer)}"
        case _:
            return f"{buffer.name}: {print_type(buffer.dtype, buffer.layout)} = {print_body(buffer)}"


def print_program(program: Program) -> str:
    """Print all buffers and the results."""
    lines = [print_buffer(each) for each in program.buffers]
    return "\n".join([*lines, f"return {', '.join(map(_output, program.outputs))}"])


def _output(value: Any) -> str:
    return value.buffer if isinstance(value, BufferView) and value.layout.offset == 0 else print_argument(value)


# -- kernels --------------------------------------------------------------------------------------

_UPDATE = {"sum": "+=", "dot": "+=", "dot_tf32": "+=", "prod": "*=", "any": "or=", "all": "and="}


def print_kernel(kernel: Kernel) -> str:
    """Print loops and statements, indented."""
    lines = [f"{kernel.name}({', '.join(kernel.reads)}) -> {', '.join(kernel.writes)}"]
    lines += [f"    {line}" for part in kernel.parts for line in print_kernel(part).splitlines()]
    depth = 1
    if kernel.loops:
        lines.append(f"    parallel for {_loops(kernel.loops)}:")
        depth = 2
    lines += [f"{'    ' * depth}{s.name} = row of {print_index(s.size)} {dtype_name(s.dtype)}" for s in kernel.scratch]
    for statement in kernel.body:
        match statement:
            case Nest(loops, body):
                lines.append(f"{'    ' * depth}for {_loops(loops)}:")
                lines += [f"{'    ' * (depth + 1)}{print_statement(each)}" for each in body]
            case _:
                lines.append(f"{'    ' * depth}{print_statement(statement)}")
    return "\n".join(lines)


def _loops(loops: tuple[Loop, ...]) -> str:
    return ", ".join(f"{loop.variable} < {print_index(loop.size)}" for loop in loops)


def print_statement(statement: Inner) -> str:
    """Print one statement of a kernel."""
    match statement:
        case Let(name, value):
            return f"{name} = {print_expr(value)}"
        case Store(buffer, offset, value):
            return f"{buffer}[{print_index(offset)}] = {print_expr(value)}"
        case Update(buffer, offset, value, kind):
            return _print_update(f"{buffer}[{print_index(offset.index, offset.gathers)}]", kind, value)
        case Accumulate(name, kind, value, index):
            if kind in _UPDATE:
                return f"{name} {_UPDATE[kind]} {print_expr(value)}"
            extra = f" at {print_index(index)}" if kind[:3] == "arg" else ""
            return f"{name} = {kind}({name}, {print_expr(value)}{extra})"
        case Carry(name, kind, value, index):
            extra = f" at {print_index(index)}" if kind[:3] == "arg" else ""
            return f"{name} = {kind} so far of {print_expr(value)}{extra}"
        case _:
            assert_never(statement)


def print_schedule(schedule: Schedule) -> str:
    """Print all steps in order."""
    tensors = schedule.program.tensors()
    lines: list[str] = []
    for step in schedule.steps:
        match step:
            case Allocate(name):
                lines.append(f"{name} = empty {_type(tensors[name])}")
            case Reuse(name, old):
                lines.append(f"{name} = {old} again, as {_type(tensors[name])}")
            case Free(name):
                lines.append(f"free {name}")
            case Extern():
                lines.append(print_buffer(step))
            case Kernel():
                lines.append(print_kernel(step))
            case _:
                assert_never(step)
    return "\n".join([*lines, f"return {', '.join(map(_output, schedule.program.outputs))}"])


def _type(tensor: Tensor) -> str:
    return print_type(tensor.dtype, tensor.layout)
