"""Reductions and scans of blocks: combined element by element while a loop runs, and across the block.

    v0_acc = tl.full([1024], 0, tl.float32)
    for begin in range(0, 100000, 1024): ... v0_acc = tl.where(mask, v0_acc + (x1), v0_acc)
    v0 = tl.sum(v0_acc, 0)

In torch: torch/_inductor/codegen/triton.py (TritonKernel.reduction). Read next:
nbcompile/codegen/triton.py
"""

from __future__ import annotations

import torch

from nbcompile.codegen.triton_values import TYPES, TritonEmitter, assign, index_text, value_text
from nbcompile.ir.kernel import Accumulate, Carry

START = {"sum": "0", "prod": "1", "any": "0", "all": "1"}


def accumulator_name(part: Accumulate | Carry) -> str:
    """Name of the variable with the accumulators of a block."""
    return f"{part.name}_acc"


def _identity(part: Accumulate | Carry) -> str:
    """Identity element of a reduction or scan."""
    if part.kind in START:
        return START[part.kind]
    lowest = part.kind in {"max", "argmax", "logsumexp"}
    dtype = part.value.dtype
    if dtype.is_floating_point:
        return 'float("-inf")' if lowest else 'float("inf")'
    if dtype == torch.bool:
        return "0" if lowest else "1"
    limits = torch.iinfo(dtype)
    return str(limits.min if lowest else limits.max)


def declare_accumulators(emitter: TritonEmitter, part: Accumulate | Carry, shape: str) -> None:
    """Declare the accumulators of a block."""
    emitter.origin = emitter.origins.get(part.name, ())
    kind = TYPES[part.value.dtype]
    emitter.line(f"{accumulator_name(part)} = tl.full([{shape}], {_identity(part)}, {kind})")
    if part.kind.startswith("arg"):
        # Of equal values the one with the lower index is chosen, and every index is lower than this one.
        emitter.line(f"{part.name}_index = tl.full([{shape}], {2**63 - 1}, tl.int64)")


def emit_combine(emitter: TritonEmitter, part: Accumulate, mask: str) -> None:
    """Combine one more block of values into the accumulators."""
    emitter.origin = emitter.origins.get(part.name, ())
    total, value = accumulator_name(part), value_text(emitter, part.value)
    if part.kind.startswith("arg"):
        best, in_mask = emitter.fresh("better"), f" & {mask}" if mask else ""
        index = f"({index_text(part.index)}) + tl.zeros_like({part.name}_index)"
        test = "beats_larger" if part.kind == "argmax" else "beats_smaller"
        emitter.line(f"{best} = {test}({value}, {index}, {total}, {part.name}_index){in_mask}")
        emitter.line(f"{total} = tl.where({best}, {value}, {total})")
        emitter.line(f"{part.name}_index = tl.where({best}, {index}, {part.name}_index)")
        return
    # Masked elements keep the accumulator, whatever was loaded for them.
    combined = JOIN[part.kind].format(total, f"({value})")
    emitter.line(f"{total} = tl.where({mask}, {combined}, {total})" if mask else f"{total} = {combined}")


JOIN = {
    "sum": "{0} + {1}", "prod": "{0} * {1}", "max": "nan_maximum({0}, {1})", "min": "nan_minimum({0}, {1})",
    "any": "{0} | {1}", "all": "{0} & {1}",
}  # fmt: skip
REDUCE = {
    # tl.max and tl.min lose NaN, so maximum and minimum are reduced by functions of our own.
    "sum": "tl.sum({0}, 0)", "prod": "tl.reduce({0}, 0, multiply)",
    "max": "tl.reduce({0}, 0, nan_maximum)", "min": "tl.reduce({0}, 0, nan_minimum)",
    "any": "tl.max({0}.to(tl.int32), 0) != 0", "all": "tl.min({0}.to(tl.int32), 0) != 0",
}  # fmt: skip


def reduce_row(emitter: TritonEmitter, part: Accumulate) -> str:
    """Reduce a whole row that is in registers (persistent reduction)."""
    emitter.origin = emitter.origins.get(part.name, ())
    dtype, value = TYPES[part.value.dtype], value_text(emitter, part.value)
    identity = f"tl.full([1], {_identity(part)}, {dtype})"
    emitter.line(f"{accumulator_name(part)} = {_or_else(emitter, value, identity)}")
    if part.kind.startswith("arg"):
        index = f"({index_text(part.index)}) + tl.zeros_like(inner).to(tl.int64)"
        emitter.line(f"{part.name}_index = {_or_else(emitter, index, str(2**63 - 1))}")
    name = reduce_block(emitter, part)
    if part.kind == "sum" and part.value.dtype.is_floating_point:
        emitter.line(f"{name} += 0.0")  # eager's sum begins with 0.0, and 0.0 + -0.0 is 0.0
    return name


