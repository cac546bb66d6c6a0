"""Scopes of vector code: the loop, the mask and the available values where an expression is emitted.

    Scope(writer, names, vector=i1, ...)      inside the loop over i1: W elements at a time
    is_loop_invariant(scope, x[i0])           True: hoisted in front of the loop

In torch: torch/_inductor/codegen/cpp.py (``CppVecKernel``). Read next: nbcompile/codegen/vector_expr.py
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from nbcompile.codegen.printers import C_TYPES
from nbcompile.codegen.writer import SourceWriter
from nbcompile.ir.expr import Constant, Expr, Gather, IndexOf, Load, Local, Masked
from nbcompile.ir.index import Index, Symbol
from nbcompile.ir.traversal import children, walk


@dataclass(frozen=True, slots=True)
class Value:
    """C++ text of a value, and whether it is a vector."""

    text: str
    is_vector: bool
    dtype: torch.dtype
    origin: tuple[str, ...] = ()
    """fx nodes that the text computes."""
    line: list[str] | None = None
    """Origins of the line that assigns it to a name; its users are added to them."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """Active lanes where a value is computed: C++ text of the mask for vectors and for scalars."""

    vector: str = "lanes"
    scalar: str = "All{}"


@dataclass(slots=True)
class KernelNames:
    """Names and tables that a whole kernel shares."""

    pointers: Mapping[str, str]
    """C++ name of each buffer and scratch row."""
    error_messages: list[str] = field(default_factory=list)
    extents: Mapping[Symbol, Index] = field(default_factory=dict)
    """Number of iterations of each loop."""
    offset_tables: dict[tuple[Index, Symbol], str] = field(default_factory=dict)
    """Names of the constexpr tables of offsets that a loop loads, by index and variable."""
    used_types: set[tuple[str, bool]] = field(default_factory=set)
    has_inputs: bool = True
    """False for a kernel that computes from indices and constants alone (``arange``)."""
    counter: int = 0

    def fresh(self, stem: str) -> str:
        """Return an unused name."""
        self.counter += 1
        return f"{stem}{self.counter}"


@dataclass(slots=True)
class Scope:
    """Context in which values are computed: loop, mask, and available values."""

    writer: SourceWriter
    names: KernelNames
    vector: Symbol | None
    """Vectorised loop variable; None: scalars only."""
    locals: dict[str, Value]
    lanes: Lanes = field(default_factory=Lanes)
    shared: SourceWriter | None = None
    """Lines before the vectorised loop: loop-invariant values are hoisted there."""
    inner: frozenset[str] = frozenset()
    """KernelNames that exist only inside the vector loop (other than the vector variable)."""
    stored: frozenset[str] = frozenset()
    """Buffers that the loop writes: loads of them are not hoisted."""
    transposed_loads: Mapping[Load, str] = field(default_factory=dict)
    """Addresses of loads that a tile or panel already holds (transpose_tiles.py, packed_panels.py)."""
    origin: tuple[str, ...] = ()
    """fx nodes whose value is being computed."""
    computed: dict[tuple[Expr, Lanes], Value] = field(default_factory=dict)
    checked_indices: dict[tuple[Gather, Lanes], Value] = field(default_factory=dict)
    """Indices that were loaded and bounds-checked: integers of C++, where a computed scalar is a vector of one."""
    uses: Counter[Expr] = field(default_factory=Counter)


def type_name(scope: Scope, dtype: torch.dtype, is_vector: bool) -> str:
    """C++ type: ``F32`` for a vector of floats, ``F32_1`` for a scalar."""
    name = C_TYPES[dtype]
    scope.names.used_types.add((name, is_vector))
    return name.upper() + ("" if is_vector else "_1")


def as_vector(scope: Scope, value: Value) -> str:
    """Text of the value as a vector; a scalar is broadcast."""
    # A scalar is broadcast only where an operation combines it with a vector, so that scalar arithmetic runs once.
    return value.text if value.is_vector else f"{type_name(scope, value.dtype, True)}({value.text})"


def varies(scope: Scope, body: Expr) -> bool:
    """Return whether a value differs between lanes."""
    for node in walk(body):
        match node:
            case Local(name):
                if scope.locals[name].is_vector:
                    return True
            case Load(index=index):
                if any(scope.vector in expression.free_symbols for expression in index):
                    return True
            case IndexOf(index=index):
                if scope.vector in index.free_symbols:
                    return True
    return False


def merge_origins(*origins: tuple[str, ...]) -> tuple[str, ...]:
    """Union of several origins, in order."""
    return tuple(dict.fromkeys(node for origin in origins for node in origin))


def origin_of(body: Expr) -> tuple[str, ...]:
    """Fx nodes that the root of a body computes; none for a constant or a local."""
    return () if isinstance(body, (Constant, Local)) else body.origin


def is_loop_invariant(scope: Scope, body: Expr) -> bool:
    """Return whether a value can be hoisted out of the vectorised loop."""
    for node in walk(body):
        match node:
            case Local(name) if name in scope.inner:
                return False
            case Load(buffer=buffer, index=index, gathers=gathers):
                if (
                    gathers
                    # The loop may change it from one iteration to the next.
                    or buffer in scope.stored
                    or any(_depends_on_loop(scope, expression) for expression in index)
                ):
                    return False
            case IndexOf(index=offset, gathers=gathers) if gathers or _depends_on_loop(scope, offset):
                return False
            case Masked():
                return False
    return True


def _depends_on_loop(scope: Scope, index: Index) -> bool:
    return any(symbol.name in scope.inner or symbol == scope.vector for symbol in index.free_symbols)


def has_64_bit_lanes(scope: Scope, body: Expr) -> bool:
    """Return whether some vector in a body has 64-bit elements (then a kernel has half as many lanes)."""
    for node in walk(body):
        if node.dtype.itemsize == 8 and varies(scope, node):
            return True
        if isinstance(node, (Load, IndexOf)) and any(varies(scope, child) for child in children(node)):
            return True
    return False
