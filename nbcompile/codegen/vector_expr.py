"""C++ expressions over SIMD lanes for the scalar bodies of the IR.

    tanh(x[8*i0 + i1] + 1.0), vectorised along i1
    ->  tanh(load<f32, W>(in0 + 8*i0 + i1, lanes) + F32(1.0f))

A value is uniform (a scalar) or varies between lanes (a vector); loop-invariant
values are hoisted out of the vectorised loop. A load is contiguous, strided or a
gather. Loads of masked values are masked, so that no address out of bounds is accessed.

In torch: torch/_inductor/codegen/cpp.py (CppVecKernel). Read next:
nbcompile/codegen/cpp.py
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import sympy
import torch

from nbcompile.codegen.lane_offsets import (
    GatheredIndex,
    gathers_of,
    is_whole_row,
    lane_offsets,
    load_call,
    offset_table,
    offset_text,
    per_lane,
)
from nbcompile.codegen.machine_model import ALIGNED_SIZE, INLINE_LENGTH
from nbcompile.codegen.operation_text import DIVISIONS, operation, parenthesized
from nbcompile.codegen.printers import APPROXIMATE, C_TYPES, c_index, c_literal
from nbcompile.codegen.vector_scope import (
    Lanes,
    Scope,
    Value,
    as_vector,
    is_loop_invariant,
    merge_origins,
    origin_of,
    type_name,
)
from nbcompile.ir.emitted import ZERO_DIVISION
from nbcompile.ir.expr import Apply, Constant, Expr, Gather, IndexOf, Load, Local, Masked, Origin, compute_dtype
from nbcompile.ir.index import ZERO, Symbol, gather_variable
from nbcompile.ir.kernel import access
from nbcompile.ir.strides import max_slope, piecewise_stride, repeat_count, stride_along
from nbcompile.ir.traversal import walk


def emit_value(scope: Scope, body: Expr) -> Value:
    """Emit a body in this scope; lines are written as needed."""
    scope.uses.update(walk(body))
    return _value(scope, body)


def _value(scope: Scope, body: Expr) -> Value:
    outer_origin = scope.origin
    scope.origin = origin_of(body) or outer_origin
    # Under another mask a load has other inactive lanes: values are shared only under the same one.
    key = (body, scope.lanes)
    found = scope.computed.get(key)
    if found is None:
        found = scope.computed[key] = _named(scope, body, _attributed(scope, body, _compute(scope, body)))
    elif found.line is not None:
        # The value was computed for another node: this node becomes an origin of its line, too.
        found.line.extend(scope.origin)
    scope.origin = outer_origin
    return found


def _attributed(scope: Scope, body: Expr, value: Value) -> Value:
    """Set a value's origins: none for constants and locals, else the requesting node's and the operands'."""
    if isinstance(body, (Constant, Local)):
        return value
    return replace(value, origin=merge_origins(scope.origin, value.origin))


def _compute(scope: Scope, body: Expr) -> Value:
    match body:
        case Constant(value, dtype):
            wide = compute_dtype(dtype)  # 16-bit types hold bits: a constant is rounded to them
            text = f"{type_name(scope, wide, False)}({c_literal(value, wide)})"
            return Value(text if wide == dtype else f"cast<{C_TYPES[dtype]}>({text})", False, dtype)
        case Local(name):
            return scope.locals[name]
        case Apply(op, args, dtype):
            return _apply(scope, op, args, dtype)
        case Load():
            return _load(scope, body)
        case IndexOf():
            return _index_of(scope, body)
        case Masked(condition, value, otherwise):
            return _masked(scope, condition, value, otherwise)


def _named(scope: Scope, body: Expr, value: Value) -> Value:
    """Assign a value to a variable if it is long or reused (CSE); hoist loop-invariant values."""
    if isinstance(body, (Constant, Local)):
        return value
    outside = (
        # Nothing is hoisted out of a mask: before the loop no mask keeps the address within bounds.
        scope.shared is not None and not value.is_vector and scope.lanes == Lanes() and is_loop_invariant(scope, body)
    )
    if not outside and scope.uses[body] < 2 and len(value.text) <= INLINE_LENGTH and not isinstance(body, Masked):
        return value
    name = scope.names.fresh("t")
    target = scope.shared if outside and scope.shared is not None else scope.writer
    line = target.line(f"const auto {name} = {value.text};", value.origin)
    return replace(value, text=name, origin=(), line=line)


