"""Instructions beyond arithmetic: branches, barriers, warp shuffles, matrix moves."""

from __future__ import annotations

import pytest
import torch

import nbcompile
from nbcompile.gpu import ptx
from nbcompile.gpu.memory import Fault
from tests.gpu.instructions import execute, simulate


def test_lanes_exchange_values():
    """``shfl`` by xor, up, down and index, and ``redux`` and ``vote``, exchange values of a warp."""
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
    """``stmatrix`` stores each lane's pair in its row, ``ldmatrix`` loads it; transposed, a lane has a column's."""
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


def test_divergent_threads_reconverge():
    """Threads leave a loop after different numbers of iterations, and then reach one barrier together."""
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
    """Threads that have returned do not count at a barrier; a wait at another barrier is a fault."""
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


def test_what_is_moved_is_on_its_way_until_it_is_used():
    """Unpacking a pair does not use its load: two loads are waited for together, unless one is used before."""
    loads = """
    ld.global.b32 %r4, [%rd3];
    mov.b32 {{%rs3, %rs4}}, %r4;
    {between}
    ld.global.b32 %r5, [%rd3];
    cvt.u32.u16 %r6, %rs3;
    add.u32 %r6, %r6, %r5;
    cvt.u64.u32 %rd6, %r6;
    """
    words = [5, 70000]
    expected = [10, 70000 + 70000 % 2**16]
    for between, waits in (("", 2), ("cvt.u32.u16 %r7, %rs4;", 3)):  # a use of the word itself waits before
        found, ran = simulate(loads.format(between=between), words)
        assert (found, ran.waits) == (expected, waits)


def test_an_unknown_instruction_is_named():
    """The error for an unsupported instruction has its name and line."""
    with pytest.raises(ptx.UnsupportedInstruction, match=r"sad\.u32 in line 0"):
        execute("sad.u32 %r4, %r2, %r3, %r2; mov.b64 %rd6, 0;", [1])


def test_a_parameter_that_is_selected_by_a_program():
    """Two fused kernels differ in a pointer and a constant: ptxas selects the address of a parameter."""

    def function(x):
        return torch.ones((1, 1, 1), dtype=torch.int32), torch.zeros((1, 1, 1, 1), dtype=torch.int32), x

    ones, zeros, _ = nbcompile.compile(function, options={"target": "sm_90"})(torch.ones(2))
    assert (int(ones), int(zeros)) == (1, 0)
