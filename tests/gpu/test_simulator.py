"""The simulator of GPU code finds what a GPU would stop for, and counts what it would move."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")

from nbcompile.codegen import triton as generator
from nbcompile.gpu import costs, ptx, simulator
from nbcompile.gpu.build import build
from nbcompile.gpu.chip import CHIPS
from nbcompile.gpu.machine_code import MachineCode
from nbcompile.gpu.memory import Fault, GlobalMemory
from nbcompile.runtime import triton as runtime
from tests.lowering.programs import programs

ROWS, COLUMNS = 6, 1000


def built(function, *inputs) -> MachineCode:
    """The one kernel of a function."""
    _, planned = programs(function, *inputs)
    emitted = generator.emit(planned)
    (kernel,) = emitted.kernels
    module = runtime.load_source(emitted.source)
    return build(getattr(module, kernel.name), generator.signature(kernel), CHIPS["sm_90"], kernel.warps)


@pytest.fixture(scope="module")
def softmax() -> MachineCode:
    return built(lambda x: x.softmax(-1), torch.randn(ROWS, COLUMNS))


def run(
    kernel: MachineCode, text: str | None = None, grid: int = ROWS, shift: int = 0, shared_bytes: int | None = None
):
    """Simulate a kernel over rows, and compare with eager mode."""
    torch.manual_seed(0)
    x, y = torch.randn(ROWS, COLUMNS), torch.empty(ROWS, COLUMNS)
    memory = GlobalMemory()
    arguments = [memory.copy_in(x, "x") + shift, memory.copy_in(y, "y")]
    shared = kernel.shared_bytes if shared_bytes is None else shared_bytes
    found = simulator.run(ptx.parse(text or kernel.ptx), grid, arguments, memory, shared)
    torch.testing.assert_close(y, x.softmax(-1))
    return costs.total(found.lines.values())


def test_rows_are_read_and_written_once(softmax):
    """The compiled softmax gives eager's numbers; what it moves is what its tensors hold."""
    found = run(softmax)
    assert found.least_sectors == 2 * ROWS * COLUMNS * 4 // costs.SECTOR
    assert found.coalescing > 0.95
    assert found.passes == found.least_passes > 0


def test_a_block_too_many(softmax):
    """It reads the row behind the last one."""
    with pytest.raises(Fault, match=r"outside of every tensor; the first \d+ bytes past the end of x"):
        run(softmax, grid=ROWS + 1)


def test_a_pointer_that_is_shifted(softmax):
    """By less than a number it is misaligned; by a number the last access leaves the tensor."""
    with pytest.raises(Fault, match="no multiple of"):
        run(softmax, shift=2)
    with pytest.raises(Fault, match="no multiple of|past the end"):
        run(softmax, shift=4 * COLUMNS)


def test_every_barrier_is_needed(softmax):
    """Without any one of them a warp reads or overwrites what another one has, and the simulator names the line."""
    count = len(re.findall(r"bar\.sync", softmax.ptx))
    assert count > 2
    for at in range(count):
        parts = re.split(r"bar\.sync\s+0;", softmax.ptx)
        text = "bar.sync 0;".join(parts[: at + 1]) + "bar.sync 0;".join(parts[at + 1 :])
        with pytest.raises(Fault, match="no barrier between"):
            run(softmax, text)


def test_shared_memory_has_an_end(softmax):
    """An access past the bytes of the launch is a fault."""
    with pytest.raises(Fault, match="past the end of the 16 bytes of shared memory"):
        run(built_wide(), shared_bytes=0)


def built_wide() -> MachineCode:
    """A kernel whose warps exchange more than 16 bytes."""
    return built(lambda x: x.cumsum(-1), torch.randn(ROWS, COLUMNS))


def test_threads_that_store_to_one_address(softmax):
    """All of them store to the first element: other numbers, and no order between them."""
    address = re.findall(r"st\.global\S* \[ (%rd\d+)", softmax.ptx)
    text = re.sub(rf"add\.s64 \t({'|'.join(address)}), (%rd\d+), %rd\d+;", r"mov.b64 \1, \2;", softmax.ptx)
    assert text != softmax.ptx
    with pytest.raises(Fault, match="race"):
        run(softmax, text)


