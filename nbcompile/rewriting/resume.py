"""Resume functions: the rest of a function, as a function of its live values.

After a graph break the frame continues in a resume function: the original
bytecode behind a prologue that takes the operand stack and the live locals as
arguments, restores them, and jumps in.

    def f(x, path):                      torch_dynamo_resume_in_f_at_3(___stack0, y)
        y = x * 2                            LOAD_FAST ___stack0     what save() returned
        torch.save(y, path)    ------->      JUMP_FORWARD            (only if loops keep earlier code alive)
        return y + 1                         POP_TOP                 the original from here on
                                             LOAD_FAST y ...

Asking twice for one place gives one code object, since compiled code hangs on
code objects; and a resume function of a resume function is made from the
original, so that names and lines never drift.

In torch: torch/_dynamo/resume_execution.py. Read next:
nbcompile/rewriting/residual.py, which calls what is made here
"""

from __future__ import annotations

import inspect
import itertools
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from types import CodeType

from nbcompile.bytecode.assemble import assemble_with_offsets
from nbcompile.bytecode.comprehensions import comprehension_at
from nbcompile.bytecode.dialects import HERE
from nbcompile.bytecode.disassemble import disassemble
from nbcompile.bytecode.flow import (
    INTROSPECTION,
    outer_protection,
    possibly_unbound,
    reachable,
    stack_depth,
    variable_accesses,
)
from nbcompile.bytecode.instruction import Instruction, Label, Position, Protection, label_indices
from nbcompile.bytecode.superinstructions import expand_superinstructions
from nbcompile.support.process_state import STATE, Lifetime


class CannotResume(Exception):
    """A point of a code object that cannot become the start of a function; the message says why."""


class Slot(Enum):
    """Kind of one slot of the operand stack, bottom first."""

    VALUE = "value"
    """Any object; passed as an argument."""
    NULL = "null"
    """The NULL next to a callable; not passed."""
    EXIT = "exit"
    """``__exit__`` of an active ``with``. The context manager is passed, and entered again."""
    HANDLED = "handled"
    """Inside a handler: what was being handled outside (flow.handled_slots). What is passed is
    the exception that is being handled inside; it is made current again. Where that exception
    stands on the stack itself, just above, it is passed once more, as VALUE."""
    LASTI = "lasti"
    """The ``lasti`` below an exception in clean-up code. Not passed."""
    CALL = "call"
    """The result of an inlined function: its resume function and a tuple of that one's arguments are passed.
    It is called here, below the original's own ``with`` blocks."""


OPERANDS = {Slot.VALUE: 1, Slot.NULL: 0, Slot.EXIT: 1, Slot.HANDLED: 1, Slot.LASTI: 0, Slot.CALL: 2}
"""Number of arguments ``___stackN`` of each kind of slot."""


@dataclass(frozen=True, slots=True)
class ResumeInfo:
    """Origin of a resume function. The references are weak, so that a redefined function can be freed."""

    original: weakref.ReferenceType[CodeType]
    """The user's code object (or, for a break inside a prologue, the resume function it is in)."""
    function: str
    """The name of the user's function."""
    offset: int
    """The offset in the original at which it resumes."""
    line: int
    """The line of the user's file in its name."""
    stack: tuple[Slot, ...]
    arguments: tuple[str, ...]
    """Positional arguments in order: ``___stack0``..., then live locals."""
    live: tuple[str, ...]
    cells: tuple[str, ...]
    """Cell variables of the original that are free variables here, appended to its own."""
    closure: tuple[str, ...]
    """Names in the original of the variables in ``co_freevars``."""
    parent: weakref.ReferenceType[CodeType] | None
    """The resume function in which the break occurred, if it was one."""
    original_offsets: Mapping[int, int] = field(default_factory=dict, repr=False, compare=False)
    """From an offset in the resume function to the offset of the same instruction in the original."""


