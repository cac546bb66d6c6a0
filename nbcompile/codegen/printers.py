"""Index expressions and scalar operations as text of the target language.

    c_index(8*i0 + i1//2)                         "8*i0 + floor_div(i1, 2)"
    python_index(s77*8)                           "8*s77"
    CPP_OPERATIONS["maximum"]                     "maximum({0}, {1})"

In torch: torch/_inductor/codegen/cpp_utils.py (CppPrinter), torch/utils/_sympy/printers.py. Read next:
nbcompile/codegen/cpp.py
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import sympy
import torch

from nbcompile.ir.expr import OPERATIONS
from nbcompile.ir.index import Index, Symbol


class UnprintableIndex(NotImplementedError):
    """A function of sizes that the target language lacks: the graph falls back to ATen."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """Syntax of integer functions in one language."""

    floor_div: str
    mod: str
    smaller: str
    larger: str
    wide: str = "{0}"
    """Literal that does not fit in 32 bits."""
    functions: Mapping[str, str] = field(default_factory=dict)
    """Other functions of torch's symbolic numbers, by the name of their class."""
    unary: str = ""
    """Text before the name of a function of ``math``."""


SIGNS = {
    "BitwiseFn_bitwise_and": "&",
    "BitwiseFn_bitwise_or": "|",
    "BitwiseFn_bitwise_xor": "^",
    "LShift": "<<",
    "RShift": ">>",
}
"""Integer operators that all dialects share."""

C_FUNCTIONS = {
    "Abs": "abs_of({0})",
    "PowByNatural": "int_pow({0}, {1})",
    "ToFloat": "((f64){0})",
    "IntTrueDiv": "((f64){0} / (f64){1})",
    "FloorToInt": "((i64)__builtin_floor({0}))",
    "CeilToInt": "((i64)__builtin_ceil({0}))",
    "TruncToInt": "((i64)({0}))",
    "RoundToInt": "((i64)__builtin_nearbyint({0}))",
}
PYTHON_FUNCTIONS = {
    "FloorToInt": "int({0} // 1)",
    "CeilToInt": "-int(-{0} // 1)",
    "TruncToInt": "int({0})",
    "RoundToInt": "round({0})",
    "Abs": "abs({0})",
    "PowByNatural": "({0}**{1})",
    "ToFloat": "float({0})",
    "FloatTrueDiv": "({0} / {1})",
    "IntTrueDiv": "({0} / {1})",
    "Not": "(not {0})",
}
_UNARY = "OpaqueUnaryFn_"
"""Prefix of the names of torch's classes for functions of ``math``."""
C = Dialect(
    "floor_div({0}, {1})", "mod({0}, {1})", "min_of({0}, {1})", "max_of({0}, {1})", "{0}L", C_FUNCTIONS, "__builtin_"
)
PYTHON = Dialect(
    "({0} // {1})", "({0} % {1})", "min({0}, {1})", "max({0}, {1})", functions=PYTHON_FUNCTIONS, unary="math."
)
TRITON = Dialect("({0} // {1})", "({0} % {1})", "tl.minimum({0}, {1})", "tl.maximum({0}, {1})")


def c_index(expression: Index, names: Mapping[Symbol, str] | None = None) -> str:
    """An index as C++ over i64 (``names`` replaces symbols by text)."""
    return print_index(expression, C, names)


def python_index(expression: Index) -> str:
    """A size as Python."""
    return print_index(expression, PYTHON)


def python_number(expression: sympy.Basic) -> str:
    """Any symbolic number (also a float or a truth value) as Python."""
    match expression:
        case sympy.logic.boolalg.BooleanAtom():
            return str(bool(expression))
        case sympy.Float():
            return repr(float(expression))
        case sympy.Rational() if not expression.is_integer:
            return f"({expression.p} / {expression.q})"
        case sympy.core.relational.Relational(lhs=left, rhs=right, rel_op=sign):
            return f"({python_number(left)} {sign} {python_number(right)})"
    kind = type(expression).__name__
    if kind in ("Add", "Mul", "FloatPow", "Pow") and not expression.is_integer:
        sign = {"Add": " + ", "Mul": "*"}.get(kind, "**")
        return f"({sign.join(_python_operand(arg) for arg in expression.args)})"
    return print_index(expression, PYTHON)


