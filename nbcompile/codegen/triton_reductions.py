"""Reductions and scans of blocks: combined element by element while a loop runs, and across the block.

    v0_total = tl.full([1024], 0, tl.float32)
    for begin in range(0, 100000, 1024): ... v0_total = tl.where(mask, v0_total + (x1), v0_total)
    v0 = tl.sum(v0_total, 0)

In torch: torch/_inductor/codegen/triton.py (TritonKernel.reduction). Read next:
nbcompile/codegen/triton.py
"""

from __future__ import annotations

import torch

from nbcompile.codegen.triton_values import TYPES, TritonEmitter, index_text, named, value_text
from nbcompile.ir.kernel import Accumulate, Carry

START = {"sum": "0", "prod": "1", "any": "0", "all": "1"}


def total_name(part: Accumulate | Carry) -> str:
    """The variable that holds a running total."""
    return f"{part.name}_total"


def _limit(part: Accumulate | Carry) -> str:
    """What changes nothing when it is combined."""
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


def start(emitter: TritonEmitter, part: Accumulate | Carry, block: int) -> None:
    """Declare the totals of a block."""
    emitter.asking = emitter.origins.get(part.name, ())
    kind = TYPES[part.value.dtype]
    emitter.line(f"{total_name(part)} = tl.full([{block}], {_limit(part)}, {kind})")
    if part.kind.startswith("arg"):
        emitter.line(f"{part.name}_place = tl.full([{block}], {2**63 - 1}, tl.int64)")


def combine(emitter: TritonEmitter, part: Accumulate, mask: str) -> None:
    """One more block of values into the totals."""
    emitter.asking = emitter.origins.get(part.name, ())
    total, value = total_name(part), value_text(emitter, part.value)
    if part.kind.startswith("arg"):
        best, held = emitter.fresh("better"), f" & {mask}" if mask else ""
        place = f"({index_text(part.place)}) + tl.zeros_like({part.name}_place)"
        test = "beats_larger" if part.kind == "argmax" else "beats_smaller"
        emitter.line(f"{best} = {test}({value}, {place}, {total}, {part.name}_place){held}")
        emitter.line(f"{total} = tl.where({best}, {value}, {total})")
        emitter.line(f"{part.name}_place = tl.where({best}, {place}, {part.name}_place)")
        return
    joined = JOIN[part.kind].format(total, f"({value})")
    emitter.line(f"{total} = tl.where({mask}, {joined}, {total})" if mask else f"{total} = {joined}")


JOIN = {
    "sum": "{0} + {1}", "prod": "{0} * {1}", "max": "nan_maximum({0}, {1})", "min": "nan_minimum({0}, {1})",
    "any": "{0} | {1}", "all": "{0} & {1}",
}  # fmt: skip
ACROSS = {
    "sum": "tl.sum({0}, 0)", "prod": "tl.reduce({0}, 0, multiply)",
    "max": "tl.reduce({0}, 0, nan_maximum)", "min": "tl.reduce({0}, 0, nan_minimum)",
    "any": "tl.max({0}.to(tl.int32), 0) != 0", "all": "tl.min({0}.to(tl.int32), 0) != 0",
}  # fmt: skip


def reduce_row(emitter: TritonEmitter, part: Accumulate) -> str:
    """Combine a whole row that is in registers."""
    emitter.asking = emitter.origins.get(part.name, ())
    dtype, value = TYPES[part.value.dtype], value_text(emitter, part.value)
    limit = f"tl.full([1], {_limit(part)}, {dtype})"
    emitter.line(f"{total_name(part)} = {_or_else(emitter, value, limit)}")
    if part.kind.startswith("arg"):
        place = f"({index_text(part.place)}) + tl.zeros_like(inner).to(tl.int64)"
        emitter.line(f"{part.name}_place = {_or_else(emitter, place, str(2**63 - 1))}")
    return across(emitter, part)