def resume_function_code(
    code: CodeType,
    offset: int,
    stack: tuple[Slot, ...],
    live: tuple[str, ...],
    cells: tuple[str, ...] = (),
    line: int | None = None,
    end: int | None = None,
) -> CodeType:
    """The code of a function that resumes at ``offset``.

    It is called with the positional arguments of each slot (OPERANDS) of the
    stack, bottom first, then one for each of ``live``. Its closure holds a
    cell for each of its ``co_freevars``: the frame's own free variables and
    ``cells``, sorted as CPython's compiler sorts them.

    Args:
        code: the code that was traced; a resume function is fine.
        offset: of the instruction to run next (``Instruction.offset``).
        stack: what the operand stack holds there.
        live: names of the locals that are bound and still needed. Other locals
            are unbound in the resume function.
        cells: names of the frame's cell variables whose cells are passed on.
            A cell variable that is not named begins as a new, empty cell.
        line: for the name: the line of the break. Default: of the instruction.
        end: of an inlined comprehension that begins at ``offset``: return what
            it built. ``stack`` is then only its iterator.

    Raises:
        CannotResume: generators, class bodies, a stack of another depth.
    """
    point = _resume_target(code, offset, stack, live, cells, line, end)
    with _LOCK:
        known = _CODES.get(point.key())
        # A dead code object's id may be given to a new one.
        if known is not None and _INFOS[known].original() is point.original:
            return known
        code_object, info = _build(point)
        _CODES[point.key()] = code_object
        _INFOS[code_object] = info
        return code_object


def resume_info(code: CodeType) -> ResumeInfo | None:
    """Origin of a resume function; None for any other code."""
    return _INFOS.get(code)


# -- which place is meant ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _ResumeTarget:
    """A point in the user's code, with the stack and the variables there."""

    original: CodeType
    offset: int
    stack: tuple[Slot, ...]
    live: tuple[str, ...]
    cells: tuple[str, ...]
    line: int | None
    function: str
    parent: CodeType | None
    end: int | None
    """The offset of its end; None: the end of the function."""

    def key(self) -> tuple[object, ...]:
        return (id(self.original), self.offset, self.stack, self.live, self.cells, self.line, self.end)


def _resume_target(
    code: CodeType,
    offset: int,
    stack: tuple[Slot, ...],
    live: tuple[str, ...],
    cells: tuple[str, ...],
    line: int | None,
    end: int | None,
) -> _ResumeTarget:
    """Undo resume functions: find the same point in the code that the user wrote."""
    info = resume_info(code)
    if info is None:
        return _ResumeTarget(code, offset, stack, live, cells, line, code.co_name, None, end)
    original = info.original()
    if original is None or offset not in info.original_offsets:
        # Inside the prologue, or the user's function is gone: go on from the resume function itself.
        return _ResumeTarget(code, offset, stack, live, cells, line or info.line, info.function, code, end)
    # What came in as a free variable is one in the next resume function too, if it was a cell of the original.
    cells = (*cells, *(name for name in info.cells if name not in cells and name not in live))
    offset, end = info.original_offsets[offset], None if end is None else info.original_offsets[end]
    return _ResumeTarget(original, offset, stack, live, cells, line, info.function, code, end)


# -- building ----------------------------------------------------------------------------------------