def test_a_load_without_its_mask():
    """What a block has too much of is outside of the tensor."""
    kernel = built(lambda x: x + 1, torch.randn(100))
    x, y = torch.randn(100), torch.empty(100)
    unmasked = re.sub(r"@%p\d+ (ld\.global)", r"\1", kernel.ptx)
    for text, fault in ((kernel.ptx, False), (unmasked, True)):
        memory = GlobalMemory()
        arguments = [memory.copy_in(x, "x"), memory.copy_in(y, "y")]
        if not fault:
            simulator.run(ptx.parse(text), 1, arguments, memory)
            assert torch.equal(x + 1, y)
            continue
        with pytest.raises(Fault, match="outside of every tensor"):
            simulator.run(ptx.parse(text), 1, arguments, memory)


def test_an_index_out_of_bounds():
    """The check of an index is in the compiled code: its text and its line are in the fault."""
    table, wrong = torch.randn(10, 8), torch.tensor([3, 10])
    kernel = built(lambda t, i: t[i], table, torch.tensor([3, 9]))
    memory = GlobalMemory()
    arguments = [memory.copy_in(t, n) for t, n in ((table, "table"), (wrong, "index"), (torch.empty(2, 8), "out"))]
    with pytest.raises(Fault, match=r"line \d+: index out of bounds, in \d+ threads"):
        simulator.run(ptx.parse(kernel.ptx), 1, arguments, memory)


def test_the_second_operand_of_cat_is_loaded_where_it_is_used():
    """Each operand's addresses lie outside of it at the other's positions: both loads have a mask."""
    kernel = built(lambda a, b: torch.cat([a, b, a]), torch.randn(8), torch.randn(8))
    a, b, out = torch.randn(8), torch.randn(8), torch.empty(24)
    memory = GlobalMemory()
    simulator.run(
        ptx.parse(kernel.ptx), 1, [memory.copy_in(t, n) for t, n in ((a, "a"), (b, "b"), (out, "out"))], memory
    )
    assert torch.equal(out, torch.cat([a, b, a]))


# --- single instructions ---------------------------------------------------------------------------------------------

HEAD = """
.visible .entry kernel(.param .u64 kernel_param_0, .param .u64 kernel_param_1)
.reqntid {threads}
{{
.reg .pred %p<9>;
.reg .b16 %rs<9>;
.reg .b32 %r<9>;
.reg .b64 %rd<9>;
ld.param.b64 %rd1, [kernel_param_0];
ld.param.b64 %rd2, [kernel_param_1];
mov.u32 %r1, %tid.x;
mad.wide.u32 %rd3, %r1, 8, %rd1;
mad.wide.u32 %rd4, %r1, 8, %rd2;
ld.global.b64 %rd5, [%rd3];
mov.b64 {{%r2, %r3}}, %rd5;
cvt.u16.u32 %rs1, %r2;
cvt.u16.u32 %rs2, %r3;
{body}
st.global.b64 [%rd4], %rd6;
ret;
}}
"""


def execute(body: str, words: list[int], threads: int = 32) -> list[int]:
    """Each thread has a word of 64 bits in %rd5 (its halves in %r2 and %r3) and leaves one in %rd6."""
    given = torch.tensor([w - 2**64 if w >= 2**63 else w for w in words + [0] * (threads - len(words))])
    out = torch.zeros(threads, dtype=torch.int64)
    memory = GlobalMemory()
    arguments = [memory.copy_in(given, "in"), memory.copy_in(out, "out")]
    simulator.run(ptx.parse(HEAD.format(body=body, threads=threads)), 1, arguments, memory, 256)
    return [value % 2**64 for value in out[: len(words)].tolist()]


def halves(low: int, high: int) -> int:
    return (high << 32) | (low & 0xFFFFFFFF)


def bits(value: float) -> int:
    return int(np.float32(value).view(np.uint32))


