"""The parser of PTX text."""

from __future__ import annotations

import pytest

from nbcompile.gpu.ptx import UnsupportedInstruction, lines, parse, register_names

TEXT = """
.global .align 4 .b32 table[2] = {1, -1};
.extern .shared .align 16 .b8 global_smem[];
.visible .entry add(
	.param .u64 .ptr .global .align 1 add_param_0,
	.param .u32 add_param_1
)
.reqntid 64
{
	.reg .pred 	%p<2>;
	.reg .b32 	%r<4>;
	.loc	1 3 5
	ld.param.u32 	%r1, [add_param_1];
$L__again:
	@!%p1 add.s32 	%r2, %r1, 1;  // a comment
	.loc	1 9 1, function_name $name, inlined_at 1 4 7
	st.global.v2.b32 	[%r2], {%r1, %r3};
	bra 	$L__again;
	// -- End function
}
"""


def test_a_kernel_is_read():
    """The parser finds name, parameters, threads, registers, labels, constants, and the line of each instruction."""
    found = parse(TEXT)
    assert (found.name, found.parameters, found.threads) == ("add", ("add_param_0", "add_param_1"), 64)
    assert found.registers == {"%p": 1, "%r": 32} and found.labels == {"$L__again": 1}
    assert found.constants == {"table": b"\1\0\0\0\xff\xff\xff\xff"} and found.shared == {"global_smem": 0}
    assert [(row.name, row.line) for row in found.instructions] == [
        ("ld.param.u32", 3), ("add.s32", 3), ("st.global.v2.b32", 4), ("bra", 4)
    ]  # fmt: skip


def test_operands_and_predicates_are_distinguished():
    """A predicate is read, the result of an addition is written; a store reads all of its operands."""
    _, add, store, _ = parse(TEXT).instructions
    assert (add.predicate, add.negated, add.reads) == ("%p1", True, {"%r1", "1", "%p1"})
    assert store.operands == ("[%r2]", "{%r1, %r3}") and {"%r1", "%r2", "%r3"} <= store.reads
    assert register_names("{%r1, %r3}") == ["%r1", "%r3"]


def test_each_line_of_the_text_has_its_line_of_the_module():
    """Lines before the first directive have no line of the module."""
    found = dict(zip(TEXT.split("\n"), lines(TEXT), strict=True))
    assert found["\tbra \t$L__again;"] == 4 and found[".reqntid 64"] == 0


def test_what_cannot_be_read_is_rejected():
    """An unknown instruction is rejected, because skipping it would give a wrong result."""
    with pytest.raises(UnsupportedInstruction, match="cannot be read"):
        parse(TEXT.replace("bra \t$L__again;", "?;"))
