"""A scalar computation as C++ over many lanes.

    tanh(x[8*i0 + i1] + 1.0), vectorised along i1
    ->  tanh(load<f32, W>(in0 + 8*i0 + i1, lanes) + F32(1.0f))

A value is the same for all lanes (width 1) or differs (width W); what all
lanes share is computed once, before the loop. An access is a plain load where
memory is adjacent along the vectorised variable, and otherwise lane by lane.
Masked values are loaded under a mask, so no address outside a tensor is touched.

In torch: torch/_inductor/codegen/cpp.py (CppVecKernel). Read next:
nbcompile/codegen/cpp.py
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import sympy
import torch

from nbcompile.codegen.printers import C_TYPES, ROUGH, c_index, c_literal, cpp_operation
from nbcompile.codegen.writer import SourceWriter
from nbcompile.ir.emitted import ZERO_DIVISION
from nbcompile.ir.expr import Apply, Constant, Expr, Gather, IndexOf, Load, Local, Masked, children, compute_dtype, walk
from nbcompile.ir.index import (
    ONE,
    ZERO,
    Index,
    Symbol,
    constant as number_of,
    gather_variable,
    repetition,
    steepness,
    straight_blocks,
    stride_along,
)
from nbcompile.ir.kernel import access

ALIGNED_SIZE = 16
"""The most lanes there are: a multiple of it has no remainder on any machine. All vectors begin at multiples of W."""
INLINE_LENGTH = 64
"""Longer expressions get a name and a line of their own."""


@dataclass(frozen=True, slots=True)
class Value:
    """C++ text and whether it has W lanes or one."""

    text: str
    many: bool
    dtype: torch.dtype
    origin: tuple[str, ...] = ()
    """The fx nodes whose work stands in the text."""
    line: list[str] | None = None
    """For a value with a name: the origins of the line that computes it, which grow with its users."""


@dataclass(frozen=True, slots=True)
class Lanes:
    """Which lanes take part where a value is computed: C++ text for W lanes and for one."""

    many: str = "lanes"
    one: str = "All{}"


@dataclass(slots=True)
class Names:
    """What is shared by a whole kernel."""

    pointers: Mapping[str, str]
    """The C++ name of each buffer and scratch row."""
    complaints: list[str] = field(default_factory=list)
    extents: Mapping[Symbol, Index] = field(default_factory=dict)
    """The number of iterations of each loop."""
    places: dict[tuple[Index, Symbol], str] = field(default_factory=dict)
    """Tables of the places that a loop reads, which the C++ compiler works out: index and variable, name."""
    used_types: set[tuple[str, bool]] = field(default_factory=set)
    counter: int = 0

    def fresh(self, stem: str) -> str:
        """A name that is not taken."""
        self.counter += 1
        return f"{stem}{self.counter}"


@dataclass(slots=True)
class Scope:
    """Where values are computed now."""

    writer: SourceWriter
    names: Names
    vector: Symbol | None
    """The variable along which there are W lanes; None: scalars only."""
    locals: dict[str, Value]
    lanes: Lanes = field(default_factory=Lanes)
    shared: SourceWriter | None = None
    """Before the vector loop: what all lanes share is written there."""
    inner: frozenset[str] = frozenset()
    """Names that exist only inside the vector loop (other than the vector variable)."""
    stored: frozenset[str] = frozenset()
    """Buffers written inside the loop: loads of them stay where they are."""
    turned: Mapping[Load, str] = field(default_factory=dict)
    """Where loads stand that were made ahead (squares.py)."""
    origin: tuple[str, ...] = ()
    """The fx nodes that ask for what is computed now."""
    done: dict[tuple[Expr, Lanes], Value] = field(default_factory=dict)
    uses: Counter[Expr] = field(default_factory=Counter)


def type_name(scope: Scope, dtype: torch.dtype, many: bool) -> str:
    """``F32`` for W lanes of float, ``F32_1`` for one."""
    name = C_TYPES[dtype]
    scope.names.used_types.add((name, many))
    return name.upper() + ("" if many else "_1")


def emit_value(scope: Scope, body: Expr) -> Value:
    """The value of a body in this scope; lines are written as needed."""
    scope.uses.update(walk(body))
    return _value(scope, body)


def as_many(scope: Scope, value: Value) -> str:
    """The value with W lanes."""
    return value.text if value.many else f"{type_name(scope, value.dtype, True)}({value.text})"


def varies(scope: Scope, body: Expr) -> bool:
    """Whether a value differs from lane to lane."""
    for node in walk(body):
        match node:
            case Local(name):
                if scope.locals[name].many:
                    return True
            case Load(index=index):
                if any(scope.vector in each.free_symbols for each in index):
                    return True
            case IndexOf(index=index):
                if scope.vector in index.free_symbols:
                    return True
    return False


def _value(scope: Scope, body: Expr) -> Value:
    asking = scope.origin
    scope.origin = origin_of(body) or asking
    key = (body, scope.lanes)
    found = scope.done.get(key)
    if found is None:
        found = scope.done[key] = _named(scope, body, _attributed(scope, body, _compute(scope, body)))
    elif found.line is not None:
        found.line.extend(scope.origin)
    scope.origin = asking
    return found


def _attributed(scope: Scope, body: Expr, value: Value) -> Value:
    """A number and a name are nobody's work; all else is that of who asks, and of those whose text stands in it."""
    if isinstance(body, (Constant, Local)):
        return value
    return replace(value, origin=joined(scope.origin, value.origin))


