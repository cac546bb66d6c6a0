"""Single PTX instructions in the simulator: each thread of a block has one input word and one output word."""

from __future__ import annotations

import torch

from nbcompile.gpu import ptx, simulator
from nbcompile.gpu.memory import GlobalMemory

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
    """Each thread has a 64-bit word in %rd5 (its halves in %r2 and %r3), and stores its result in %rd6."""
    return simulate(body, words, threads)[0]


def simulate(body: str, words: list[int], threads: int = 32) -> tuple[list[int], simulator.Simulation]:
    """The output words, and the simulator's counters."""
    given = torch.tensor([w - 2**64 if w >= 2**63 else w for w in words + [0] * (threads - len(words))])
    out = torch.zeros(threads, dtype=torch.int64)
    memory = GlobalMemory()
    arguments = [memory.copy_in(given, "in"), memory.copy_in(out, "out")]
    ran = simulator.run(ptx.parse(HEAD.format(body=body, threads=threads)), 1, arguments, memory, 256)
    return [value % 2**64 for value in out[: len(words)].tolist()], ran