def _or_else(emitter: TritonEmitter, value: str, otherwise: str) -> str:
    """Value in the full shape of the block, with another one in masked elements."""
    if emitter.mask:
        return f"tl.where({emitter.mask}, {value}, {otherwise})"
    return f"tl.broadcast_to({value}, {emitter.block}.shape)"


def reduce_block(emitter: TritonEmitter, part: Accumulate) -> str:
    """Reduce the accumulators of a block; return the name of the result."""
    emitter.origin = emitter.origins.get(part.name, ())
    if part.kind.startswith("arg"):
        pick = "pick_larger" if part.kind == "argmax" else "pick_smaller"
        emitter.line(f"_, {part.name} = tl.reduce(({accumulator_name(part)}, {part.name}_index), 0, {pick})")
    else:
        emitter.line(f"{part.name} = {REDUCE[part.kind].format(accumulator_name(part))}")
    return part.name


# --- scans -----------------------------------------------------------------------------------------------------------

COMBINE = {
    "sum": "plus", "prod": "multiply", "max": "nan_maximum", "min": "nan_minimum", "logsumexp": "log_sum_exp",
    "argmax": "latest_larger", "argmin": "latest_smaller",
}  # fmt: skip
"""Binary operator of each scan; of argmax and argmin, over pairs of value and index."""
BITS = {torch.float64: "tl.int64", torch.float32: "tl.int32", torch.float16: "tl.int16", torch.bfloat16: "tl.int16"}
"""Integer type with the bits of a number."""


def _results(part: Carry) -> list[str]:
    """Variables of a scan's result; the last one is the value in the IR."""
    return [f"{part.name}_value", part.name] if part.kind.startswith("arg") else [part.name]


def _totals(part: Carry) -> list[str]:
    return [accumulator_name(part), f"{part.name}_index"] if part.kind.startswith("arg") else [accumulator_name(part)]


def _scanned(emitter: TritonEmitter, part: Carry) -> str:
    """Operand of a scan, in the block's full shape, paired with indices for argmax and argmin."""
    value = assign(emitter, value_text(emitter, part.value))
    text = _or_else(emitter, value, value)  # to add zeros would change -0.0
    if not part.kind.startswith("arg"):
        return text
    return f"{text}, ({index_text(part.index)}) + tl.zeros_like({emitter.block}).to(tl.int64)"


def scan_block(emitter: TritonEmitter, part: Carry) -> None:
    """Emit an inclusive scan of a block. Masked elements come last, so they need no identity."""
    emitter.origin = emitter.origins.get(part.name, ())
    scanned = _scanned(emitter, part)
    scanned = f"({scanned})" if part.kind.startswith("arg") else scanned
    # Eager's scan begins with 0.0, and 0.0 + -0.0 is 0.0; so is the logarithm of exp(-inf) + exp(-0.0).
    begun = " + 0.0" if part.kind in {"sum", "logsumexp"} and part.value.dtype.is_floating_point else ""
    emitter.line(f"{', '.join(_results(part))} = tl.associative_scan({scanned}, 0, {COMBINE[part.kind]}){begun}")
    emitter.locals[part.name] = part.name


def scan_next_block(emitter: TritonEmitter, part: Carry, shape: str, is_last: str) -> None:
    """Emit a scan in a loop over blocks: the last element of each is carried to the next."""
    scan_block(emitter, part)
    results, totals = ", ".join(_results(part)), _totals(part)
    #     block         1  2  3  4 |  5  6  7  8
    #     scanned       1  3  6 10 |  5 11 18 26
    #     with totals   1  3  6 10 | 15 21 28 36      the total of the first block is 10
    emitter.line(f"{results} = {COMBINE[part.kind]}({', '.join(totals)}, {results})")
    for total, result in zip(totals, _results(part), strict=True):
        dtype = torch.int64 if total.endswith("_index") else part.value.dtype
        # Neither a sum, which begins with 0.0, nor an index is -0.0.
        bits = BITS.get(dtype) if part.kind in {"prod", "max", "min"} else None
        emitter.line(f"{total} = {_last_element(result, is_last, TYPES[dtype], bits, shape)}")


def _last_element(name: str, is_last: str, kind: str, bits: str | None, shape: str) -> str:
    """Last element of a block, for all elements of another one: a sum over the block in which all others are 0."""
    if bits is None:
        return f"tl.full([{shape}], 0, {kind}) + tl.sum(tl.where({is_last}, {name}, 0), 0).to({kind})"
    # A sum of numbers would change -0.0, so its bits are added.
    last = f"tl.sum(tl.where({is_last}, {name}.to({bits}, bitcast=True), 0), 0).to({bits})"
    return f"(tl.full([{shape}], 0, {bits}) + {last}).to({kind}, bitcast=True)"