# --- operations ------------------------------------------------------------------------------------------------------


def _apply(scope: Scope, op: str, args: tuple[Expr, ...], dtype: torch.dtype) -> Value:
    if op == "cast" and dtype == torch.bfloat16:
        args = (_approximated(scope, args[0]),)
    values = [_value(scope, arg) for arg in args]
    is_vector = any(value.is_vector for value in values)
    texts = [as_vector(scope, value) if is_vector else value.text for value in values]
    if op in DIVISIONS and not dtype.is_floating_point and not isinstance(args[1], Constant):
        texts[1] = _divisor(scope, texts[1], is_vector)
    if _folds_otherwise(op, args, dtype) and not (scope.names.has_inputs and any(map(_reads, args))):
        texts[-1] = f"opaque({texts[-1]})"
    return Value(
        operation(op, args, dtype, texts), is_vector, dtype, merge_origins(*(value.origin for value in values))
    )


def _folds_otherwise(op: str, args: tuple[Expr, ...], dtype: torch.dtype) -> bool:
    """Return whether the C++ compiler has another result than the instruction, for numbers that it knows.

    Those are the sign of 0.0 / 0.0, and the integer for a number that is none, or is too large.
    """
    if op == "cast":
        return args[0].dtype.is_floating_point and not dtype.is_floating_point and dtype != torch.bool
    return op == "div" and dtype.is_floating_point


def _reads(body: Expr) -> bool:
    """Return whether a value depends on memory, so that the C++ compiler does not know it."""
    return any(isinstance(node, (Load, Local)) for node in walk(body))


def _divisor(scope: Scope, text: str, is_vector: bool) -> str:
    """Check a divisor: 0 raises ZeroDivisionError after the kernel."""
    site = len(scope.names.error_messages)
    scope.names.error_messages.append(ZERO_DIVISION)
    return f"checked_divisor(context, {site}, {scope.lanes.vector if is_vector else scope.lanes.scalar}, {text})"


def _approximated(scope: Scope, body: Expr) -> Expr:
    """Replace a function from bfloat16 to bfloat16 by an approximation: the type has fewer than five digits."""
    match body:
        case Apply(op, (Apply("cast", (given,)),)) if op in APPROXIMATE and given.dtype == torch.bfloat16:
            # A value with a second user may be needed in float32: it is computed exactly, once for both.
            return replace(body, op=APPROXIMATE[op]) if scope.uses[body] < 2 else body
    return body


# --- memory ----------------------------------------------------------------------------------------------------------


