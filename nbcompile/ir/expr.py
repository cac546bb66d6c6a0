"""Scalar expressions: the computation of one element of a buffer, as a tree over loads.

The loop variables in the indices of a body are bound by the buffer
(buffer.py) or the kernel (kernel.py) that it belongs to.

    y = torch.tanh(x + 1)        x: float32[8, 4]
    Apply("tanh", (Apply("add", (Load("x", (i0, i1), float32), Constant(1.0, float32)), float32),), float32)
    tanh(x[i0, i1] + 1.0)        as printer.py prints it

Nothing is implicit. Every node has the dtype of its value; all operands of an
operation have the dtype that it computes in, casts are operations, and
bfloat16, float16 and the types of :data:`FLOAT8` are cast to float32 after the
load: only loads, ``cast`` and ``where`` have values of such a type.

In torch: torch/_inductor/ops_handler.py (where a body is a closure). Read
next: nbcompile/ir/buffer.py
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch

from nbcompile.ir import scalars
from nbcompile.ir.index import Index, Symbol


class Operators:
    """Mixin with ``+ - * /`` and unary ``-`` on expressions; a plain number takes the dtype of the other operand."""

    __slots__ = ()

    def __add__(self, other: Expr | float) -> Expr:
        return apply("add", self, other)

    def __radd__(self, other: float) -> Expr:
        return apply("add", other, self)

    def __sub__(self, other: Expr | float) -> Expr:
        return apply("sub", self, other)

    def __rsub__(self, other: float) -> Expr:
        return apply("sub", other, self)

    def __mul__(self, other: Expr | float) -> Expr:
        return apply("mul", self, other)

    def __rmul__(self, other: float) -> Expr:
        return apply("mul", other, self)

    def __truediv__(self, other: Expr | float) -> Expr:
        return apply("div", self, other)

    def __rtruediv__(self, other: float) -> Expr:
        return apply("div", other, self)

    def __neg__(self) -> Expr:
        return apply("neg", self)


Origin = tuple[str, ...]
"""The fx nodes that an expression comes from, set by :func:`with_origin`. It does not count in comparisons."""


@dataclass(frozen=True, slots=True)
class Gather:
    """An index that is read from memory: ``symbol`` has this value in the index it belongs to."""

    symbol: Symbol
    value: Expr
    """An integer; its own loop variables are those of the body."""
    size: Index
    """Bound of the value: ``[0, size)``, or ``[-size, size)`` if it wraps; checked at run time."""
    wraps: bool
    """True if -1 is the last element."""
    error: str = "index {index} is out of bounds for dimension with size {size}"
    """Text of the error, an IndexError if it begins with no other class (``RuntimeError: ...``)."""


@dataclass(frozen=True, slots=True)
class Load(Operators):
    """One element of a buffer.

    In a Program ``index`` has one entry per dimension of the buffer. In a
    Kernel it has exactly one: the offset in memory, counted in elements from
    the buffer's data pointer (or the element of a scratch row).
    """

    buffer: str
    index: tuple[Index, ...]
    dtype: torch.dtype
    gathers: tuple[Gather, ...] = ()
    """Bindings of the symbols of ``index`` that are no loop variables and no sizes."""
    origin: Origin = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class Constant(Operators):
    """A number: a bool for ``torch.bool``, an int for integers, a float (also inf and nan) otherwise.

    Bodies are compared and hashed, so constants are equal where they are the
    same number (ir/scalars.py): 0.0 and -0.0 differ, NaN equals NaN.
    """

    value: bool | int | float
    dtype: torch.dtype

    def __eq__(self, other: object) -> bool:
        """Compare number and dtype."""
        if not isinstance(other, Constant):
            return NotImplemented
        return self.dtype == other.dtype and scalars.same(self.value, other.value)

    def __hash__(self) -> int:
        """Hash number and dtype."""
        return hash((scalars.key(self.value), self.dtype))


@dataclass(frozen=True, slots=True)
class IndexOf(Operators):
    """The value of an index expression: ``arange`` is ``IndexOf(i0)``."""

    index: Index
    dtype: torch.dtype
    gathers: tuple[Gather, ...] = ()
    origin: Origin = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Apply(Operators):
    """One operation of :data:`OPERATIONS` on values."""

    op: str
    args: tuple[Expr, ...]
    dtype: torch.dtype
    origin: Origin = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Masked(Operators):
    """``value`` where ``condition`` holds, else ``otherwise``; loads in ``value`` are executed only where it holds.

    Padding and concatenation are masked: elsewhere the address would be out of bounds.
    (``torch.where`` is ``Apply("where", ...)``: both operands can be computed.)
    """

    condition: Expr
    value: Expr
    otherwise: Expr
    origin: Origin = field(default=(), compare=False, repr=False)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of both sides."""
        return self.value.dtype


