"""Bytecode of the function, and of the residual program that replaces it.

    2   30 CALL         1          n1        0 RESUME     0
    2   42 BINARY_OP    *          n2        2 LOAD_CONST __compiled_fn_1
    ...                                      ...

An instruction of the function is linked to the operators that it added to the graph.

In torch: TORCH_LOGS=bytecode prints both. Read next: nbcompile/bytecode/disassemble.py
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from markupsafe import Markup

from nbcompile.record import links
from nbcompile.record.model import CompiledFrame, Instruction
from nbcompile.views import facts
from nbcompile.views.graph import words
from nbcompile.views.lines import one_line
from nbcompile.views.markup import Limits, listing, section, tag


def render(frame: CompiledFrame, found: links.FrameLinks, limits: Limits) -> Markup | None:
    """Render the original and the residual bytecode, side by side on a wide page; None if neither is known."""
    if not frame.instructions:
        return None
    before = _pane("before", frame.instructions, limits, found.by_instruction)
    after = _pane("after", frame.residual_instructions, limits, {})
    about = facts.bytecode_counts(frame)
    counted = "instructions residual_instructions" if frame.residual_instructions else "instructions"
    return section("bytecode", "Bytecode", tag("div", before, after, class_="n-pair"), about=about, figures=counted)


def _pane(
    title: str, instructions: Sequence[Instruction], limits: Limits, nodes: Mapping[int, tuple[str, ...]]
) -> Markup | None:
    if not instructions:
        return None
    # Hovering over an instruction highlights its nodes, and the reverse.
    linked = [words(nodes.get(each.offset, ())) for each in instructions]
    return tag("div", tag("small", title), listing("\n".join(_lines(instructions)), "", limits, linked.__getitem__))


def _lines(instructions: Sequence[Instruction]) -> Iterator[str]:
    """``line offset opcode argument``; the line number at its first instruction, as in ``dis``."""
    # Opcodes are padded to the longest one here, so that arguments begin in one column.
    width = max(len(each.opcode) for each in instructions)
    previous_line = 0
    for instruction in instructions:
        line = str(instruction.line) if instruction.line not in (0, previous_line) else ""
        previous_line = instruction.line
        yield one_line(
            f"{line:>3} {instruction.offset:>4} {instruction.opcode:<{width}} {instruction.argument}".rstrip()
        )


def as_text(frame: CompiledFrame) -> Iterator[str]:
    """Both listings as text."""
    for title, instructions in (("before", frame.instructions), ("after", frame.residual_instructions)):
        if instructions:
            yield f"{title}: {facts.count(len(instructions), 'instruction')}"
            yield from _lines(instructions)