def _python_operand(expression: sympy.Basic) -> str:
    text = python_number(expression)
    return text if expression.is_Atom else f"({text})"


def print_index(expression: Index, dialect: Dialect, names: Mapping[Symbol, str] | None = None) -> str:
    """An integer expression as text."""

    def text(node: sympy.Basic, tight: bool) -> str:
        match node:
            case sympy.Integer():
                number = str(int(node))
                plain = dialect.wide.format(number) if abs(int(node)) >= 2**31 else number
                return f"({plain})" if tight and int(node) < 0 else plain
            case sympy.Float() if dialect.functions:  # in TruncToInt(1.7*ToFloat(s0)), a size of `interpolate`
                return repr(float(node))
            case sympy.Symbol():
                return (names or {}).get(node, node.name)
            case sympy.Add():
                printed = " + ".join(text(term, False) for term in _ordered(_terms(node))).replace(" + -", " - ")
                return f"({printed})" if tight else printed
            case sympy.Mul() | sympy.Rational() | sympy.Pow() if (parts := sympy.fraction(node))[1] != 1:
                return dialect.floor_div.format(*(text(part, True) for part in parts))  # without a remainder
            case sympy.Mul():
                printed = "*".join(text(arg, True) for arg in node.args)
                return f"({printed})" if tight else printed
            case sympy.Pow(args=(base, sympy.Integer() as power)) if int(power) > 0:
                return "*".join([text(base, True)] * int(power))
            case _ if type(node).__name__ in {"Min", "Max"}:  # SymPy's own or torch's
                pattern = dialect.smaller if type(node).__name__ == "Min" else dialect.larger
                parts = [text(arg, False) for arg in node.args]
                printed = parts[0]
                for part in parts[1:]:
                    printed = pattern.format(printed, part)
                return printed
        return _function(node, dialect, text)

    return text(expression, False)


def _function(node: sympy.Basic, dialect: Dialect, operand: Callable[[sympy.Basic, bool], str]) -> str:
    """A function of integers, or a comparison, as text; ``operand`` prints an argument, in parentheses if requested."""
    parts = [
        operand(arg, True) if arg.is_integer or dialect is not PYTHON else _python_operand(arg) for arg in node.args
    ]
    kind = type(node).__name__
    if kind in dialect.functions:
        return dialect.functions[kind].format(*parts)
    match kind:
        case _ if isinstance(node, sympy.core.relational.Relational):
            return f"({parts[0]} {node.rel_op} {parts[1]})"
        case "And" | "Or" if dialect is PYTHON:
            return f"({f' {kind.lower()} '.join(parts)})"
        case _ if kind.startswith(_UNARY) and dialect.unary:
            return f"{dialect.unary}{kind.removeprefix(_UNARY)}({parts[0]})"
        case "FloorDiv" | "CleanDiv":
            return _division(node, dialect, "/", dialect.floor_div, parts)
        case "Mod" | "PythonMod":
            return _division(node, dialect, "%", dialect.mod, parts)
        # x // divisor % modulus: torch's function for the indices of a view with several dimensions.
        case "ModularIndexing":
            return dialect.mod.format(dialect.floor_div.format(parts[0], parts[1]), parts[2])
        case "CeilDiv":
            return dialect.floor_div.format(f"({parts[0]} + {parts[1]} - 1)", parts[1])
        case _ if kind in SIGNS:
            return f"({parts[0]} {SIGNS[kind]} {parts[1]})"
        case "PowByNatural":  # Triton has none for integers
            raise UnprintableIndex(f"a power of symbols, {node}, in an index")
    raise NotImplementedError(f"no text for the index {node} ({kind})")


def _terms(total: sympy.Add) -> tuple[sympy.Basic, ...]:
    """Terms of a sum; fractions are one term, as only their sum is known to be an integer."""
    fractions = [arg for arg in total.args if sympy.fraction(arg)[1] != 1]
    if not fractions:
        return tuple(total.args)
    return (*(arg for arg in total.args if arg not in fractions), sympy.together(sympy.Add(*fractions)))