def joined(*origins: tuple[str, ...]) -> tuple[str, ...]:
    """The nodes of several origins, each once."""
    return tuple(dict.fromkeys(node for origin in origins for node in origin))


def origin_of(body: Expr) -> tuple[str, ...]:
    """The fx nodes whose work a body is at its root; none for a number or a name."""
    return () if isinstance(body, (Constant, Local)) else body.origin


def _compute(scope: Scope, body: Expr) -> Value:
    match body:
        case Constant(value, dtype):
            wide = compute_dtype(dtype)  # a 16-bit type holds bits: a number is rounded to it
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
    """Give a value a name of its own where it is long or used again; move what is shared out of the loop."""
    if isinstance(body, (Constant, Local)):
        return value
    outside = scope.shared is not None and not value.many and scope.lanes == Lanes() and _independent(scope, body)
    if not outside and scope.uses[body] < 2 and len(value.text) <= INLINE_LENGTH and not isinstance(body, Masked):
        return value
    name = scope.names.fresh("t")
    target = scope.shared if outside and scope.shared is not None else scope.writer
    line = target.line(f"const auto {name} = {value.text};", value.origin)
    return replace(value, text=name, origin=(), line=line)


def _independent(scope: Scope, body: Expr) -> bool:
    """Whether a value can be computed before the loop."""
    for node in walk(body):
        match node:
            case Local(name) if name in scope.inner:
                return False
            case Load(buffer=buffer, index=index, gathers=gathers):
                if gathers or buffer in scope.stored or any(_inside(scope, each) for each in index):
                    return False
            case IndexOf(index=place, gathers=gathers) if gathers or _inside(scope, place):
                return False
            case Masked():
                return False
    return True


def _inside(scope: Scope, index: Index) -> bool:
    return any(symbol.name in scope.inner or symbol == scope.vector for symbol in index.free_symbols)


# --- operations ------------------------------------------------------------------------------------------------------


def _apply(scope: Scope, op: str, args: tuple[Expr, ...], dtype: torch.dtype) -> Value:
    if op == "cast" and dtype == torch.bfloat16:
        args = (_roughly(scope, args[0]),)
    values = [_value(scope, each) for each in args]
    many = any(each.many for each in values)
    texts = [as_many(scope, each) if many else each.text for each in values]
    if op in DIVISIONS and not dtype.is_floating_point and not isinstance(args[1], Constant):
        texts[1] = _divisor(scope, texts[1], many)
    return Value(_operation(op, args, dtype, texts), many, dtype, joined(*(each.origin for each in values)))


DIVISIONS = ("floor_div", "trunc_div", "remainder", "fmod")


def _divisor(scope: Scope, text: str, many: bool) -> str:
    """A divisor that may be 0, of which the caller is told."""
    site = len(scope.names.complaints)
    scope.names.complaints.append(ZERO_DIVISION)
    return f"divisor(context, {site}, {scope.lanes.many if many else scope.lanes.one}, {text})"


def _roughly(scope: Scope, body: Expr) -> Expr:
    """A function from bfloat16 to bfloat16 needs no more than five digits."""
    match body:
        case Apply(op, (Apply("cast", (given,)),)) if op in ROUGH and given.dtype == torch.bfloat16:
            return replace(body, op=ROUGH[op]) if scope.uses[body] < 2 else body
    return body


