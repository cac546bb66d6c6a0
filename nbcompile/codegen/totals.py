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
from nbcompile.codegen.values import Scope, Value, as_many, emit_value, type_name
from nbcompile.ir.expr import IndexOf
from nbcompile.ir.kernel import Accumulate

KINDS = {
    "sum": "Sum", "prod": "Prod", "max": "Max", "min": "Min", "any": "Any", "all": "Every",
    "argmax": "Arg<true>", "argmin": "Arg<false>",
}  # fmt: skip
"""The C++ class of each kind of reduction."""


def start(emitter: KernelEmitter, part: Accumulate, count: int) -> None:
    """Declare the totals of one reduction, ``count`` side by side."""
    name = f"{emitter.label(part.name)}_total"
    value = f"{{{', '.join([neutral(part)] * count)}}}"
    origin = emitter.origins.get(part.name, ())
    emitter.writer.line(f"{held_type(emitter, part)} {name}[{count}] = {value};  // {part.name}", origin)


def held_type(emitter: KernelEmitter, part: Accumulate) -> str:
    """The type of a running total."""
    if part.kind.startswith("arg"):
        return f"Best<{C_TYPES[part.value.dtype]}, W>"
    return type_name(scope_of(emitter, None), part.value.dtype, True)


def neutral(part: Accumulate) -> str:
    """What a running total starts with."""
    return f"{KINDS[part.kind]}::start<{C_TYPES[part.value.dtype]}, W>()"


def combine(emitter: KernelEmitter, scope: Scope, part: Accumulate, total: str, lanes: str = "lanes") -> None:
    """One more vector of values into a total."""
    scope.origin = emitter.origins.get(part.name, ())
    text = as_many(scope, emit_value(scope, part.value))
    if part.kind.startswith("arg"):
        place = as_many(scope, emit_value(scope, IndexOf(part.place, torch.int64)))
        text = f"Best<{C_TYPES[part.value.dtype]}, W>{{{text}, {place}}}"
    emitter.writer.line(f"combine<{KINDS[part.kind]}>({total}, {lanes}, {text});", scope.origin)


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
