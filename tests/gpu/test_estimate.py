"""The estimated duration of a simulation."""

from __future__ import annotations

from nbcompile.gpu import estimate, ptx
from nbcompile.ir.emitted import EmittedKernel


def function(*instructions: ptx.Instruction, labels: dict[str, int] | None = None) -> ptx.Function:
    """A function with 32 threads."""
    return ptx.Function("f", (), 32, instructions, labels or {}, {}, {}, {}, 0, {})


def test_rounds_are_computed_from_the_sizes():
    """The trip count is computed from the sizes, and is 0 without loops."""
    assert estimate.rounds(EmittedKernel("k", "k", "", (), rounds="3 * 4"))() == 12
    assert estimate.rounds(EmittedKernel("k", "k", "", ()))() == 0
    assert estimate.rounds(EmittedKernel("k", "k", "", (), sizes=("s0",), rounds="(s0 + 63) // 64"))(65) == 2


def test_what_is_in_a_loop_counts_once_a_round():
    """A kernel with a backward branch takes longer with more iterations; one without takes the same."""
    step = ptx.Instruction("add", ("s32",), ("%r1", "%r1", "1"))
    loop = function(step, ptx.Instruction("bra", (), ("$L",)), labels={"$L": 0})
    line = function(step, step)
    assert estimate.seconds(loop, 1, 100, 0) > 50 * estimate.seconds(loop, 1, 1, 0)
    assert estimate.seconds(line, 1, 100, 0) == estimate.seconds(line, 1, 1, 0)


def test_accesses_to_memory_take_longer():
    """A load from global memory takes longer, a load of a parameter does not; more blocks take longer."""
    step = ptx.Instruction("add", ("s32",), ("%r1", "%r1", "1"))
    load = ptx.Instruction("ld", ("global", "u32"), ("%r1", "[%rd1]"))
    parameter = ptx.Instruction("ld", ("param", "u64"), ("%rd1", "[f_param_0]"))
    times = [estimate.seconds(function(each), 1000, 0, 0) for each in (step, parameter, load)]
    assert times[0] == times[1] < times[2]
    assert estimate.seconds(function(step), 2000, 0, 0) > times[0]