TINY = float(np.float32(1e-42))
INSTRUCTIONS = [
    ("mul.hi.u64 %rd6, %rd5, %rd5;", 2**63 + 12345, (2**63 + 12345) ** 2 >> 64),
    ("mul.hi.s64 %rd6, %rd5, %rd5;", 2**64 - 7, 0),
    ("mul.wide.s32 %rd6, %r2, %r3;", halves(-3, 5), 2**64 - 15),
    ("mad.wide.u32 %rd6, %r2, %r3, %rd5;", halves(3, 5), (15 + halves(3, 5)) % 2**64),
    ("div.s64 %rd6, %rd5, 4;", 2**64 - 7, 2**64 - 1),
    ("rem.s64 %rd6, %rd5, 4;", 2**64 - 7, 2**64 - 3),
    ("shr.s64 %rd6, %rd5, 70;", 2**63, 2**64 - 1),
    ("shr.u64 %rd6, %rd5, 64;", 2**63, 0),
    ("shl.b64 %rd6, %rd5, 3;", 2**62 + 1, 8),
    ("prmt.b32 %r4, %r2, %r3, 0x5410; cvt.u64.u32 %rd6, %r4;", halves(0x44332211, 0x88776655), 0x66552211),
    ("prmt.b32 %r4, %r2, 0, 0x8888; cvt.u64.u32 %rd6, %r4;", halves(0x80, 0), 0xFFFFFFFF),
    ("shf.l.wrap.b32 %r4, %r2, %r3, 8; cvt.u64.u32 %rd6, %r4;", halves(0xAABBCCDD, 0x11223344), 0x223344AA),
    ("shf.r.wrap.b32 %r4, %r2, %r3, 8; cvt.u64.u32 %rd6, %r4;", halves(0xAABBCCDD, 0x11223344), 0x44AABBCC),
    ("bfe.s32 %r4, %r2, 4, 4; cvt.u64.u32 %rd6, %r4;", halves(0xF0, 0), 0xFFFFFFFF),
    ("bfi.b64 %rd6, %rd5, 0, 8, 4;", 0xF, 0xF00),
    ("lop3.b32 %r4, %r2, %r3, 0, 0x3C; cvt.u64.u32 %rd6, %r4;", halves(0b1100, 0b1010), 0b0110),
    ("popc.b64 %r4, %rd5; cvt.u64.u32 %rd6, %r4;", 2**63 + 5, 3),
    ("clz.b64 %r4, %rd5; cvt.u64.u32 %rd6, %r4;", 2**40, 23),
    ("max.f32 %r4, %r2, %r3; cvt.u64.u32 %rd6, %r4;", halves(bits(float("nan")), bits(2.0)), bits(2.0)),
    ("max.NaN.f32 %r4, %r2, %r3; cvt.u64.u32 %rd6, %r4;", halves(bits(1.0), bits(float("inf"))), bits(float("inf"))),
    ("max.f32 %r4, %r2, %r3; cvt.u64.u32 %rd6, %r4;", halves(bits(-0.0), bits(0.0)), bits(0.0)),
    ("min.f32 %r4, %r2, %r3; cvt.u64.u32 %rd6, %r4;", halves(bits(0.0), bits(-0.0)), bits(-0.0)),
    ("add.ftz.f32 %r4, %r2, %r3; cvt.u64.u32 %rd6, %r4;", halves(bits(-TINY), bits(-TINY)), bits(-0.0)),
    ("add.f32 %r4, %r2, %r3; cvt.u64.u32 %rd6, %r4;", halves(bits(TINY), bits(0.0)), bits(TINY)),
    (
        "fma.rn.f32 %r4, %r2, %r2, %r3; cvt.u64.u32 %rd6, %r4;",
        halves(bits(1 + 2**-12), bits(-1.0)),
        bits(2**-11 + 2**-24),
    ),
    ("add.sat.f32 %r4, %r2, %r3; cvt.u64.u32 %rd6, %r4;", halves(bits(0.7), bits(0.7)), bits(1.0)),
    ("cvt.rni.s32.f32 %r4, %r2; cvt.u64.u32 %rd6, %r4;", halves(bits(2.5), 0), 2),
    ("cvt.rzi.s32.f32 %r4, %r2; cvt.u64.u32 %rd6, %r4;", halves(bits(3e9), 0), 2**31 - 1),
    ("cvt.rzi.u32.f32 %r4, %r2; cvt.u64.u32 %rd6, %r4;", halves(bits(-2.0), 0), 0),
    ("cvt.rzi.s64.f32 %rd6, %r2;", halves(bits(float("nan")), 0), 0),
    ("cvt.rn.bf16.f32 %rs3, %r2; cvt.u64.u16 %rd6, %rs3;", halves(bits(1 + 2**-8), 0), 0x3F80),
    ("cvt.rn.bf16x2.f32 %r4, %r2, %r3; cvt.u64.u32 %rd6, %r4;", halves(bits(1.0), bits(2.0)), 0x3F804000),
    ("cvt.rn.f16x2.f32 %r4, %r2, %r3; cvt.u64.u32 %rd6, %r4;", halves(bits(1.0), bits(2.0)), 0x3C004000),
    ("cvt.f32.bf16 %r4, %rs1; cvt.u64.u32 %rd6, %r4;", 0x4000, bits(2.0)),
    ("cvt.s64.s16 %rd6, %rs1;", 0xFFFE, 2**64 - 2),
    ("add.bf16x2 %r4, %r2, %r3; cvt.u64.u32 %rd6, %r4;", halves(0x3F804000, 0x3F804000), 0x40004080),
    ("add.rn.f32x2 %rd6, %rd5, %rd5;", halves(bits(1.5), bits(-2.0)), halves(bits(3.0), bits(-4.0))),
    ("fma.rn.f32x2 %rd6, %rd5, %rd5, %rd5;", halves(bits(1.5), bits(-2.0)), halves(bits(3.75), bits(2.0))),
    ("setp.ltu.f32 %p1, %r2, %r3; selp.b64 %rd6, 1, 2, %p1;", halves(bits(float("nan")), bits(1.0)), 1),
    ("setp.lt.f32 %p1, %r2, %r3; selp.b64 %rd6, 1, 2, %p1;", halves(bits(float("nan")), bits(1.0)), 2),
    ("setp.lt.s32 %p1|%p2, %r2, %r3; selp.b64 %rd6, 1, 2, %p2;", halves(-1, 1), 2),
    (
        "setp.lt.bf16x2 %p1|%p2, %r2, %r3; selp.b64 %rd6, 1, 2, %p2;",
        halves(0x40003F80, 0x3F803F80),
        2,
    ),
    (
        "setp.lt.bf16x2 %p1|%p2, %r2, %r3; selp.b64 %rd6, 1, 2, %p1;",
        halves(0x3F803F80, 0x3F804000),
        1,
    ),
    ("testp.infinite.f32 %p1, %r2; selp.b64 %rd6, 1, 2, %p1;", halves(bits(float("-inf")), 0), 1),
    ("copysign.f32 %r4, %r2, %r3; cvt.u64.u32 %rd6, %r4;", halves(bits(-0.0), bits(3.0)), bits(-3.0)),
    ("mov.b64 %rd6, {%r3, %r2};", halves(1, 2), halves(2, 1)),
    ("add.cc.u32 %r4, %r2, 1; addc.u32 %r5, %r3, 0; mov.b64 %rd6, {%r4, %r5};", halves(2**32 - 1, 7), halves(0, 8)),
    ("add.cc.u32 %r4, %r2, 1; addc.cc.u32 %r5, %r3, 0; addc.u32 %r6, 0, 0; cvt.u64.u32 %rd6, %r6;", 2**64 - 1, 1),
    ("sub.cc.u32 %r4, %r2, 1; subc.u32 %r5, %r3, 0; mov.b64 %rd6, {%r4, %r5};", halves(0, 8), halves(2**32 - 1, 7)),
    (
        "mad.lo.cc.u32 %r4, %r2, %r3, %r2; madc.hi.u32 %r5, %r2, %r3, 5; mov.b64 %rd6, {%r4, %r5};",
        halves(2**32 - 1, 3),
        (2**32 - 1) * 4 + (5 << 32),
    ),
]


