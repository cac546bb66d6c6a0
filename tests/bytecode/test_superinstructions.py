"""Tests for nbcompile.bytecode.superinstructions: the same opcodes for three versions."""

from __future__ import annotations

import types

from nbcompile.bytecode.assemble import assemble
from nbcompile.bytecode.dialects import SUPERINSTRUCTIONS
from nbcompile.bytecode.disassemble import disassemble
from nbcompile.bytecode.flow import stack_depth
from nbcompile.bytecode.superinstructions import expand_superinstructions


def example(items: list[int], a: int, b: int) -> object:
    first = items[a:b]
    items[:a] = first
    c, d = a, b
    if c > d:
        return None
    return first, items, c * d


def test_nothing_folded_is_left() -> None:
    """No superinstruction of any version is in the result, so handlers only need the parts."""
    assert not {each.opcode for each in expand_superinstructions(disassemble(example.__code__))} & set(
        SUPERINSTRUCTIONS
    )


def test_it_means_the_same() -> None:
    """The parts, assembled again, are the same function, with the same stack depths."""
    read = disassemble(example.__code__)
    unfolded = expand_superinstructions(read)
    function = types.FunctionType(assemble(unfolded, example.__code__), {})
    for arguments in ((1, 2), (2, 1)):
        assert function([1, 2, 3], *arguments) == example([1, 2, 3], *arguments)
    depths = dict(zip([each.offset for each in unfolded], stack_depth(unfolded), strict=True))
    assert all(depths[each.offset] == depth for each, depth in zip(read, stack_depth(read), strict=True))


def test_an_offset_names_one_place() -> None:
    """The second part has an odd offset, which no instruction of the code object has."""
    read = disassemble(example.__code__)
    offsets = [each.offset for each in expand_superinstructions(read)]
    assert len(offsets) == len(set(offsets))
    assert [offset for offset in offsets if offset % 2 == 0] == [each.offset for each in read]
