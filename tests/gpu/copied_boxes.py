"""A PTX kernel that copies a box of a tensor by a tensor map, for the tests of such copies and of barriers."""

from __future__ import annotations

import torch

from nbcompile.gpu import ptx, simulator
from nbcompile.gpu.memory import GlobalMemory

HEAD = """
.visible .entry kernel(.param .u64 kernel_param_0, .param .u64 kernel_param_1, .param .u64 kernel_param_2)
.reqntid {threads}
{{
.reg .pred %p<9>;
.reg .b32 %r<20>;
.reg .b64 %rd<9>;
ld.param.b64 %rd1, [kernel_param_0];
ld.param.b64 %rd2, [kernel_param_1];
ld.param.b64 %rd3, [kernel_param_2];
mov.u32 %r1, %tid.x;
mov.b32 %r2, 2048;
elect.sync %r3|%p1, 0xffffffff;
setp.lt.u32 %p2, %r1, 32;
setp.eq.u32 %p3, %r1, 0;
{body}
ret;
}}
"""
MAP = """
@%p2 tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%r2], %rd1;
@%p2 tensormap.replace.tile.rank.shared::cta.b1024.b32 [%r2], 1;
@%p2 tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r2], 0, 32;
@%p2 tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [%r2], 1, 8;
@%p2 tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r2], 0, 40;
@%p2 tensormap.replace.tile.global_dim.shared::cta.b1024.b32 [%r2], 1, 10;
@%p2 tensormap.replace.tile.global_stride.shared::cta.b1024.b64 [%r2], 0, 160;
@%p2 tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%r2], 0, 1;
@%p2 tensormap.replace.tile.element_stride.shared::cta.b1024.b32 [%r2], 1, 1;
@%p2 tensormap.replace.tile.elemtype.shared::cta.b1024.b32 [%r2], {kind};
@%p2 tensormap.replace.tile.interleave_layout.shared::cta.b1024.b32 [%r2], 0;
@%p2 tensormap.replace.tile.swizzle_mode.shared::cta.b1024.b32 [%r2], {swizzle};
@%p2 tensormap.replace.tile.fill_mode.shared::cta.b1024.b32 [%r2], 0;
@%p2 tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd3], [%r2], 128;
fence.proxy.tensormap::generic.acquire.gpu [%rd3], 128;
"""
INIT = "mov.b32 %r4, 3072; @%p3 mbarrier.init.shared::cta.b64 [%r4], 1; bar.sync 0;"
LOAD = """
@%p3 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], {bytes};
@%p3 cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r5], [%rd3, {{%r6, %r7}}], [%r4];
"""
WAIT = """
$L_wait{number}:
mbarrier.try_wait.parity.shared.b64 %p4, [%r4], {parity};
@!%p4 bra.uni $L_wait{number};
"""
TAKE = """
shl.b32 %r8, %r1, 2;
add.u32 %r9, %r8, %r5;
ld.shared.b32 %r10, [%r9];
cvt.u64.u32 %rd4, %r8;
add.s64 %rd5, %rd2, %rd4;
st.global.b32 [%rd5], %r10;
"""
START = "mov.b32 %r5, 0; mov.b32 %r6, {column}; mov.b32 %r7, {row};"
THREADS = 256


def run(body: str, threads: int = THREADS) -> tuple[torch.Tensor, torch.Tensor]:
    """A tensor of 10 x 40 numbers, and the values that 256 threads stored."""
    given, out = torch.arange(1.0, 401.0).reshape(10, 40), torch.zeros(8, 32)
    memory = GlobalMemory()
    arguments = [memory.copy_in(given, "given"), memory.copy_in(out, "out"), memory.take_scratch(128)]
    function = ptx.parse(HEAD.format(body=body, threads=threads))
    simulator.expect_supported(function)
    simulator.run(function, 1, arguments, memory, 4096)
    return given, out


def program(
    *, row: int = 0, column: int = 0, swizzle: int = 0, bytes_: int = 1024, wait: str = "", kind: int = 7
) -> str:
    start = START.format(row=row, column=column)
    wait = wait or WAIT.format(parity=0, number=0)
    return MAP.format(swizzle=swizzle, kind=kind) + INIT + start + LOAD.format(bytes=bytes_) + wait + TAKE