@pytest.mark.parametrize(
    ("body", "given", "expected"),
    INSTRUCTIONS,
    ids=[row[0].split()[0] + f"-{at}" for at, row in enumerate(INSTRUCTIONS)],
)
def test_one_instruction(body, given, expected):
    """What the PTX manual says of it, at values where a simpler rule would fail."""
    assert execute(body, [given]) == [expected]


def test_lanes_exchange_values():
    """``shfl`` by xor, up, down and index; ``redux`` and ``vote`` over a warp."""
    words = list(range(32))
    for text, expected in {
        "shfl.sync.bfly.b32 %r4, %r2, 5, 31, -1;": [lane ^ 5 for lane in words],
        "shfl.sync.up.b32 %r4, %r2, 3, 0, -1;": [max(lane - 3, lane if lane < 3 else 0) for lane in words],
        "shfl.sync.down.b32 %r4, %r2, 3, 31, -1;": [lane + 3 if lane < 29 else lane for lane in words],
        "shfl.sync.idx.b32 %r4, %r2, 7, 31, -1;": [7] * 32,
        "redux.sync.add.s32 %r4, %r2, -1;": [sum(words)] * 32,
        "setp.gt.u32 %p1, %r2, 29; vote.sync.ballot.b32 %r4, %p1, -1;": [3 << 30] * 32,
    }.items():
        assert execute(f"{text} cvt.u64.u32 %rd6, %r4;", words) == expected, text


