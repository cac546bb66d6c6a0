"""Single arithmetic instructions of the simulator."""

from __future__ import annotations

import numpy as np
import pytest

from tests.gpu.instructions import execute


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
    ("cvt.rn.satfinite.e4m3x2.f32 %rs3, %r2, %r3; cvt.u64.u16 %rd6, %rs3;", halves(bits(1e9), bits(-1.0)), 0x7EB8),
    ("cvt.rn.satfinite.e5m2x2.f32 %rs3, %r2, %r3; cvt.u64.u16 %rd6, %rs3;", halves(bits(-1e9), bits(1.0)), 0xFB3C),
    ("cvt.rn.f16x2.e4m3x2 %r4, %rs1; cvt.u64.u32 %rd6, %r4;", 0x7EB8, 0x5F00BC00),
    ("cvt.f32.bf16 %r4, %rs1; cvt.u64.u32 %rd6, %r4;", 0x4000, bits(2.0)),
    ("cvt.s64.s16 %rd6, %rs1;", 0xFFFE, 2**64 - 2),
    ("add.bf16x2 %r4, %r2, %r3; cvt.u64.u32 %rd6, %r4;", halves(0x3F804000, 0x3F804000), 0x40004080),
    ("add.rn.f32x2 %rd6, %rd5, %rd5;", halves(bits(1.5), bits(-2.0)), halves(bits(3.0), bits(-4.0))),
    ("fma.rn.f32x2 %rd6, %rd5, %rd5, %rd5;", halves(bits(1.5), bits(-2.0)), halves(bits(3.75), bits(2.0))),
    ("add.rn.f32.f16 %r4, %rs1, %r3; cvt.u64.u32 %rd6, %r4;", halves(0x3C01, bits(2**-20)), bits(1 + 2**-10 + 2**-20)),
    ("sub.rn.f32.bf16 %r4, %rs1, %r3; cvt.u64.u32 %rd6, %r4;", halves(0x3F81, bits(2**-20)), bits(1 + 2**-7 - 2**-20)),
    (
        "fma.rn.f32.f16 %r4, %rs1, %rs1, %r3; cvt.u64.u32 %rd6, %r4;",
        halves(0x3C01, bits(2**-21)),
        bits(1 + 2**-9 + 2**-20 + 2**-21),
    ),
    (
        "fma.rn.f32.bf16 %r4, %rs1, %rs1, %r3; cvt.u64.u32 %rd6, %r4;",
        halves(0x3F81, bits(-1.0)),
        bits(2**-6 + 2**-14),
    ),
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
    (  # the opposite is combined, too: both predicates are false
        "setp.eq.s32 %p3, 0, 1; setp.lt.and.s32 %p1|%p2, %r2, %r3, %p3; selp.b64 %rd6, 1, 2, %p2;",
        halves(-1, 1),
        2,
    ),
    (
        "setp.eq.s32 %p3, 0, 0; setp.lt.or.s32 %p1|%p2, %r2, %r3, %p3; selp.b64 %rd6, 1, 2, %p2;",
        halves(-1, 1),
        1,
    ),
    (
        "setp.eq.s32 %p3, 0, 1; setp.lt.and.s32 %p1, %r2, %r3, !%p3; selp.b64 %rd6, 1, 2, %p1;",
        halves(-1, 1),
        1,
    ),
    (
        "setp.eq.s32 %p3, 0, 0; setp.lt.and.bf16x2 %p1|%p2, %r2, %r3, %p3; selp.b64 %rd6, 1, 2, %p2;",
        halves(0x3F803F80, 0x40003F80),
        1,
    ),
    (
        "fma.rn.f32 %r4, %r2, %r2, %r3; cvt.u64.u32 %rd6, %r4;",
        halves(bits(1 + 2**-12), bits(2**-60)),
        bits(1 + 2**-11 + 2**-23),
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
    """The result is the PTX manual's, at values where a simpler rule would fail."""
    assert execute(body, [given]) == [expected]