def _load(scope: Scope, load: Load) -> Value:
    """Emit a load by the cheapest form that its index allows; the cases are ordered by cost.

        index, along the vector variable i       C++                                    costs about
        5*j              (i does not occur)      load<T, 1>, for all lanes              one scalar load
        i + 5*j          (contiguous)            load<T, W>                             one vector load
        3*i + 5*j        (a fixed stride)        strided<T, W>                          W scalar loads
        x[i] + 5*j       (through memory)        gather_offsets<T, W>, gather           one gather, or W loads
        i // 2, i % 16   (piecewise)             load, load_repeated                    one vector load, or two
        anything else                            gather_unit_slope, gather              one vector load, or W loads

    Where an index was read from memory, its lanes may be out of range: they are masked, and load nothing.
    """
    pointer, offset = scope.names.pointers[load.buffer], load.index[0]
    element = C_TYPES[load.dtype]
    # A masked load goes to memory: tiles and panels have only values that are loaded in every iteration.
    if load in scope.transposed_loads and scope.lanes == Lanes():
        return Value(f"load<{element}, W>({scope.transposed_loads[load]}, lanes)", True, load.dtype)
    gathered = [_gather(scope, gather) for gather in load.gathers if gather.symbol in offset.free_symbols]
    has_vector_index = any(index.is_vector for index in gathered)
    names = {gather.symbol: found.index for gather, found in zip(gathers_of(load, offset), gathered, strict=True)}
    # The range check of a uniform index is one condition for all lanes; that of a vector index becomes
    # part of the mask.
    in_range = [index.in_range for index in gathered if not index.is_vector]
    if not has_vector_index and scope.vector not in offset.free_symbols:  # uniform: one scalar for all lanes
        lanes = scope.lanes.scalar
        text = load_call(in_range, element, "1", f"{pointer} + {offset_text(c_index(offset, names))}", lanes)
        return Value(text, False, load.dtype)
    assert scope.vector is not None
    if not has_vector_index and access(offset, (), scope.vector) == "contiguous":
        address = f"{pointer} + {offset_text(c_index(offset, names))}"
        # Lanes beyond the end of a scratch row are its padding, which is allocated: a load
        # without mask is cheaper.
        whole = is_whole_row(scope, load.buffer, offset) and scope.lanes == Lanes()
        text = load_call(in_range, element, "W", address, "All{}" if whole else scope.lanes.vector)
    else:
        text = _irregular_load(scope, load, gathered, names)
    return Value(text, True, load.dtype)


def _irregular_load(scope: Scope, load: Load, gathered: list[GatheredIndex], names: Mapping[Symbol, str]) -> str:
    """Text of a vector load whose elements are not contiguous: strided, through memory, or piecewise."""
    assert scope.vector is not None
    pointer, offset = scope.names.pointers[load.buffer], load.index[0]
    element = C_TYPES[load.dtype]
    mask = scope.lanes.vector
    for index in gathered:
        # checked_index has already combined its result with the active lanes.
        mask = index.in_range if index.is_vector and mask == "lanes" else f"mask_of<W>({mask}) & BOOL({index.in_range})"
        scope.names.used_types.add(("bool", True))
    if any(index.is_vector for index in gathered):
        # Linear in the gathered indices: a gather with a vector of offsets, one instruction with AVX-512.
        rest, offsets = lane_offsets(scope.vector, load, offset, gathered)
        if offsets:
            address = pointer if rest == ZERO else f"{pointer} + {offset_text(c_index(rest, names))}"
            return f"gather_offsets<{element}, W>({address}, {mask}, {offsets})"
        lane_names = {**per_lane(gathered, load, offset), scope.vector: f"({scope.vector.name} + j)"}
        lane_offset = c_index(offset, lane_names)
        return f"gather<{element}, W>({pointer}, {mask}, [&](i64 j) {{ return {lane_offset}; }})"
    step = stride_along(offset, scope.vector)
    if step is not None:
        address = f"{pointer} + {offset_text(c_index(offset, names))}"
        return f"strided<{element}, W>({address}, {c_index(step)}, {mask})"
    lane_names = {**per_lane(gathered, load, offset), scope.vector: f"({scope.vector.name} + j)"}
    return _piecewise_load(scope, load, lane_names, names, mask)


