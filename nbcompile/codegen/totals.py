"""Running totals of a reduction: several vectors side by side, joined at the end.

    F32 v0_total[4] = {Sum::start<f32, W>(), ...};          so that one addition need not wait for the last
    combine<Sum>(v0_total[part], lanes, load<f32, W>(...));
    const auto v0 = across<Sum, W>(Sum::join(Sum::join(v0_total[0], v0_total[1]), ...));

In torch: torch/_inductor/codegen/cpp.py (reduction_combine_vec). Read next:
nbcompile/codegen/loops.py
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from nbcompile.codegen.emitter import KernelEmitter, scope_of
from nbcompile.codegen.printers import C_TYPES
from nbcompile.codegen.values import Scope, Value, as_many, emit_value, joined, type_name
from nbcompile.ir.expr import IndexOf
from nbcompile.ir.kernel import Accumulate, Carry

KINDS = {
    "sum": "Sum", "prod": "Prod", "max": "Max", "min": "Min", "any": "Any", "all": "Every",
    "argmax": "Arg<true>", "argmin": "Arg<false>",
}  # fmt: skip
"""The C++ class of each kind of reduction."""
SCANS = {**KINDS, "argmax": "Latest<true>", "argmin": "Latest<false>", "logsumexp": "LogSumExp"}
"""And of each kind of scan."""


def kind_of(part: Accumulate | Carry) -> str:
    """The C++ class that says how values are combined."""
    return SCANS[part.kind] if isinstance(part, Carry) else KINDS[part.kind]


def start(emitter: KernelEmitter, part: Accumulate, count: int) -> None:
    """Declare the totals of one reduction, ``count`` side by side."""
    name = f"{emitter.label(part.name)}_total"
    value = f"{{{', '.join([neutral(part)] * count)}}}"
    origin = emitter.origins.get(part.name, ())
    emitter.writer.line(f"{held_type(emitter, part)} {name}[{count}] = {value};  // {part.name}", origin)


def held_type(emitter: KernelEmitter, part: Accumulate | Carry) -> str:
    """The type of a running total."""
    if part.kind.startswith("arg"):
        return f"Best<{C_TYPES[part.value.dtype]}, W>"
    return type_name(scope_of(emitter, None), part.value.dtype, True)


def neutral(part: Accumulate | Carry) -> str:
    """What a running total starts with."""
    return f"{kind_of(part)}::start<{C_TYPES[part.value.dtype]}, W>()"


def new_value(scope: Scope, part: Accumulate | Carry, places: torch.dtype) -> str:
    """What a total is combined with: W values, with their places where the place is asked for."""
    value = emit_value(scope, part.value)
    scope.origin = joined(value.origin, scope.origin)
    text = as_many(scope, value)
    if not part.kind.startswith("arg"):
        return text
    place = as_many(scope, emit_value(scope, IndexOf(part.place, places)))
    return f"Best<{C_TYPES[part.value.dtype]}, W>{{{text}, {place}}}"


def combine(emitter: KernelEmitter, scope: Scope, part: Accumulate | Carry, total: str, lanes: str = "lanes") -> None:
    """One more vector of values into a total."""
    scope.origin = emitter.origins.get(part.name, ())
    value = new_value(scope, part, emitter.places)
    emitter.writer.line(f"combine<{kind_of(part)}>({total}, {lanes}, {value});", scope.origin)


def start_scan(emitter: KernelEmitter, part: Carry) -> None:
    """Declare what a scan carries on."""
    name, element = f"{emitter.label(part.name)}_so_far", C_TYPES[part.value.dtype]
    origin = emitter.origins.get(part.name, ())
    emitter.writer.line(f"Running<{kind_of(part)}, {element}, W, {held_type(emitter, part)}> {name};", origin)


def carry(emitter: KernelEmitter, scope: Scope, part: Carry) -> None:
    """The next W values of a scan along the lanes."""
    scope.origin = emitter.origins.get(part.name, ())
    name_running(
        emitter, scope, part, f"{emitter.label(part.name)}_so_far.next({new_value(scope, part, emitter.places)})"
    )


def name_running(emitter: KernelEmitter, scope: Scope, part: Carry, text: str) -> None:
    """Name the result of a scan so far."""
    name, arg = emitter.label(part.name), part.kind.startswith("arg")
    emitter.writer.line(f"const auto {name} = {text}{'.place' if arg else ''};  // {part.name}", scope.origin)
    emitter.locals[part.name] = Value(name, True, torch.int64 if arg else part.value.dtype)
    scope.inner |= {part.name}


def finish(emitter: KernelEmitter, totals: Sequence[Accumulate], parts: int) -> None:
    """Side-by-side totals into one, then its lanes into one value."""
    for part in totals:
        kind, name = KINDS[part.kind], emitter.label(part.name)
        terms = [f"{name}_total[{at}]" for at in range(parts)]
        while len(terms) > 1:
            terms = [f"{kind}::join({one}, {two})" for one, two in zip(terms[::2], terms[1::2], strict=True)]
        place = ".place" if part.kind.startswith("arg") else ""
        emitter.writer.line(
            f"const auto {name} = across<{kind}, W>({terms[0]}){place};  // {part.name}",
            emitter.origins.get(part.name, ()),
        )
        emitter.locals[part.name] = Value(name, False, torch.int64 if place else part.value.dtype)