def _build(point: _ResumeTarget) -> tuple[CodeType, ResumeInfo]:
    original = point.original
    _refuse_unresumable(original)
    instructions = expand_superinstructions(disassemble(original))
    start = _first_instruction(instructions, point)
    if point.end is not None:
        instructions, start = _comprehension_body(instructions, start, point.end), 0
    line = point.line if point.line is not None else _line(instructions, start, original)
    kept = reachable(instructions, start)
    target = instructions[start].label or Label()
    instructions[start] = replace(instructions[start], label=target)
    body = [each for index in sorted(kept) for each in _explicit_super(instructions, index, point)]
    layout = _layout(point, body)
    protections = [_protection_at(instructions, start, height) for height in range(len(point.stack) + 1)]
    prologue = list(_prologue(point, layout, protections, Position(line, line)))
    if body[0].label is not target:
        prologue.append(Instruction("JUMP_FORWARD", target=target, position=Position(line, line)))
    name = f"{'torch_dynamo_resume' if point.end is None else 'comprehension'}_in_{point.function}_at_{line}"
    code, offsets = assemble_with_offsets(
        [*prologue, *body],
        original,
        co_name=name,
        co_qualname=original.co_qualname.removesuffix(original.co_name) + name,
        co_argcount=len(layout.arguments),
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_varnames=layout.varnames,
        co_cellvars=layout.cellvars,
        co_freevars=tuple(layout.moved.get(name, name) for name in layout.freevars),
        co_firstlineno=line,
        co_flags=original.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS),
    )
    info = ResumeInfo(
        original=weakref.ref(original),
        function=point.function,
        offset=point.offset,
        line=line,
        stack=point.stack,
        arguments=layout.arguments,
        live=point.live,
        cells=tuple(name for name in layout.freevars if name not in original.co_freevars),
        closure=layout.freevars,
        parent=None if point.parent is None else weakref.ref(point.parent),
        original_offsets={
            # The jump at the prologue's end stands for the place that it jumps to: a nested call may break before it.
            **({} if body[0].label is target else {offsets[len(prologue) - 1]: point.offset}),
            **{
                offset: instruction.offset
                for instruction, offset in zip(body, offsets[len(prologue) :], strict=True)
                if instruction.offset >= 0
            },
        },
    )
    return code, info


def _comprehension_body(instructions: Sequence[Instruction], start: int, end: int) -> list[Instruction]:
    """The instructions of an inlined comprehension as a body of their own, which returns what was built."""
    stop = next(number for number, each in enumerate(instructions) if each.offset == end)
    found = comprehension_at(instructions, start)
    assert found is not None and found.end == stop
    position = instructions[stop].position
    return [
        # What protects them puts variables back, which die here with the frame.
        *(replace(each, protection=None) for each in instructions[start:stop]),
        Instruction("SWAP", len(found.saved) + 1, label=instructions[stop].label, position=position),
        *(Instruction("STORE_FAST", argval=name, position=position) for name in reversed(found.saved)),
        Instruction("RETURN_VALUE", position=position),
    ]


def _refuse_unresumable(code: CodeType) -> None:
    suspends = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE
    if code.co_flags & suspends:
        raise CannotResume(f"{code.co_qualname} is a generator or a coroutine: its frame belongs to its own object")
    if not code.co_flags & inspect.CO_OPTIMIZED:
        raise CannotResume(f"{code.co_qualname} is the body of a class or module: its variables are no locals")


def _first_instruction(instructions: Sequence[Instruction], point: _ResumeTarget) -> int:
    index = next((number for number, each in enumerate(instructions) if each.offset == point.offset), None)
    if index is None:
        raise CannotResume(f"no instruction begins at offset {point.offset} of {point.original.co_qualname}")
    began = next(number for number, each in enumerate(instructions) if each.opcode == "RESUME")
    index = max(index, began + 1)  # what stands before RESUME is the original's own prologue
    # KW_NAMES and PRECALL prepare the CALL behind them and leave the stack alone.
    while index and instructions[index].opcode in ("CALL", "PRECALL") and _prepares_call(instructions[index - 1]):
        index -= 1
    depth = stack_depth(list(instructions))[index]
    if depth != len(point.stack) and point.end is None:
        raise CannotResume(f"the stack before {instructions[index]} has depth {depth}, not {len(point.stack)}")
    return index


def _prepares_call(instruction: Instruction) -> bool:
    return instruction.opcode in ("KW_NAMES", "PRECALL")


def _line(instructions: Sequence[Instruction], index: int, code: CodeType) -> int:
    """The line of an instruction; clean-up code has none, and gets that of the next instruction."""
    lines = (each.line for each in instructions[index:] if each.line is not None)
    return next(lines, code.co_firstlineno)