def _piecewise_load(
    scope: Scope, load: Load, lane_names: Mapping[Symbol, str], names: Mapping[Symbol, str], mask: str
) -> str:
    """Text of a vector load at an index with quotients or remainders of the vector variable (padding, resizing)."""
    assert scope.vector is not None
    pointer, offset = scope.names.pointers[load.buffer], load.index[0]
    element = C_TYPES[load.dtype]
    # Contiguous in blocks of whole vectors: no vector crosses a block (64*(i1 // 16) + i1 % 16).
    straight = piecewise_stride(offset, scope.vector)
    if straight is not None and straight[0] == 1 and straight[1] % ALIGNED_SIZE == 0:
        address = f"{pointer} + {offset_text(c_index(offset, names))}"
        return f"load<{element}, W>({address}, {mask})"
    # The uniform part is added to the pointer, so that loads which differ only in it share the rest.
    shared = sum((term for term in sympy.Add.make_args(offset) if scope.vector not in term.free_symbols), ZERO)
    address = pointer if shared == ZERO else f"{pointer} + {offset_text(c_index(shared, names))}"
    lane_offset = c_index(offset - shared, lane_names)
    # Each element is loaded by several adjacent lanes (i1 // 2).
    repeats = repeat_count(offset, scope.vector)
    if repeats:
        lanes = f"{scope.vector.name}, {mask}, [&](i64 j) {{ return {lane_offset}; }}"
        return f"load_repeated<{element}, W, {repeats}>({address}, {lanes})"
    # Offsets grow by at most 1 from lane to lane (padding, resizing): mostly contiguous, so a load is tried first.
    is_unit_slope = max_slope(offset, scope.vector) == 1
    table = offset_table(scope.names, offset - shared, scope.vector) if is_unit_slope else ""
    offsets = f"{table}.at + {scope.vector.name}" if table else f"[&](i64 j) {{ return {lane_offset}; }}"
    return f"{'gather_unit_slope' if is_unit_slope else 'gather'}<{element}, W>({address}, {mask}, {offsets})"


_ANY = gather_variable(0)


def _gather(scope: Scope, gather: Gather) -> GatheredIndex:
    """Emit an index and its bounds check, once per value, whatever its symbol."""
    # Every gather has its own symbol; two of the same value and size need one check and one error message.
    key = (replace(gather, symbol=_ANY), scope.lanes)
    if key in scope.checked_indices:
        known = scope.checked_indices[key]
        if known.line is not None:
            known.line.extend(scope.origin)
        return GatheredIndex(known.text, known.text + "_in_range", known.is_vector)
    value = _value(
        scope, gather.value if gather.value.dtype == torch.int64 else Apply("cast", (gather.value,), torch.int64)
    )
    name = scope.names.fresh("g")
    site = len(scope.names.error_messages)
    scope.names.error_messages.append(gather.error)
    wraps = "true" if gather.wraps else "false"
    size = c_index(gather.size)
    origin = merge_origins(scope.origin, value.origin)
    if value.is_vector:
        scope.names.used_types.add(("bool", True))
        scope.writer.line(f"BOOL {name}_in_range;", origin)
        call = f"checked_index(context, {site}, {size}, {wraps}, {scope.lanes.vector}, {value.text}, &{name}_in_range)"
    elif scope.lanes.scalar != "All{}":
        # Under a scalar mask, an unused index must not raise an error.
        scope.writer.line(f"Vec<bool, 1> {name}_valid;", origin)
        line = scope.writer.line(
            f"const i64 {name} = "
            f"checked_index(context, {site}, {size}, {wraps}, {scope.lanes.scalar}, {value.text}, &{name}_valid)[0];",
            origin,
        )
        scope.writer.line(f"const bool {name}_in_range = {name}_valid[0];", origin)
        scope.checked_indices[key] = Value(name, False, torch.int64, line=line)
        return GatheredIndex(name, f"{name}_in_range", False)
    else:
        # The check of a uniform index is hoisted.
        before = scope.shared is not None and is_loop_invariant(scope, gather.value)
        writer = scope.shared if before and scope.shared is not None else scope.writer
        writer.line(f"bool {name}_in_range;", origin)
        found = (
            f"checked_scalar_index(context, {site}, {size}, {wraps}, {parenthesized(value.text)}[0], &{name}_in_range)"
        )
        line = writer.line(f"const i64 {name} = {found};", origin)
        scope.checked_indices[key] = Value(name, False, torch.int64, line=line)
        return GatheredIndex(name, f"{name}_in_range", False)
    line = scope.writer.line(f"const auto {name} = {call};", origin)
    scope.checked_indices[key] = Value(name, value.is_vector, torch.int64, line=line)
    return GatheredIndex(name, f"{name}_in_range", value.is_vector)


def emit_offset(scope: Scope, offset: IndexOf) -> tuple[str, list[str]]:
    """Offset of the first lane, and the conditions under which it is in range."""
    gathered = [_gather(scope, gather) for gather in offset.gathers]
    assert not any(index.is_vector for index in gathered)
    names = {gather.symbol: found.index for gather, found in zip(offset.gathers, gathered, strict=True)}
    return offset_text(c_index(offset.index, names)), [index.in_range for index in gathered]


