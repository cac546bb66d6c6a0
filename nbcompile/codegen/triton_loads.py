"""Early loads of Triton kernels: a block starts all its loads before its computation.

    y = sin(x) * w; store y; z = y + v     x, w and v are loaded first, side by side; sine and store come after

A GPU waits for a value at its first use, so the latencies of loads that start together overlap. Neither Triton nor
ptxas moves a load over a store, which may alias, or over a branch, such as that of a sine.

In torch: torch/_inductor/codegen/triton.py (the buffer of loads that precedes that of computations). Read next:
nbcompile/codegen/triton_values.py
"""

from __future__ import annotations

from collections.abc import Iterable

from nbcompile.codegen.machine_model import EARLY_REGISTERS
from nbcompile.codegen.triton_values import TritonEmitter, condition_name, depends_on_indices_alone, load_text
from nbcompile.ir.expr import Expr, Load, Masked
from nbcompile.ir.kernel import Inner, Nest, Statement, Store, Update
from nbcompile.ir.traversal import children, loads


def load_early(emitter: TritonEmitter, parts: Iterable[Inner | Statement], per_thread: int) -> None:
    """Emit the loads of some statements, until their values fill the registers reserved for them.

    Args:
        emitter: Within the block that the statements are in.
        parts: Statements; nests are left out.
        per_thread: Number of the block's elements that each thread has.
    """
    # More loads than registers would be spilled, which costs more than it gains.
    emitter.early_registers = EARLY_REGISTERS
    origin = emitter.origin
    for part in parts:
        if not isinstance(part, Nest):
            name = part.buffer if isinstance(part, (Store, Update)) else part.name
            emitter.origin = emitter.origins.get(name, ())
            _load_early(emitter, part.value, per_thread)
            # The index of a scatter is loaded as well; a load at a loaded index has to wait for it.
            for gather in part.offset.gathers if isinstance(part, Update) else ():
                _load_early(emitter, gather.value, per_thread)
    emitter.origin = origin


def fit_early(parts: Iterable[Inner | Statement], per_thread: int) -> bool:
    """Return whether all loads of some statements fit in the registers reserved for early loads."""
    different = {node for part in parts if not isinstance(part, Nest) for node in loads(part.value)}
    return sum(_registers(load, per_thread) for load in different) <= EARLY_REGISTERS


def _registers(load: Load, per_thread: int) -> int:
    # A register has 4 bytes; narrower elements are taken to have one each.
    return per_thread * -(-load.dtype.itemsize // 4)


def _load_early(emitter: TritonEmitter, body: Expr, per_thread: int) -> None:
    origin = emitter.origin
    emitter.origin = getattr(body, "origin", ()) or origin
    match body:
        case Load(gathers=()):
            # A buffer that the kernel writes may be loaded only after the store.
            if body.buffer in emitter.pointers and body.buffer not in emitter.kernel.writes:
                _within_registers(emitter, body, per_thread)
        # The mask of a load has to be known before it. A condition on indices is; one on values is
        # itself loaded first, and what it guards later, where it is used.
        case Masked(condition, value, otherwise) if depends_on_indices_alone(condition):
            before = emitter.mask
            if emitter.early_registers > 0:
                name = condition_name(emitter, condition)
                emitter.mask = f"({before} & {name})" if before else name
                _load_early(emitter, value, per_thread)
                emitter.mask = f"({before} & ~{name})" if before else f"~{name}"
                _load_early(emitter, otherwise, per_thread)
                emitter.mask = before
        case Masked(condition):
            _load_early(emitter, condition, per_thread)
        case _:
            for child in children(body):
                _load_early(emitter, child, per_thread)
    emitter.origin = origin


def _within_registers(emitter: TritonEmitter, load: Load, per_thread: int) -> None:
    own = emitter.block_variables & load.index[0].free_symbols
    needed = _registers(load, per_thread if own else 1)
    if needed <= emitter.early_registers:
        # A value that is in registers already needs no more: only new ones are subtracted.
        known = len(emitter.loaded)
        load_text(emitter, load)
        emitter.early_registers -= needed * (len(emitter.loaded) - known)
