"""Resume functions: the rest of a function, as a function of its live values.

After a graph break the frame continues in a resume function. Its prologue takes
the operand stack and the live locals as arguments and restores them; then the
original bytecode follows.

    def f(x, path):                      torch_dynamo_resume_in_f_at_3(___stack0, y)
        y = x * 2                            LOAD_FAST ___stack0     what save() returned
        torch.save(y, path)    ------->      JUMP_FORWARD            (only if loops keep earlier code alive)
        return y + 1                         POP_TOP                 the original from here on
                                             LOAD_FAST y ...

A position has one resume function, since compiled code is attached to code
objects. A resume function of a resume function is created from the original
code, so that names and lines stay correct.

In torch: torch/_dynamo/resume_execution.py. Read next:
nbcompile/rewriting/residual.py, which calls what is created here
"""

from __future__ import annotations

import dis
import inspect
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import CodeType

from nbcompile.bytecode.assemble import assemble_with_offsets
from nbcompile.bytecode.comprehensions import comprehension_at
from nbcompile.bytecode.disassemble import disassemble
from nbcompile.bytecode.flow import (
    reachable,
    stack_depth,
)
from nbcompile.bytecode.instruction import Instruction, Label, Position
from nbcompile.bytecode.superinstructions import expand_superinstructions
from nbcompile.rewriting.resume_layout import CannotResume, ResumeTarget, Slot, layout_of
from nbcompile.rewriting.resume_prologue import prologue_of, protection_at
from nbcompile.support.process_state import STATE, Lifetime


@dataclass(frozen=True, slots=True)
class ResumeInfo:
    """Origin of a resume function. References are weak, so that a redefined function can be freed."""

    original: weakref.ReferenceType[CodeType]
    """The user's code object (for a break inside of a prologue: the resume function of that prologue)."""
    function: str
    """The name of the user's function."""
    offset: int
    """The offset in the original at which it resumes."""
    line: int
    """The line in the user's file, which is part of the name of the resume function."""
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
    """Map from an offset in the resume function to the offset of the same instruction in the original."""


def resume_function_code(target: ResumeTarget) -> CodeType:
    """The code of a function that resumes at a point of the code that was traced.

    It is called with the positional arguments of each slot (OPERANDS) of the
    stack, bottom first, then one for each of ``live``. Its closure holds a
    cell for each of its ``co_freevars``: the frame's own free variables and
    ``cells``, sorted as CPython's compiler sorts them. For a generator, which
    resumes at a YIELD_VALUE, a call returns a generator that first yields the
    last operand and then continues as the original.

    Raises:
        CannotResume: the code is a coroutine, a class body, or a generator that is not at a yield, or the
        stack has another depth.
    """
    point = _in_original(replace(target, function=target.function or target.original.co_name))
    with _LOCK:
        # One code object per point, since cache entries are attached to code objects.
        known = _CODES.get(point.key())
        # A new code object may have the id of a freed one.
        if known is not None and _INFOS[known].original() is point.original:
            return known
        code_object, info = _build(point)
        _CODES[point.key()] = code_object
        _INFOS[code_object] = info
        return code_object


def resume_info(code: CodeType) -> ResumeInfo | None:
    """Origin of a resume function; None for any other code."""
    return _INFOS.get(code)


# -- the target instruction --------------------------------------------------------------------------------


def _in_original(point: ResumeTarget) -> ResumeTarget:
    """Map a point of a resume function to the same point in the user's code."""
    # A break in a resume function resumes the user's function at a later point. A resume function of a resume function
    # would contain the prologues of all before it, and the chain would grow with the number of breaks.
    #     f  --break-->  resume_in_f_at_3  --break-->  resume_in_f_at_5, built from f
    code = point.original
    info = resume_info(code)
    if info is None:
        return point
    original = info.original()
    if original is None or point.offset not in info.original_offsets:
        # The point is inside of the prologue, or the user's code was freed: resume the resume function itself.
        return replace(point, line=point.line or info.line, function=info.function, parent=code)
    # A free variable that is a cell of the original is a free variable of the next resume function, too.
    cells = (*point.cells, *(name for name in info.cells if name not in point.cells and name not in point.live))
    offset = info.original_offsets[point.offset]
    end = None if point.end is None else info.original_offsets[point.end]
    return replace(point, original=original, offset=offset, cells=cells, function=info.function, parent=code, end=end)


# -- building ----------------------------------------------------------------------------------------


def _build(point: ResumeTarget) -> tuple[CodeType, ResumeInfo]:
    original = point.original
    _check_resumable(original, point.offset)
    # The tracer expands superinstructions: the offset may be that of a second half.
    instructions = expand_superinstructions(disassemble(original))
    start = _first_instruction(instructions, point)
    if point.end is not None:
        instructions, start = _comprehension_body(instructions, start, point.end), 0
    line = point.line if point.line is not None else _line(instructions, start, original)
    # Unreachable instructions are omitted, and their variables need not be passed.
    kept = reachable(instructions, start)
    target = instructions[start].label or Label()
    instructions[start] = replace(instructions[start], label=target)
    body = [each for index in sorted(kept) for each in _explicit_super(instructions, index, point)]
    layout = layout_of(point, body)
    # The handler of each ``with`` that is entered again is in the body. It protects the prologue's instructions as it
    # protected the original's at the same depth of the stack.
    protections = [protection_at(instructions, start, height) for height in range(len(point.stack) + 1)]
    prologue = list(prologue_of(point, layout, protections, Position(line, line)))
    # The reachable code may begin before the target, for example in a loop.
    if body[0].label is not target:
        prologue.append(Instruction("JUMP_FORWARD", target=target, position=Position(line, line)))
    name = f"{'torch_dynamo_resume' if point.end is None else 'comprehension'}_in_{point.function}_at_{line}"
    #     prologue        restores cells, moved variables and the operand stack; enters ``with`` blocks
    #     JUMP_FORWARD    only if reachable instructions come before the target
    #     body            the reachable instructions of the original, in their order
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
        # All arguments are positional: ``*args`` is an ordinary local whose value is a tuple.
        co_flags=original.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS),
    )
    # The jump at the prologue's end gets the offset of its target, since a nested call before it may break.
    of_jump = {} if body[0].label is target else {offsets[len(prologue) - 1]: point.offset}
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
        original_offsets=of_jump | _original_offsets(body, offsets[len(prologue) :]),
    )
    return code, info