def test_matrices_are_moved_by_a_whole_warp():
    """``stmatrix`` leaves each lane's pair in its row, ``ldmatrix`` fetches it; transposed, a lane has a column's."""
    body = """
    mov.u32 %r5, %laneid;
    and.b32 %r5, %r5, 7;
    shl.b32 %r5, %r5, 4;
    stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r5], {{%r2}};
    ldmatrix.sync.aligned.m8n8.x1{how}.shared.b16 {{%r4}}, [%r5];
    cvt.u64.u32 %rd6, %r4;
    """
    pairs = [(2 * lane + 1) << 16 | 2 * lane for lane in range(32)]  # the number at row r and column c is 8 * r + c
    assert execute(body.format(how=""), pairs) == pairs
    transposed = [(8 * (2 * (lane % 4) + 1) + lane // 4) << 16 | (16 * (lane % 4) + lane // 4) for lane in range(32)]
    assert execute(body.format(how=".trans"), pairs) == transposed


def test_threads_that_take_different_ways_meet_again():
    """A loop of as many rounds as the thread says; then all of them are at one barrier."""
    body = """
    mov.b64 %rd6, 0;
    mov.u32 %r5, 0;
    $L_loop:
    setp.ge.u32 %p1, %r5, %r2;
    @%p1 bra $L_done;
    add.s64 %rd6, %rd6, 10;
    add.u32 %r5, %r5, 1;
    bra.uni $L_loop;
    $L_done:
    bar.sync 0;
    """
    assert execute(body, list(range(64)), threads=64) == [10 * count for count in range(64)]


def test_a_barrier_waits_for_the_threads_that_have_not_returned():
    """Half of a block jumps over it: if they return, the others go on; if they wait at another one, that is a fault."""
    body = """
    mov.b64 %rd6, 1;
    setp.lt.u32 %p1, %r1, 32;
    @%p1 bra $L_other;
    bar.sync 0;
    mov.b64 %rd6, 2;
    bra.uni $L_end;
    $L_other:
    {there}
    $L_end:
    """
    words = list(range(64))
    assert execute(body.format(there=""), words, threads=64) == [1] * 32 + [2] * 32
    with pytest.raises(Fault, match="different barriers"):
        execute(body.format(there="bar.sync 0;"), words, threads=64)


def test_an_unknown_instruction_is_named():
    """What the simulator lacks is said by its name and line."""
    with pytest.raises(ptx.UnsupportedInstruction, match=r"sad\.u32 in line 0"):
        execute("sad.u32 %r4, %r2, %r3, %r2; mov.b64 %rd6, 0;", [1])