def _operation(op: str, args: tuple[Expr, ...], dtype: torch.dtype, texts: list[str]) -> str:
    if op == "cast":
        return f"cast<{C_TYPES[dtype]}>({texts[0]})"
    if op == "pow" and isinstance(args[1], Constant) and args[0].dtype.is_floating_point:
        special = _power(args[1].value, texts[0])
        if special:
            return special
    pattern = cpp_operation(op, args[0].dtype)
    is_call = "(" in pattern
    return pattern.format(*(each if is_call else _tight(each) for each in texts))


def _power(exponent: bool | float, base: str) -> str:
    """The powers that eager computes by multiplication."""
    operand = _tight(base)
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


def _tight(text: str) -> str:
    """In parentheses, unless it is one name or one call."""
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


# --- memory ----------------------------------------------------------------------------------------------------------


def _load(scope: Scope, load: Load) -> Value:
    pointer, offset = scope.names.pointers[load.buffer], load.index[0]
    element = C_TYPES[load.dtype]
    if load in scope.turned and scope.lanes == Lanes():
        return Value(f"load<{element}, W>({scope.turned[load]}, lanes)", True, load.dtype)
    gathered = [_gather(scope, gather) for gather in load.gathers if gather.symbol in offset.free_symbols]
    many = any(each.many for each in gathered) or scope.vector in offset.free_symbols
    names = {gather.symbol: found.index for gather, found in zip(_bound(load, offset), gathered, strict=True)}
    goods = [each.good for each in gathered if not each.many]
    if not many:
        lanes = scope.lanes.one
        text = _guarded(goods, element, "1", f"{pointer} + {_place(c_index(offset, names))}", lanes)
        return Value(text, False, load.dtype)
    assert scope.vector is not None
    if not any(each.many for each in gathered) and access(offset, (), scope.vector) == "contiguous":
        address = f"{pointer} + {_place(c_index(offset, names))}"
        whole = is_whole_row(scope, load.buffer, offset) and scope.lanes == Lanes()
        return Value(_guarded(goods, element, "W", address, "All{}" if whole else scope.lanes.many), True, load.dtype)
    mask = scope.lanes.many
    for each in gathered:
        mask = each.good if each.many and mask == "lanes" else f"mask_of<W>({mask}) & BOOL({each.good})"
        scope.names.used_types.add(("bool", True))
    step = stride_along(offset, scope.vector)
    if step is not None and not any(each.many for each in gathered):
        address = f"{pointer} + {_place(c_index(offset, names))}"
        return Value(f"strided<{element}, W>({address}, {c_index(step)}, {mask})", True, load.dtype)
    inside = {**_per_lane(gathered, load, offset), scope.vector: f"({scope.vector.name} + j)"}
    if any(each.many for each in gathered):
        rest, places = _places_of_lanes(scope.vector, load, offset, gathered)
        if places:
            address = pointer if rest == ZERO else f"{pointer} + {_place(c_index(rest, names))}"
            return Value(f"gather_at<{element}, W>({address}, {mask}, {places})", True, load.dtype)
        place = c_index(offset, inside)
        return Value(f"gather<{element}, W>({pointer}, {mask}, [&](i64 j) {{ return {place}; }})", True, load.dtype)
    straight = straight_blocks(offset, scope.vector)
    if straight is not None and straight[0] == 1 and straight[1] % ALIGNED_SIZE == 0:
        address = f"{pointer} + {_place(c_index(offset, names))}"
        return Value(f"load<{element}, W>({address}, {mask})", True, load.dtype)
    # What all lanes share stands outside: loads that differ in it alone work out the rest once.
    shared = sum((term for term in sympy.Add.make_args(offset) if scope.vector not in term.free_symbols), ZERO)
    address = pointer if shared == ZERO else f"{pointer} + {_place(c_index(shared, names))}"
    place = c_index(offset - shared, inside)
    times = repetition(offset, scope.vector)
    if times:
        lanes = f"{scope.vector.name}, {mask}, [&](i64 j) {{ return {place}; }}"
        return Value(f"repeated<{element}, W, {times}>({address}, {lanes})", True, load.dtype)
    close = steepness(offset, scope.vector) == 1
    table = _table_of_places(scope.names, offset - shared, scope.vector) if close else ""
    places = f"{table}.at + {scope.vector.name}" if table else f"[&](i64 j) {{ return {place}; }}"
    return Value(f"{'near' if close else 'gather'}<{element}, W>({address}, {mask}, {places})", True, load.dtype)