# -- variables ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Layout:
    """The variables of the resume function."""

    operands: tuple[str, ...]
    """The arguments that hold the stack."""
    arguments: tuple[str, ...]
    varnames: tuple[str, ...]
    cellvars: tuple[str, ...]
    """Cells that begin new here."""
    freevars: tuple[str, ...]
    """Variables in the closure, by their names in the original."""
    moved: Mapping[str, str]
    """Cell variables that come in under another name; the prologue moves them to the slot that the body names."""


def _layout(point: _ResumeTarget, body: Sequence[Instruction]) -> _Layout:
    code = point.original
    used = {name for each in body for access, name in variable_accesses(each) if access != "cell"}
    shared = {name for each in body for access, name in variable_accesses(each) if access == "cell"}
    # PEP 709: one slot may hold a cell, then a plain local, then the cell again. As a free variable it could not;
    # and an empty cell raises another error where it is read as a free variable.
    unbound = possibly_unbound(code, disassemble(code)) & set(point.cells)
    # locals() would show the other name, and it shows variables that nothing else names.
    shows_all = bool(INTROSPECTION.intersection(code.co_names))
    apart = used if shows_all else used | unbound
    moved = {name: _moved_name(name, code) for name in code.co_cellvars if name in apart}
    cells = tuple(name for name in point.cells if shows_all or name in shared or name in moved)
    assert not set(cells) & set(point.live), "a variable is passed either as a value or as a cell"
    taken = set(code.co_varnames)
    numbers = (f"___stack{number}" for number in itertools.count())
    free_numbers = (name for name in numbers if name not in taken)
    operands = tuple(next(free_numbers) for slot in point.stack for _ in range(OPERANDS[slot]))
    arguments = operands + tuple(moved.get(name, name) for name in point.live)
    others = (name for name in code.co_varnames if name in used)
    return _Layout(
        operands,
        arguments,
        arguments + tuple(name for name in others if name not in arguments),
        tuple(name for name in code.co_cellvars if name in moved or (name in shared and name not in cells)),
        tuple(sorted(code.co_freevars + cells, key=lambda name: moved.get(name, name))),  # as Python sorts them
        moved,
    )


def _moved_name(name: str, code: CodeType) -> str:
    names = (f"___{'outer_' * number}{name}" for number in itertools.count(1))
    return next(each for each in names if each not in code.co_freevars + code.co_varnames + code.co_cellvars)


def _explicit_super(instructions: Sequence[Instruction], index: int, point: _ResumeTarget) -> Iterator[Instruction]:
    """``super()`` finds its arguments in the calling frame, where the first is no longer ``self``: pass them."""
    instruction, code = instructions[index], point.original
    if (
        instruction.opcode == "LOAD_SUPER_ATTR"
    ):  # its class and self are on the stack; without this bit it asks the frame
        yield replace(instruction, arg=(instruction.arg or 0) | 2)
        return
    is_method = "__class__" in code.co_freevars and code.co_argcount > 0
    if not is_method or not _calls_bare_super(instructions, index):
        yield instruction
        return
    if instructions[index - 1].opcode == "LOAD_GLOBAL":  # not 3.11's CALL behind PRECALL
        first = code.co_varnames[0]
        if first not in point.live and first not in point.cells:
            raise CannotResume(f"super() in {code.co_qualname} needs {first!r}, which is not passed on")
        opcode = "LOAD_DEREF" if first in code.co_cellvars else "LOAD_FAST"
        yield replace(instruction, opcode="LOAD_DEREF", arg=None, argval="__class__")
        yield replace(instruction, opcode=opcode, arg=None, argval=first, label=None, offset=-1)
        instruction = replace(instruction, label=None, offset=-1)
    yield replace(instruction, arg=2, argval=2)


def _calls_bare_super(instructions: Sequence[Instruction], index: int) -> bool:
    instruction = instructions[index]
    if instruction.opcode not in ("PRECALL", "CALL") or instruction.arg != 0:
        return False
    callee = instructions[index - 2 if instructions[index - 1].opcode == "PRECALL" else index - 1]
    return callee.opcode == "LOAD_GLOBAL" and callee.argval == "super"


# -- the prologue -------------------------------------------------------------------------------------


