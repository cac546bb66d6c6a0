"""Copies of tiles by tensor maps: single instructions, and mistakes in their use."""

from __future__ import annotations

import pytest
import torch

from nbcompile.gpu import ptx
from nbcompile.gpu.memory import Fault
from tests.gpu.copied_boxes import INIT, LOAD, MAP, START, WAIT, program, run


@pytest.mark.parametrize(("row", "column"), [(0, 0), (2, 8), (5, 20), (-3, -4), (100, 0)])
def test_a_box_is_loaded_and_what_is_beyond_the_tensor_is_zero(row, column):
    """A box may begin at any corner, before the first element, too: elements outside of the tensor are zero."""
    given, out = run(program(row=row, column=column))
    wide = torch.nn.functional.pad(given, (10, 200, 10, 200))
    expected = wide[row + 10 : row + 18, column + 10 : column + 42]
    assert torch.equal(out, expected)


def test_swizzled_rows_have_their_chunks_permuted():
    """With a swizzle, chunk c of row r is at c ^ r in rows of 128 bytes."""
    given, out = run(program(swizzle=3))
    chunks = given[:8, :32].reshape(8, 8, 4)
    expected = torch.stack([chunks[row][[chunk ^ row for chunk in range(8)]] for row in range(8)])
    assert torch.equal(out, expected.reshape(8, 32))


def test_a_tile_is_stored_as_far_as_the_tensor_goes():
    """Elements outside of the tensor are not stored; the group is waited for before its memory is reused."""
    body = (
        MAP.format(swizzle=0, kind=7)
        + START.format(row=6, column=16)
        + """
    shl.b32 %r8, %r1, 2;
    st.shared.b32 [%r8], %r1;
    bar.sync 0;
    @%p3 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd3, {%r6, %r7}], [%r5];
    @%p3 cp.async.bulk.commit_group;
    """
    )
    wait = "@%p3 cp.async.bulk.wait_group.read 0; bar.sync 0;"
    again = "st.shared.b32 [%r8], %r2;"
    given, _ = run(body + wait + again)
    stored = given[6:, 16:].clone().view(torch.int32)
    assert torch.equal(stored, torch.arange(256, dtype=torch.int32).reshape(8, 32)[:4, :24])
    with pytest.raises(Fault, match=r"no cp\.async\.bulk\.wait_group between"):
        run(body + "bar.sync 0;" + again)


@pytest.mark.parametrize(("body", "message"), [
    (program().replace("[%r2], 0, 160;", "[%r2], 0, 152;"), "no multiples of 16"),
    (program().replace("mov.b32 %r5, 0;", "mov.b32 %r5, 16;"), "misaligned"),
    (program() + "st.shared.b32 [%r9], %r1;" + LOAD.format(bytes=1024) + WAIT.format(parity=1, number=1),
     "in a race"),
], ids=["a stride", "a misaligned tile", "written before"])  # fmt: skip
def test_a_mistake_is_found(body, message):
    """A copy that the engine rejects, and a tile that is overwritten too early, are faults."""
    with pytest.raises(Fault, match=message):
        run(body)


@pytest.mark.parametrize("instruction", [
    "cp.async.bulk.tensor.2d.im2col.shared::cta.global.mbarrier::complete_tx::bytes [%r5], [%rd3, {%r6, %r7}], [%r4];",
    "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r5], [%rd3], 16, [%r4];",
    "mbarrier.arrive.noComplete.shared::cta.b64 %rd4, [%r4], 1;",
])  # fmt: skip
def test_other_forms_are_named_as_lacking(instruction):
    """Window copies, plain bulk copies, and arrivals without completion are rejected with their names."""
    with pytest.raises(
        ptx.UnsupportedInstruction, match=instruction.split()[0].split(".shared")[0].replace(".", r"\.")
    ):
        run(INIT + START.format(row=0, column=0) + instruction)