def is_whole_row(scope: Scope, buffer: str, offset: Index) -> bool:
    """Whether a scratch row is gone over from its start: it has room for all lanes of the last vector."""
    return scope.names.pointers[buffer].startswith("row") and offset == scope.vector


def _places_of_lanes(vector: Symbol, load: Load, offset: Index, gathered: list[Gathered]) -> tuple[Index, str]:
    """An offset as what all lanes share, and a vector of the rest; no vector where places are on no straight line."""
    found = {gather.symbol: each for gather, each in zip(_bound(load, offset), gathered, strict=True) if each.many}
    moving = {**{symbol: each.index for symbol, each in found.items()}, vector: "sequence<i64, W>(0, 1)"}
    steps = {symbol: stride_along(offset, symbol) for symbol in moving}
    terms = []
    for symbol, text in moving.items():
        step = steps[symbol]
        if step is None or step.free_symbols & moving.keys():
            return ZERO, ""
        if step != ZERO:
            terms.append(text if step == ONE else f"{text} * Vec<i64, W>({c_index(step)})")
    return offset.xreplace(dict.fromkeys(found, ZERO)), " + ".join(terms)


PLACES_LIMIT = 4096
"""A longer loop has no table of the places it reads."""


def _table_of_places(names: Names, offset: Index, variable: Symbol) -> str:
    """The name of a table of what an index is along its only variable, "" where the loop is too long or symbolic."""
    extent = number_of(names.extents.get(variable, ZERO))
    if offset.free_symbols != {variable} or not extent or extent > PLACES_LIMIT:
        return ""
    return names.places.setdefault((offset, variable), f"places{len(names.places)}")


def _bound(node: Load | IndexOf, index: Index) -> list[Gather]:
    return [gather for gather in node.gathers if gather.symbol in index.free_symbols]


def _place(text: str) -> str:
    return text if " - " not in text else f"({text})"


def _guarded(goods: list[str], element: str, width: str, address: str, lanes: str) -> str:
    if not goods:
        return f"load<{element}, {width}>({address}, {lanes})"
    return f"load_if<{element}, {width}>({' & '.join(goods)}, {address}, {lanes})"


@dataclass(frozen=True, slots=True)
class Gathered:
    """An index that was read from memory and checked."""

    index: str
    good: str
    many: bool


_ANY = gather_variable(0)


def _per_lane(gathered: list[Gathered], node: Load | IndexOf, index: Index) -> dict[Symbol, str]:
    return {
        gather.symbol: f"{found.index}[j]" if found.many else found.index
        for gather, found in zip(_bound(node, index), gathered, strict=True)
    }


def _gather(scope: Scope, gather: Gather) -> Gathered:
    """Compute and check an index (once: the value is remembered, whatever its symbol)."""
    key = (IndexOf(_ANY, torch.int64, (replace(gather, symbol=_ANY),)), scope.lanes)
    if key in scope.done:
        known = scope.done[key]
        if known.line is not None:
            known.line.extend(scope.origin)
        return Gathered(known.text, known.text + "_good", known.many)
    value = _value(
        scope, gather.value if gather.value.dtype == torch.int64 else Apply("cast", (gather.value,), torch.int64)
    )
    name = scope.names.fresh("g")
    site = len(scope.names.complaints)
    scope.names.complaints.append("index {index} is out of bounds for dimension with size {size}")
    wraps = "true" if gather.wraps else "false"
    size = c_index(gather.size)
    origin = joined(scope.origin, value.origin)
    if value.many:
        scope.names.used_types.add(("bool", True))
        scope.writer.line(f"BOOL {name}_good;", origin)
        call = f"checked(context, {site}, {size}, {wraps}, {scope.lanes.many}, {value.text}, &{name}_good)"
    elif scope.lanes.one != "All{}":
        # Under a mask that all lanes share, an index that is not wanted must not be complained about.
        scope.writer.line(f"Vec<bool, 1> {name}_ok;", origin)
        line = scope.writer.line(
            f"const i64 {name} = "
            f"checked(context, {site}, {size}, {wraps}, {scope.lanes.one}, {value.text}, &{name}_ok)[0];",
            origin,
        )
        scope.writer.line(f"const bool {name}_good = {name}_ok[0];", origin)
        scope.done[key] = Value(name, False, torch.int64, line=line)
        return Gathered(name, f"{name}_good", False)
    else:
        # An index that all lanes share is checked once, before the loop.
        before = scope.shared is not None and _independent(scope, gather.value)
        writer = scope.shared if before and scope.shared is not None else scope.writer
        writer.line(f"bool {name}_good;", origin)
        found = f"checked_one(context, {site}, {size}, {wraps}, {_tight(value.text)}[0], &{name}_good)"
        line = writer.line(f"const i64 {name} = {found};", origin)
        scope.done[key] = Value(name, False, torch.int64, line=line)
        return Gathered(name, f"{name}_good", False)
    line = scope.writer.line(f"const auto {name} = {call};", origin)
    scope.done[key] = Value(name, value.many, torch.int64, line=line)
    return Gathered(name, f"{name}_good", value.many)