def _prologue(
    point: _ResumeTarget, layout: _Layout, protections: Sequence[Protection | None], position: Position
) -> Iterator[Instruction]:
    if layout.freevars:
        yield Instruction("COPY_FREE_VARS", len(layout.freevars))
    for name in layout.cellvars:
        yield Instruction("MAKE_CELL", argval=name)
    yield Instruction("RESUME", 0, 0, position=position)
    for name, moved in layout.moved.items():
        if name in layout.freevars:
            yield Instruction("LOAD_CLOSURE", argval=moved, position=position)
            yield Instruction("STORE_FAST", argval=name, position=position)
        elif moved in layout.arguments:
            yield Instruction("LOAD_FAST", argval=moved, position=position)
            yield Instruction("STORE_FAST", argval=name, position=position)
            yield Instruction("DELETE_FAST", argval=moved, position=position)
    operands = iter(layout.operands)
    for slot, (outside, inside) in zip(point.stack, itertools.pairwise(protections), strict=True):
        names = [next(operands) for _ in range(OPERANDS[slot])]
        before = [Instruction("LOAD_FAST", argval=name) for name in names]
        if slot is Slot.CALL:
            before.insert(0 if HERE.null_below_callable else 1, Instruction("PUSH_NULL"))
        before += [Instruction("DELETE_FAST", argval=name) for name in names]
        for instruction in before:
            yield replace(instruction, position=position)
        for number, instruction in enumerate(_AFTER_LOAD[slot]):
            # What follows BEFORE_WITH stands in the block: a later break knows the block's handler by that.
            in_block = number > 0 and slot is Slot.EXIT
            yield replace(instruction, position=position, protection=inside if in_block else outside)


_AFTER_LOAD: dict[Slot, tuple[Instruction, ...]] = {
    Slot.VALUE: (),
    Slot.NULL: (Instruction("PUSH_NULL"),),
    Slot.EXIT: (Instruction("BEFORE_WITH"), Instruction("POP_TOP")),
    Slot.HANDLED: (Instruction("PUSH_EXC_INFO"), Instruction("POP_TOP")),
    Slot.LASTI: (Instruction("LOAD_CONST", argval=0),),
    Slot.CALL: (Instruction("CALL_FUNCTION_EX", 0),),
}
"""Instructions that complete a slot after its argument, if any, is on the stack."""


def _protection_at(instructions: list[Instruction], index: int, height: int) -> Protection | None:
    """The protected range around an instruction at which the stack is only ``height`` deep.

    Ranges nest: an exception that escapes a handler goes to the range around
    that handler. So a context manager that fails to be entered again raises
    where it would have in the original.
    """
    return outer_protection(instructions, label_indices(instructions), instructions[index].protection, height)


# -- remembering ---------------------------------------------------------------------------------------


class _ByIdentity:
    """A dict with weak keys compared by identity: equal code objects of two files are distinct."""

    def __init__(self) -> None:
        self._entries: dict[int, tuple[weakref.ReferenceType[CodeType], ResumeInfo]] = {}

    def get(self, code: CodeType) -> ResumeInfo | None:
        entry = self._entries.get(id(code))
        return entry[1] if entry is not None and entry[0]() is code else None

    def __getitem__(self, code: CodeType) -> ResumeInfo:
        info = self.get(code)
        assert info is not None
        return info

    def __setitem__(self, code: CodeType, info: ResumeInfo) -> None:
        key = id(code)

        def forget(reference: weakref.ReferenceType[CodeType]) -> None:
            entry = self._entries.get(key)
            if entry is not None and entry[0] is reference:
                del self._entries[key]

        self._entries[key] = (weakref.ref(code, forget), info)


_LOCK = threading.Lock()
_CODES: weakref.WeakValueDictionary[tuple[object, ...], CodeType] = STATE.add(
    "rewriting.resume._CODES", weakref.WeakValueDictionary(), Lifetime.OWNER
)
_INFOS = STATE.add("rewriting.resume._INFOS", _ByIdentity(), Lifetime.OWNER)