def _ordered(terms: tuple[sympy.Basic, ...]) -> list[sympy.Basic]:
    # Terms with variables first, a constant last; no negative term comes first.
    return sorted(terms, key=lambda term: (term.is_number, bool(term.could_extract_minus_sign()), str(term)))


def _division(node: sympy.Basic, dialect: Dialect, operator: str, general: str, parts: list[str]) -> str:
    # C's operators agree with the mathematical ones for nonnegative operands, and are much faster.
    #     -7 // 2 is -4 in Python and SymPy, -3 in C;  -7 % 2 is 1, and -1 in C
    known = isinstance(node.args[1], sympy.Integer) and int(node.args[1]) > 0 and node.args[0].is_nonnegative
    if dialect is C and known:
        return f"({parts[0]} {operator} {parts[1]})"
    if dialect is TRITON and not node.args[0].is_nonnegative:
        # Triton's operators are C's, which round towards zero; divisors are positive.
        rest = f"(({parts[0]} % {parts[1]} + {parts[1]}) % {parts[1]})"
        return rest if operator == "%" else f"(({parts[0]} - {rest}) // {parts[1]})"
    return general.format(*parts)


C_TYPES: dict[torch.dtype, str] = {
    torch.float32: "f32", torch.float64: "f64", torch.bfloat16: "bf16", torch.float16: "f16", torch.bool: "bool",
    torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
    torch.uint8: "u8", torch.uint16: "u16", torch.uint32: "u32", torch.uint64: "u64",
}  # fmt: skip

_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/",
    "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "logical_and": "&", "logical_or": "|", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^",
}  # fmt: skip
_PREFIX = {"neg": "-", "logical_not": "!", "bitwise_not": "~"}
_ON_BOOLS = {"add": "{0} | {1}", "mul": "{0} & {1}", "sign": "{0}", "abs": "{0}"}


def _call(name: str, arity: int) -> str:
    return f"{name}({', '.join(f'{{{at}}}' for at in range(arity))})"


APPROXIMATE = {"gelu": "approximate_gelu"}
"""Functions with a faster approximation that is accurate enough for bfloat16."""
CPP_OPERATIONS: dict[str, str] = {
    rough: _call(rough, OPERATIONS[name].arity) for name, rough in APPROXIMATE.items()
} | {
    name: f"{{0}} {_INFIX[name]} {{1}}"
    if name in _INFIX
    else f"{_PREFIX[name]}{{0}}"
    if name in _PREFIX
    else _call(name, operation.arity)
    for name, operation in OPERATIONS.items()
    if name != "cast"
}
"""C++ of each operation over Vec, by functions of nbvec.h."""


def cpp_operation(name: str, dtype: torch.dtype) -> str:
    """The pattern for an operation on arguments of a dtype."""
    # A vector of bools is a mask: its sum is an or, its product an and.
    return _ON_BOOLS[name] if dtype == torch.bool and name in _ON_BOOLS else CPP_OPERATIONS[name]


def c_literal(value: bool | float, dtype: torch.dtype) -> str:
    """A number as C++."""
    if dtype == torch.bool:
        return "true" if value else "false"
    if not dtype.is_floating_point:
        return _integer(int(value), dtype)
    single = dtype != torch.float64
    if math.isnan(value):  # its sign is visible to copysign and signbit
        return ("-" if math.copysign(1, value) < 0 else "") + ('__builtin_nanf("")' if single else '__builtin_nan("")')
    if math.isinf(value):
        return ("-" if value < 0 else "") + ("__builtin_inff()" if single else "__builtin_inf()")
    if not single:
        return repr(float(value))
    # Nine digits distinguish every float32 from its neighbours.
    return _with_point(f"{struct.unpack('f', struct.pack('f', float(value)))[0]:.9g}") + "f"


def _with_point(digits: str) -> str:
    return digits if any(mark in digits for mark in ".e") else digits + ".0"


def _integer(value: int, dtype: torch.dtype) -> str:
    # -9223372036854775808 would be the negation of a literal that is no i64.
    if value == -(2**63):
        return "(-9223372036854775807L - 1)"
    if dtype == torch.uint64:
        return f"{value}UL"
    return f"{value}L" if dtype == torch.int64 else str(value)