def _original_offsets(body: Sequence[Instruction], offsets: Sequence[int]) -> dict[int, int]:
    """Map from offsets in the resume function to offsets in the user's code, for instructions that it contains."""
    pairs = zip(body, offsets, strict=True)
    return {offset: instruction.offset for instruction, offset in pairs if instruction.offset >= 0}


def _comprehension_body(instructions: Sequence[Instruction], start: int, end: int) -> list[Instruction]:
    """The instructions of an inlined comprehension as a function body, which returns the result."""
    stop = next(number for number, each in enumerate(instructions) if each.offset == end)
    found = comprehension_at(instructions, start)
    assert found is not None and found.end == stop
    position = instructions[stop].position
    return [
        # Their exception handler restores variables, which here are freed with the frame.
        *(replace(each, protection=None) for each in instructions[start:stop]),
        Instruction("SWAP", len(found.saved) + 1, label=instructions[stop].label, position=position),
        *(Instruction("STORE_FAST", argval=name, position=position) for name in reversed(found.saved)),
        Instruction("RETURN_VALUE", position=position),
    ]


def _check_resumable(code: CodeType, offset: int) -> None:
    coroutine = inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE
    waits = code.co_flags & inspect.CO_GENERATOR and _opcode_at(code, offset) != "YIELD_VALUE"
    if code.co_flags & coroutine or waits:
        raise CannotResume(f"{code.co_qualname} is a generator or a coroutine: its frame belongs to its own object")
    if not code.co_flags & inspect.CO_OPTIMIZED:
        raise CannotResume(f"{code.co_qualname} is the body of a class or module: its variables are no locals")


def _opcode_at(code: CodeType, offset: int) -> str:
    return dis.opname[code.co_code[offset]]


def _first_instruction(instructions: Sequence[Instruction], point: ResumeTarget) -> int:
    index = next((number for number, each in enumerate(instructions) if each.offset == point.offset), None)
    if index is None:
        raise CannotResume(f"no instruction begins at offset {point.offset} of {point.original.co_qualname}")
    began = next(number for number, each in enumerate(instructions) if each.opcode == "RESUME")
    # To resume before the code's own prologue would create its cells twice.
    index = max(index, began + 1)  # the instructions before RESUME are the original's prologue
    # KW_NAMES and PRECALL prepare the CALL after them and do not change the stack.
    while index and instructions[index].opcode in ("CALL", "PRECALL") and _prepares_call(instructions[index - 1]):
        index -= 1
    # Check the layout of the stack against the code, since a wrong depth would crash CPython.
    depth = stack_depth(list(instructions))[index]
    if depth != len(point.stack) and point.end is None:
        raise CannotResume(f"the stack before {instructions[index]} has depth {depth}, not {len(point.stack)}")
    return index


def _prepares_call(instruction: Instruction) -> bool:
    return instruction.opcode in ("KW_NAMES", "PRECALL")


def _line(instructions: Sequence[Instruction], index: int, code: CodeType) -> int:
    """The line of an instruction; for clean-up code, which has no line, that of the next instruction."""
    lines = (each.line for each in instructions[index:] if each.line is not None)
    return next(lines, code.co_firstlineno)


def _explicit_super(instructions: Sequence[Instruction], index: int, point: ResumeTarget) -> Iterator[Instruction]:
    """Pass ``super()`` its arguments: it would read them from the frame, whose first argument is no longer ``self``."""
    instruction, code = instructions[index], point.original
    if instruction.opcode == "LOAD_SUPER_ATTR":
        # Class and self are on the stack; without this bit the instruction reads them from the frame.
        yield replace(instruction, arg=(instruction.arg or 0) | 2)
        return
    is_method = "__class__" in code.co_freevars and code.co_argcount > 0
    if not is_method or not _calls_bare_super(instructions, index):
        yield instruction
        return
    # The instruction before is the load of ``super``: the two arguments are pushed after it.
    #     LOAD_GLOBAL super; CALL 0     ->     LOAD_GLOBAL super; LOAD_DEREF __class__; LOAD_FAST self; CALL 2
    if instructions[index - 1].opcode == "LOAD_GLOBAL":  # not the CALL after a PRECALL (3.11)
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


# -- cache ---------------------------------------------------------------------------------------------


class _ByIdentity:
    """A dict with weak keys that are compared by identity: equal code objects of two files are distinct."""

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
            # A newer code object may have the id by now.
            if entry is not None and entry[0] is reference:
                del self._entries[key]

        self._entries[key] = (weakref.ref(code, forget), info)


_LOCK = threading.Lock()
_CODES: weakref.WeakValueDictionary[tuple[object, ...], CodeType] = STATE.add(
    "rewriting.resume._CODES", weakref.WeakValueDictionary(), Lifetime.OWNER
)
_INFOS = STATE.add("rewriting.resume._INFOS", _ByIdentity(), Lifetime.OWNER)