@dataclass(frozen=True, slots=True)
class Local(Operators):
    """Reference to the value of an earlier ``Let``, ``Accumulate`` or ``Carry`` of the kernel."""

    name: str
    dtype: torch.dtype


Expr = Load | Constant | IndexOf | Apply | Masked | Local


@dataclass(frozen=True, slots=True)
class Operation:
    """One entry of the vocabulary that code generators implement."""

    arity: int
    kind: str
    """``arithmetic`` (result has the arguments' dtype), ``comparison`` (result is bool),
    ``logical`` (bool to bool), ``bitwise`` (integers or bool), ``float`` (floating types only), ``random`` (int64),
    ``cast`` (any to any), ``where`` (bool, T, T -> T)."""
    infix: str = ""
    """The infix operator that it is printed as, if any."""
    cost: int = 1
    """Rough cost in additions, for the choice between recomputing and storing."""


def _entries(kind: str, arity: int, names: str, cost: int = 1) -> dict[str, Operation]:
    return {name: Operation(arity, kind, _INFIX.get(name, ""), cost) for name in names.split()}


_INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">",
    "ge": ">=", "logical_and": "and", "logical_or": "or", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^",
    "shift_left": "<<", "shift_right": ">>",
}  # fmt: skip

OPERATIONS: dict[str, Operation] = {
    **_entries("arithmetic", 2, "add sub mul"),
    # maximum and minimum: nan if either is nan; fmax and fmin: the other one if one is nan. Of two zeros maximum and
    # minimum give the second, fmax and fmin the first.
    **_entries("arithmetic", 2, "maximum minimum fmax fmin"),
    # floor_div rounds down, trunc_div towards zero (both also on floats); remainder has the divisor's
    # sign, fmod the dividend's. An integer divisor that is 0 is an error.
    **_entries("arithmetic", 2, "floor_div trunc_div remainder fmod", 8),
    **_entries("arithmetic", 2, "pow", 20),
    **_entries("arithmetic", 1, "neg abs sign"),
    **_entries("float", 2, "div", 4),
    # a * b + c, rounded once.
    **_entries("float", 3, "fma"),
    **_entries("float", 2, "atan2 hypot copysign nextafter", 20),
    # round: half to even.
    **_entries("float", 1, "floor ceil trunc round"),
    **_entries("float", 1, "sqrt rsqrt reciprocal", 4),
    **_entries("float", 1, "exp exp2 expm1 log log2 log10 log1p sigmoid tanh erf ndtr gelu", 10),
    **_entries("float", 1, "sin cos tan asin acos atan sinh cosh asinh acosh atanh erfc erfinv lgamma digamma", 20),
    **_entries("comparison", 2, "eq ne lt le gt ge"),
    **_entries("comparison", 1, "isnan isinf signbit"),
    **_entries("logical", 2, "logical_and logical_or"),
    **_entries("logical", 1, "logical_not"),
    # A shift by more than the width gives 0 (or -1 for a negative number shifted right).
    **_entries("bitwise", 2, "bitwise_and bitwise_or bitwise_xor shift_left shift_right"),
    **_entries("bitwise", 1, "bitwise_not"),
    # (seed, counter), both int64, to 64 random bits: the first two words of Philox4x32-10.
    **_entries("random", 2, "philox", 60),
    # float -> integer truncates; any -> bool is != 0; float32 -> bfloat16 rounds half to even.
    **_entries("cast", 1, "cast"),
    **_entries("where", 3, "where"),
}


