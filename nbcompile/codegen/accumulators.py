"""Accumulators of reductions and scans: several independent vectors, combined at the end.

    F32 v0_acc[4] = {Sum::identity<f32, W>(), ...};            4 chains of additions hide their latency
    combine<Sum>(v0_acc[part], lanes, load<f32, W>(...));
    const auto v0 = reduce_lanes<Sum, W>(Sum::join(Sum::join(v0_acc[0], v0_acc[1]), ...));

In torch: torch/_inductor/codegen/cpp.py (reduction_combine_vec). Read next:
nbcompile/codegen/loops.py
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from nbcompile.codegen.emitter import KernelEmitter, scope_of
from nbcompile.codegen.printers import C_TYPES
from nbcompile.codegen.vector_expr import emit_value
from nbcompile.codegen.vector_scope import Scope, Value, as_vector, merge_origins, type_name
from nbcompile.ir.expr import IndexOf
from nbcompile.ir.kernel import Accumulate, Carry

REDUCTIONS = {
    "sum": "Sum", "prod": "Prod", "max": "Max", "min": "Min", "any": "Any", "all": "Every",
    "argmax": "Arg<true>", "argmin": "Arg<false>",
}  # fmt: skip
"""C++ class of each kind of reduction."""
SCANS = {**REDUCTIONS, "argmax": "Latest<true>", "argmin": "Latest<false>", "logsumexp": "LogSumExp"}
"""C++ class of each kind of scan."""


def combiner(part: Accumulate | Carry) -> str:
    """C++ class that combines two values of a reduction or scan."""
    return SCANS[part.kind] if isinstance(part, Carry) else REDUCTIONS[part.kind]


def declare_accumulators(emitter: KernelEmitter, part: Accumulate, count: int) -> None:
    """Declare ``count`` independent accumulators of one reduction."""
    #     lanes       0 ... W-1      one vector: each addition waits for the previous one
    #     acc[0..3]   4 vectors      four independent chains
    name = f"{emitter.label(part.name)}_acc"
    value = f"{{{', '.join([identity_text(part)] * count)}}}"
    origin = emitter.origins.get(part.name, ())
    emitter.writer.line(f"{accumulator_type(emitter, part)} {name}[{count}] = {value};  // {part.name}", origin)


def accumulator_type(emitter: KernelEmitter, part: Accumulate | Carry) -> str:
    """C++ type of an accumulator."""
    if part.kind.startswith("arg"):
        # A pair of vectors: the best values so far, and their indices.
        return f"Best<{C_TYPES[part.value.dtype]}, W>"
    return type_name(scope_of(emitter, None), part.value.dtype, True)


def identity_text(part: Accumulate | Carry) -> str:
    """Identity element of a reduction or scan, as C++."""
    return f"{combiner(part)}::identity<{C_TYPES[part.value.dtype]}, W>()"


def new_value(scope: Scope, part: Accumulate | Carry, index_dtype: torch.dtype) -> str:
    """Next operand of a reduction: W values, paired with their indices for argmax and argmin."""
    value = emit_value(scope, part.value)
    scope.origin = merge_origins(value.origin, scope.origin)
    text = as_vector(scope, value)
    if not part.kind.startswith("arg"):
        return text
    index = as_vector(scope, emit_value(scope, IndexOf(part.index, index_dtype)))
    return f"Best<{C_TYPES[part.value.dtype]}, W>{{{text}, {index}}}"


def emit_combine(
    emitter: KernelEmitter, scope: Scope, part: Accumulate | Carry, target: str, lanes: str = "lanes"
) -> None:
    """Combine one more vector of values into an accumulator."""
    scope.origin = emitter.origins.get(part.name, ())
    value = new_value(scope, part, emitter.index_dtype)
    emitter.writer.line(f"combine<{combiner(part)}>({target}, {lanes}, {value});", scope.origin)


def declare_scan(emitter: KernelEmitter, part: Carry) -> None:
    """Declare the state of a scan along lanes."""
    name, element = f"{emitter.label(part.name)}_scan", C_TYPES[part.value.dtype]
    origin = emitter.origins.get(part.name, ())
    emitter.writer.line(f"ScanState<{combiner(part)}, {element}, W, {accumulator_type(emitter, part)}> {name};", origin)


def emit_scan_step(emitter: KernelEmitter, scope: Scope, part: Carry) -> None:
    """Compute the next W values of a scan along lanes."""
    scope.origin = emitter.origins.get(part.name, ())
    bind_scan_result(
        emitter, scope, part, f"{emitter.label(part.name)}_scan.next({new_value(scope, part, emitter.index_dtype)})"
    )


def bind_scan_result(emitter: KernelEmitter, scope: Scope, part: Carry, text: str) -> None:
    """Bind the current result of a scan to its name in the IR."""
    name, arg = emitter.label(part.name), part.kind.startswith("arg")
    emitter.writer.line(f"const auto {name} = {text}{'.index' if arg else ''};  // {part.name}", scope.origin)
    emitter.locals[part.name] = Value(name, True, torch.int64 if arg else part.value.dtype)
    # It changes in each iteration: values that depend on it must not be hoisted.
    scope.inner |= {part.name}


def reduce_accumulators(emitter: KernelEmitter, accumulators: Sequence[Accumulate], count: int) -> None:
    """Combine the accumulators of each reduction as a tree, then the lanes of the result."""
    for part in accumulators:
        kind, name = REDUCTIONS[part.kind], emitter.label(part.name)
        terms = [f"{name}_acc[{at}]" for at in range(count)]
        # A tree has log2(count) dependent steps, a chain has count - 1.
        while len(terms) > 1:
            terms = [f"{kind}::join({one}, {two})" for one, two in zip(terms[::2], terms[1::2], strict=True)]
        suffix = ".index" if part.kind.startswith("arg") else ""
        emitter.writer.line(
            f"const auto {name} = reduce_lanes<{kind}, W>({terms[0]}){suffix};  // {part.name}",
            emitter.origins.get(part.name, ()),
        )
        emitter.locals[part.name] = Value(name, False, torch.int64 if suffix else part.value.dtype)