def emit_place(scope: Scope, place: IndexOf) -> tuple[str, list[str]]:
    """An offset that all lanes share or begin at, and the conditions under which it is in range."""
    gathered = [_gather(scope, gather) for gather in place.gathers]
    assert not any(each.many for each in gathered)
    names = {gather.symbol: found.index for gather, found in zip(place.gathers, gathered, strict=True)}
    return _place(c_index(place.index, names)), [each.good for each in gathered]


def _index_of(scope: Scope, node: IndexOf) -> Value:
    gathered = [_gather(scope, gather) for gather in _bound(node, node.index)]
    vector = scope.vector
    integer = node.dtype if not node.dtype.is_floating_point and node.dtype != torch.bool else torch.int64
    kind = C_TYPES[integer]
    names = _per_lane(gathered, node, node.index)
    if not any(each.many for each in gathered) and vector not in node.index.free_symbols:
        text, many = f"{type_name(scope, integer, False)}({c_index(node.index, names)})", False
    elif (
        not any(each.many for each in gathered)
        and vector is not None
        and (step := stride_along(node.index, vector)) is not None
    ):
        text, many = f"sequence<{kind}, W>({c_index(node.index, names)}, {c_index(step)})", True
    else:
        own = {**names, vector: f"({vector.name} + j)"} if vector is not None else names
        text, many = f"each_lane<{kind}, W>([&](i64 j) {{ return {c_index(node.index, own)}; }})", True
    if integer != node.dtype:
        text = f"cast<{C_TYPES[node.dtype]}>({text})"
    return Value(text, many, node.dtype)


def _masked(scope: Scope, condition: Expr, value: Expr, otherwise: Expr) -> Value:
    asked = _value(scope, condition)
    name = scope.names.fresh("m")
    before = scope.lanes
    vectorised = scope.vector is not None
    own = joined(scope.origin, asked.origin)
    scope.writer.line(f"const auto {name} = {asked.text};", own)
    asked = replace(asked, text=name, origin=())
    many = before.many
    if vectorised:
        many = f"{name}_lanes"
        scope.writer.line(f"const auto {many} = mask_of<W>({before.many}) & {as_many(scope, asked)};", own)
    one = f"{name}_any"
    held = f"Vec<bool, 1>(some({many}))" if asked.many else f"mask_of<1>({before.one}) & {asked.text}"
    scope.writer.line(f"const auto {one} = {held};", own)
    scope.lanes = Lanes(many, one)
    inside = _value(scope, value)
    scope.lanes = before
    outside = _value(scope, otherwise)
    wide = asked.many or inside.many or outside.many
    texts = [as_many(scope, each) if wide else each.text for each in (asked, inside, outside)]
    origin = joined(inside.origin, outside.origin)
    return Value(f"where({', '.join(texts)})", wide, value.dtype, origin)


def wide_values(scope: Scope, body: Expr) -> bool:
    """Whether some value with W lanes has 64 bits (then a kernel has half as many lanes)."""
    for node in walk(body):
        if node.dtype.itemsize == 8 and varies(scope, node):
            return True
        if isinstance(node, (Load, IndexOf)) and any(varies(scope, each) for each in children(node)):
            return True
    return False