_NEUTRAL: dict[str, bool | int] = {"logical_and": True, "logical_or": False, "mul": 1}


FLOAT8 = frozenset({torch.float8_e4m3fn, torch.float8_e5m2})
"""Floating types of 8 bits that kernels for a GPU cast from and to."""
NARROW_FLOATS = FLOAT8 | {torch.bfloat16, torch.float16}
"""Floating types that are computed in float32."""


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    """The type in which operations on a dtype are computed inside a kernel."""
    return torch.float32 if dtype in NARROW_FLOATS else dtype


def apply(op: str, *args: object) -> Expr:
    """Build an operation, with the dtype that its kind implies; plain numbers take the dtype of the last operand.

    ``apply("lt", x, 0.0)`` is bool; ``apply("where", c, x, 0.0)`` has x's dtype.
    """
    operation = OPERATIONS[op]
    values = [each for each in args if isinstance(each, Operators)]
    typed: Expr = values[-1] if op != "where" else next(each for each in args[1:] if isinstance(each, Operators))  # type: ignore[assignment]
    operands = tuple(each if isinstance(each, Operators) else constant(each, typed.dtype) for each in args)  # type: ignore[arg-type]
    assert len(operands) == operation.arity, (op, operands)
    dtype = torch.bool if operation.kind in ("comparison", "logical") else typed.dtype
    # "+ 0" is not among them: -0.0 + 0 is 0.0.
    if op in _NEUTRAL:
        # "and True", "or False", "* 1": the other operand.
        for this, other in (operands, operands[::-1]):
            if isinstance(this, Constant) and this.value == _NEUTRAL[op]:
                return other  # type: ignore[return-value]
    return Apply(op, operands, dtype)  # type: ignore[arg-type]


def cast(value: Expr, dtype: torch.dtype) -> Expr:
    """Cast ``value``; no operation is added where it has the dtype already, or had it before it was widened."""
    if value.dtype == dtype:
        return value
    # A cast to a wider type and back has no effect: bfloat16 -> float32 -> bfloat16 gives the same number.
    if (
        isinstance(value, Apply)
        and value.op == "cast"
        and value.args[0].dtype == dtype
        and _represents_all(value.dtype, dtype)
    ):
        return value.args[0]
    if isinstance(value, Constant):
        return constant(value.value, dtype)
    # An index is computed in the required integer type at once.
    if isinstance(value, IndexOf):
        return replace(value, dtype=dtype) if not dtype.is_floating_point else Apply("cast", (value,), dtype)
    return Apply("cast", (value,), dtype)


def _represents_all(wide: torch.dtype, narrow: torch.dtype) -> bool:
    """Return whether every number of the narrow dtype is a number of the wide one."""
    if torch.bool in (narrow, wide) or wide.is_complex or narrow.is_complex:
        return narrow == torch.bool
    if narrow.is_floating_point:
        return wide.is_floating_point and wide.itemsize > narrow.itemsize
    numbers = torch.iinfo(narrow)
    if wide.is_floating_point:
        # Up to 2 / eps every whole number is exact: 2**24 in float32.
        return 2 / torch.finfo(wide).eps >= numbers.max
    return torch.iinfo(wide).min <= numbers.min and numbers.max <= torch.iinfo(wide).max


class UnsupportedDtype(Exception):
    """A dtype that generated code does not support (complex numbers)."""

    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__(f"{dtype} is not computed with")


def constant(value: bool | float, dtype: torch.dtype) -> Constant:
    """A constant converted as ATen converts scalars: from float64, whatever the default dtype is.

    Raises:
        UnsupportedDtype: the dtype is complex.
    """
    if dtype.is_complex:
        raise UnsupportedDtype(dtype)
    widest = torch.float64 if isinstance(value, float) else None
    converted = torch.tensor(value, dtype=widest).to(dtype).item()
    assert isinstance(converted, (bool, int, float))
    return Constant(converted, dtype)