def _or_else(emitter: TritonEmitter, value: str, otherwise: str) -> str:
    """A value in the full shape of the block, with another one where no element is."""
    if emitter.mask:
        return f"tl.where({emitter.mask}, {value}, {otherwise})"
    return f"tl.broadcast_to({value}, {emitter.block}.shape)"


def across(emitter: TritonEmitter, part: Accumulate) -> str:
    """The totals of a block into one; answers its name."""
    emitter.asking = emitter.origins.get(part.name, ())
    if part.kind.startswith("arg"):
        pick = "pick_larger" if part.kind == "argmax" else "pick_smaller"
        emitter.line(f"_, {part.name} = tl.reduce(({total_name(part)}, {part.name}_place), 0, {pick})")
    else:
        emitter.line(f"{part.name} = {ACROSS[part.kind].format(total_name(part))}")
    return part.name


# --- scans -----------------------------------------------------------------------------------------------------------

COMBINE = {
    "sum": "plus", "prod": "multiply", "max": "nan_maximum", "min": "nan_minimum", "logsumexp": "log_sum_exp",
    "argmax": "latest_larger", "argmin": "latest_smaller",
}  # fmt: skip
"""The function of two values (of two values and their places) that a scan is made with."""


def _results(part: Carry) -> list[str]:
    """The variables of a scan's result; the last one is what is asked for."""
    return [f"{part.name}_value", part.name] if part.kind.startswith("arg") else [part.name]


def _totals(part: Carry) -> list[str]:
    return [total_name(part), f"{part.name}_place"] if part.kind.startswith("arg") else [total_name(part)]


def _scanned(emitter: TritonEmitter, part: Carry) -> str:
    """What is scanned, in the block's full shape; with places where these are asked for."""
    value = named(emitter, value_text(emitter, part.value))
    text = _or_else(emitter, value, value)  # to add zeros would change -0.0
    if not part.kind.startswith("arg"):
        return text
    return f"{text}, ({index_text(part.place)}) + tl.zeros_like({emitter.block}).to(tl.int64)"


def scan_block(emitter: TritonEmitter, part: Carry) -> None:
    """Each element of a block combined with those before it. (What lies beyond the end comes last.)"""
    emitter.asking = emitter.origins.get(part.name, ())
    scanned = _scanned(emitter, part)
    scanned = f"({scanned})" if part.kind.startswith("arg") else scanned
    begun = " + 0.0" if part.kind == "sum" and part.value.dtype.is_floating_point else ""  # 0.0 + -0.0 is 0.0
    emitter.line(f"{', '.join(_results(part))} = tl.associative_scan({scanned}, 0, {COMBINE[part.kind]}){begun}")
    emitter.locals[part.name] = part.name


def scan_next_block(emitter: TritonEmitter, part: Carry, block: int) -> None:
    """The same in a loop over blocks: the last element of each is carried on."""
    scan_block(emitter, part)
    results, totals = ", ".join(_results(part)), _totals(part)
    emitter.line(f"{results} = {COMBINE[part.kind]}({', '.join(totals)}, {results})")
    for total, result in zip(totals, _results(part), strict=True):
        dtype = TYPES[torch.int64 if total.endswith("_place") else part.value.dtype]
        last = f"tl.sum(tl.where(tl.arange(0, {block}) == {block - 1}, {result}, 0), 0).to({dtype})"
        emitter.line(f"{total} = tl.full([{block}], 0, {dtype}) + {last}")


def scan_step(emitter: TritonEmitter, part: Carry) -> None:
    """The same where each element of a block is a scan of its own: one more value for each."""
    emitter.asking = emitter.origins.get(part.name, ())
    results, totals = _results(part), ", ".join(_totals(part))
    emitter.line(f"{totals} = {COMBINE[part.kind]}({totals}, {_scanned(emitter, part)})")
    emitter.line(f"{', '.join(results)} = {totals}")
    emitter.locals[part.name] = part.name
