"""Tests for nbcompile.rewriting.resume: a function that begins at its yield recreates a suspended generator."""

from __future__ import annotations

import inspect
import types

import pytest

from nbcompile.bytecode.disassemble import disassemble
from nbcompile.rewriting.resume import resume_function_code
from nbcompile.rewriting.resume_layout import CannotResume, ResumeTarget, Slot


def counting(start, stop):
    for number in range(start, stop):
        got = yield number
        if got is not None:
            start += got
    return start


def guarded(log):
    try:
        yield "first"
        yield "second"
    except ValueError as error:
        yield str(error)
    finally:
        log.append("closed")


def delegating(items):
    result = yield from items
    yield result


def with_cells(step):
    total = 0

    def add():
        nonlocal total
        total += step
        return total

    while total < 10:
        yield add()


def yield_of(frame):
    """The YIELD_VALUE at which a frame is suspended: ``f_lasti`` is its offset, or the next one from 3.13 on."""
    before = [each for each in disassemble(frame.f_code) if each.offset <= frame.f_lasti]
    return next(each for each in reversed(before) if each.opcode == "YIELD_VALUE")


def waiting_again(generator, function, stack=()):
    """A copy of a suspended generator, created from its parts."""
    frame = generator.gi_frame
    place = yield_of(frame)
    own = function.__code__.co_cellvars
    live = tuple(name for name in frame.f_locals if name not in (*own, *function.__code__.co_freevars))
    cells = {name: types.CellType(frame.f_locals[name]) for name in own if name in frame.f_locals}
    slots = (Slot.VALUE,) * (len(stack) + 1)
    code = resume_function_code(ResumeTarget(function.__code__, place.offset, slots, live, tuple(cells), None))
    closure = tuple(cells[name] for name in code.co_freevars)
    made = types.FunctionType(code, globals(), closure=closure)(*stack, None, *(frame.f_locals[n] for n in live))
    assert next(made) is None
    return made


def test_it_goes_on_in_its_loop():
    """The loop's iterator is on the stack; a sent value arrives, and the return value, too."""
    numbers = iter([2, 3])
    made = waiting_again(_advanced(counting(1, 4)), counting, (numbers,))
    assert made.send(5) == 2
    assert next(made) == 3
    with pytest.raises(StopIteration) as ended:
        next(made)
    assert ended.value.value == 6


def _advanced(generator):
    next(generator)
    return generator


def test_it_is_inside_of_its_try():
    """The generator catches an exception that is thrown into it, and runs ``finally`` when it is closed."""
    log = []
    original = _advanced(guarded(log))
    made = waiting_again(original, guarded)
    assert made.throw(ValueError("no")) == "no"
    made.close()
    assert log == ["closed"]
    made = waiting_again(original, guarded)
    assert next(made) == "second"
    made.close()
    assert log == ["closed", "closed"]


def test_what_it_delegates_to_is_asked():
    """A ``yield from`` continues with the iterator on its stack."""
    made = waiting_again(_advanced(delegating(counting(1, 3))), delegating, (_advanced(counting(1, 3)),))
    assert made.gi_yieldfrom is not None
    assert list(made) == [2, 1]


def test_its_variables_that_functions_share():
    """The new generator shares its cells with inner functions."""
    generator = with_cells(4)
    next(generator)
    frame = generator.gi_frame
    code = with_cells.__code__
    place = yield_of(frame)
    cell = types.CellType(4)
    add = types.FunctionType(frame.f_locals["add"].__code__, globals(), closure=(types.CellType(4), cell))
    resumed = resume_function_code(ResumeTarget(code, place.offset, (Slot.VALUE,), ("add",), ("total",), None))
    made = types.FunctionType(resumed, globals(), closure=(cell,))(None, add)
    next(made)
    assert list(made) == [8, 12]


def test_it_begins_nowhere_else():
    """Only a yield of a generator can be resumed."""
    code = counting.__code__
    place = next(each for each in disassemble(code) if each.opcode == "FOR_ITER")
    with pytest.raises(CannotResume):
        resume_function_code(ResumeTarget(code, place.offset, (Slot.VALUE,), ("start",), ()))
    assert inspect.isgeneratorfunction(counting)
