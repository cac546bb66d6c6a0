"""Offsets of the lanes of a vector load, as C++ text: one sum where all steps are uniform, else lane by lane.

    x[3*i + g]     pointer + ..., sequence<i64, W>(0, 1) * Vec<i64, W>(3) + g
    x[i // 3]      per lane, from a constexpr table where the loop is short

In torch: torch/_inductor/codegen/cpp.py (``_load_or_store_non_contiguous``). Read next:
nbcompile/codegen/vector_expr.py
"""

from __future__ import annotations

from dataclasses import dataclass

from nbcompile.codegen.machine_model import MAX_TABLE_ENTRIES
from nbcompile.codegen.printers import c_index
from nbcompile.codegen.vector_scope import (
    KernelNames,
    Scope,
)
from nbcompile.ir.expr import Gather, IndexOf, Load
from nbcompile.ir.index import ONE, ZERO, Index, Symbol, constant as number_of
from nbcompile.ir.strides import stride_along


def is_whole_row(scope: Scope, buffer: str, offset: Index) -> bool:
    """Return whether a scratch row is accessed from its start: it is padded to whole vectors, so no mask is needed."""
    return scope.names.pointers[buffer].startswith("row") and offset == scope.vector


def lane_offsets(vector: Symbol, load: Load, offset: Index, gathered: list[GatheredIndex]) -> tuple[Index, str]:
    """Split an offset into a uniform part and a vector of the rest; "" if it is not linear in the gathered indices."""
    found = {
        gather.symbol: index
        for gather, index in zip(gathers_of(load, offset), gathered, strict=True)
        if index.is_vector
    }
    # Offset = rest + step1 * index1 + step2 * index2 + ...: the rest is added to the pointer, the sum is a vector.
    moving = {
        **{symbol: index.index for symbol, index in found.items()},
        vector: "sequence<i64, W>(0, 1)",
    }
    # Linear in the values that differ between lanes, with a uniform stride; else each
    # lane is computed separately.
    steps = {symbol: stride_along(offset, symbol) for symbol in moving}
    terms = []
    for symbol, text in moving.items():
        step = steps[symbol]
        if step is None or step.free_symbols & moving.keys():
            return ZERO, ""
        if step != ZERO:
            terms.append(text if step == ONE else f"{text} * Vec<i64, W>({c_index(step)})")
    return offset.xreplace(dict.fromkeys(found, ZERO)), " + ".join(terms)


def offset_table(names: KernelNames, offset: Index, variable: Symbol) -> str:
    """Name of the table of an index along its only variable; "" if the loop is too long or symbolic."""
    # A table takes the index of one loop to a number, so no other variable may occur, and the length must be known.
    extent = number_of(names.extents.get(variable, ZERO))
    if offset.free_symbols != {variable} or not extent or extent > MAX_TABLE_ENTRIES:
        return ""
    return names.offset_tables.setdefault((offset, variable), f"offsets{len(names.offset_tables)}")


def gathers_of(node: Load | IndexOf, index: Index) -> list[Gather]:
    """Gathers of a node whose symbols an index has."""
    return [gather for gather in node.gathers if gather.symbol in index.free_symbols]


def offset_text(text: str) -> str:
    """An offset that is added to a pointer: a difference is in parentheses, since the pointer comes first."""
    return text if " - " not in text else f"({text})"


def load_call(in_range: list[str], element: str, width: str, address: str, lanes: str) -> str:
    """A load; it is conditional if it has uniform indices, which must be in range."""
    if not in_range:
        return f"load<{element}, {width}>({address}, {lanes})"
    return f"load_if<{element}, {width}>({' & '.join(in_range)}, {address}, {lanes})"


@dataclass(frozen=True, slots=True)
class GatheredIndex:
    """Index that was loaded from memory and bounds-checked."""

    index: str
    in_range: str
    is_vector: bool


def per_lane(gathered: list[GatheredIndex], node: Load | IndexOf, index: Index) -> dict[Symbol, str]:
    """C++ text of each gathered index in lane ``j``."""
    return {
        gather.symbol: f"{found.index}[j]" if found.is_vector else found.index
        for gather, found in zip(gathers_of(node, index), gathered, strict=True)
    }
