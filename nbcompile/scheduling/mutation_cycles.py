"""Dependency cycles between writes: two inputs, each overwritten from the other's old value.

    x.copy_(x + y)                 needs every reader of the old x to have run: also the line below
    y.copy_(y * (x + y))           needs every reader of the old y to have run: also the line above
    ->  buf1_value = y * (x + y);  x.copy_(x + y);  y.copy_(buf1_value)

These write-after-read dependencies form a cycle. Computing one value into a
buffer of its own, and copying it at the end, breaks it. Where the indices
agree, fusion puts all three into one kernel, and the buffer is not stored.

In torch: it cannot arise there (copy_ is an epilogue of a realised buffer).
Read next: nbcompile/scheduling/fuse.py
"""

from __future__ import annotations

from dataclasses import replace

from nbcompile.ir.buffer import Buffer, Pointwise, Program
from nbcompile.ir.expr import Load
from nbcompile.ir.index import loop_variables
from nbcompile.ir.layout import contiguous
from nbcompile.scheduling.dependencies import dependencies


def break_mutation_cycles(program: Program) -> Program:
    """Split as few writers as it takes for a topological order to exist."""
    needs = dependencies(program)
    # One writer of a cycle is enough: the next ones are looked at with the dependencies as they are then.
    for buffer in reversed(program.buffers):
        if isinstance(buffer, Pointwise) and buffer.writes_to and _depends_on_itself(buffer.name, needs):
            program = _split(program, buffer)
            needs = dependencies(program)
    return program


def _depends_on_itself(name: str, needs: dict[str, set[str]]) -> bool:
    worklist, seen = list(needs[name]), set[str]()
    while worklist:
        current = worklist.pop()
        if current == name:
            return True
        if current not in seen:
            seen.add(current)
            worklist.extend(needs.get(current, ()))
    return False


def _split(program: Program, writer: Pointwise) -> Program:
    """Split ``writer`` into a buffer that holds the value and a copy of it."""
    # The copy keeps the name, so that what depends on the write still finds it; the value writes to no input.
    value = replace(writer, name=f"{writer.name}_value", layout=contiguous(writer.layout.size), writes_to="")
    load = Load(value.name, loop_variables(len(writer.layout.size)), writer.dtype)
    buffers: list[Buffer] = []
    for buffer in program.buffers:
        buffers += [value, replace(writer, body=load)] if buffer is writer else [buffer]
    return replace(program, buffers=tuple(buffers))
