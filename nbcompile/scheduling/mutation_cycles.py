"""Two inputs that are overwritten from each other's old values.

    x.copy_(x + y)                 needs every reader of the old x to have run: also the line below
    y.copy_(y * (x + y))           needs every reader of the old y to have run: also the line above
    ->  buf1_value = y * (x + y);  x.copy_(x + y);  y.copy_(buf1_value)

Each would have to come before the other. Computing one value into memory of
its own, and copying it at the end, opens the circle; where the places agree,
fusion makes one kernel of all three again and the memory is gone.

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


def open_circles(program: Program) -> Program:
    """The program with as few writers split as it takes for an order to exist."""
    needs = dependencies(program)
    for buffer in reversed(program.buffers):
        if isinstance(buffer, Pointwise) and buffer.writes_to and _needs_itself(buffer.name, needs):
            program = _split(program, buffer)
            needs = dependencies(program)
    return program


def _needs_itself(name: str, needs: dict[str, set[str]]) -> bool:
    waiting, seen = list(needs[name]), set[str]()
    while waiting:
        each = waiting.pop()
        if each == name:
            return True
        if each not in seen:
            seen.add(each)
            waiting.extend(needs.get(each, ()))
    return False


def _split(program: Program, writer: Pointwise) -> Program:
    """``writer`` as a value of its own and the copy of it."""
    value = replace(writer, name=f"{writer.name}_value", layout=contiguous(writer.layout.size), writes_to="")
    load = Load(value.name, loop_variables(len(writer.layout.size)), writer.dtype)
    buffers: list[Buffer] = []
    for buffer in program.buffers:
        buffers += [value, replace(writer, body=load)] if buffer is writer else [buffer]
    return replace(program, buffers=tuple(buffers))
