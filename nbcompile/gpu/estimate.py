"""Estimate of a simulation's duration, before it starts.

    estimate.seconds(function, blocks=4096, rounds=0, shared_bytes=16)      1.4

The simulator executes one instruction in all threads of many blocks at once: a step costs a little for itself, and some
nanoseconds for each thread. The number of iterations of its loops comes from the kernel (``EmittedKernel.rounds``).

In torch: nothing. Read next: nbcompile/gpu/simulator.py
"""

from __future__ import annotations

from collections.abc import Callable

from nbcompile.gpu.ptx import Function
from nbcompile.gpu.simulator import blocks_at_once
from nbcompile.ir.emitted import EmittedKernel

STEP_SECONDS, THREAD_SECONDS, ACCESS_SECONDS = 25e-6, 10e-9, 400e-9
"""Seconds per instruction: fixed, per thread, and per thread that accesses memory. Measured on two cores of a
server; an estimate within a factor of three is good enough."""


def rounds(kernel: EmittedKernel) -> Callable[..., int]:
    """A function of a kernel's sizes: number of iterations of all loops in one of its programs."""
    if not kernel.sizes:
        known = int(eval(kernel.rounds or "0", {}))
        return lambda: known
    compiled = compile(kernel.rounds or "0", f"<rounds of {kernel.name}>", "eval")
    return lambda *sizes: int(eval(compiled, dict(zip(kernel.sizes, sizes, strict=True))))


def seconds(function: Function, blocks: int, rounds: int, shared_bytes: int) -> float:
    """Estimated duration of simulating a launch, in seconds."""
    # The fixed part is paid once for each group of blocks that run at once, the rest for each thread.
    steps, accesses = _executed(function, rounds)
    at_once = blocks_at_once(function, shared_bytes)
    threads = blocks * function.threads
    return -(-blocks // at_once) * steps * STEP_SECONDS + threads * (steps * THREAD_SECONDS + accesses * ACCESS_SECONDS)


def _executed(function: Function, rounds: int) -> tuple[int, int]:
    """Instructions, and accesses to memory among them, of one thread; those in a loop count once per iteration."""
    in_loops: set[int] = set()
    for at, instruction in enumerate(function.instructions):
        # A branch to a lower address closes a loop: everything between is its body.
        if instruction.opcode == "bra" and function.labels[instruction.operands[0]] <= at:
            in_loops.update(range(function.labels[instruction.operands[0]], at + 1))
    steps = accesses = 0
    for at, instruction in enumerate(function.instructions):
        # rounds is of all loops together, so what is in two nested ones counts no more.
        times = max(rounds, 1) if at in in_loops else 1
        steps += times
        accesses += times * (instruction.opcode in ("ld", "st", "atom", "red") and "param" not in instruction.modifiers)
    return steps, accesses