def _index_of(scope: Scope, node: IndexOf) -> Value:
    gathered = [_gather(scope, gather) for gather in gathers_of(node, node.index)]
    vector = scope.vector
    integer = node.dtype if not node.dtype.is_floating_point and node.dtype != torch.bool else torch.int64
    kind = C_TYPES[integer]
    names = per_lane(gathered, node, node.index)
    # Three forms, from cheap to expensive: the same number in all lanes; base + step * lane; else each lane on its own.
    if not any(index.is_vector for index in gathered) and vector not in node.index.free_symbols:
        text, is_vector = f"{type_name(scope, integer, False)}({c_index(node.index, names)})", False
    elif (
        not any(index.is_vector for index in gathered)
        and vector is not None
        and (step := stride_along(node.index, vector)) is not None
    ):
        text, is_vector = f"sequence<{kind}, W>({c_index(node.index, names)}, {c_index(step)})", True
    else:
        lane_names = {**names, vector: f"({vector.name} + j)"} if vector is not None else names
        text, is_vector = f"for_each_lane<{kind}, W>([&](i64 j) {{ return {c_index(node.index, lane_names)}; }})", True
    if integer != node.dtype:
        text = f"cast<{C_TYPES[node.dtype]}>({text})"
    return Value(text, is_vector, node.dtype)


def _masked(scope: Scope, condition: Expr, value: Expr, otherwise: Expr) -> Value:
    # The lines of a masked value, here inside of another mask m1:
    #     const auto m2 = condition;
    #     const auto m2_lanes = mask_of<W>(m1_lanes) & m2;         vector loads in it use this mask
    #     const auto m2_any = Vec<bool, 1>(some(m2_lanes));        scalar loads run if any lane needs them
    #     where(m2, value, otherwise)
    mask = _value(scope, condition)
    name = scope.names.fresh("m")
    before = scope.lanes
    scope.writer.line(f"const auto {name} = {mask.text};", merge_origins(scope.origin, mask.origin))
    origin = mask.origin
    mask = replace(mask, text=name, origin=())
    scope.lanes = _lanes_of_mask(scope, mask, name, origin)
    inside = _value(scope, value)
    scope.lanes = before
    # The alternative is needed where the condition is false: elsewhere its addresses may be out of bounds, too.
    if _accesses_memory(otherwise):
        scope.lanes = _lanes_of_mask(scope, replace(mask, text=f"!{name}"), f"{name}_else", origin)
    outside = _value(scope, otherwise)
    scope.lanes = before
    wide = mask.is_vector or inside.is_vector or outside.is_vector
    texts = [as_vector(scope, operand) if wide else operand.text for operand in (mask, inside, outside)]
    origin = merge_origins(inside.origin, outside.origin)
    return Value(f"where({', '.join(texts)})", wide, value.dtype, origin)


def _lanes_of_mask(scope: Scope, mask: Value, name: str, origin: Origin) -> Lanes:
    """Emit the active lanes under a mask that is inside of the current one."""
    before, own = scope.lanes, merge_origins(scope.origin, origin)
    vector_mask = before.vector
    if scope.vector is not None:
        vector_mask = f"{name}_lanes"
        scope.writer.line(f"const auto {vector_mask} = mask_of<W>({before.vector}) & {as_vector(scope, mask)};", own)
    any_lane = f"Vec<bool, 1>(some({vector_mask}))" if mask.is_vector else f"mask_of<1>({before.scalar}) & {mask.text}"
    scope.writer.line(f"const auto {name}_any = {any_lane};", own)
    return Lanes(vector_mask, f"{name}_any")


def _accesses_memory(body: Expr) -> bool:
    """Return whether a value loads an element, or checks a number that may be valid under a mask alone."""
    return any(
        isinstance(node, Load) or getattr(node, "gathers", ()) or (isinstance(node, Apply) and node.op in DIVISIONS)
        for node in walk(body)
    )
