"""Fusion of buffers into kernels: which are fused, which are not, and what the fusion log says."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from hypothesis import given, settings, strategies as st

from nbcompile.ir.kernel import Allocate, Kernel, Nest, Reuse
from nbcompile.ir.printer import print_schedule
from tests.support.lowered import check, programs


def kernels(function, *inputs, **how) -> list[Kernel]:
    return list(check(function, *inputs, **how)[1].kernels())


def nests(kernel: Kernel) -> int:
    return sum(isinstance(each, Nest) for each in kernel.body)


def test_softmax_is_one_kernel_of_three_passes():
    """Softmax is one kernel with three passes over a row: max, sum of exp, quotient; only the result is stored."""
    (kernel,) = kernels(lambda x: torch.softmax(x, -1), torch.randn(8, 32))
    assert nests(kernel) == 3 and len(kernel.scratch) == 1 and len(kernel.writes) == 1


def test_layer_norm_with_residual_is_one_kernel():
    """Both reductions and the affine part are in one kernel."""
    x, r, w, b = torch.randn(8, 32), torch.randn(8, 32), torch.randn(32), torch.randn(32)
    (kernel,) = kernels(lambda x, r, w, b: F.layer_norm(x + r, (32,), w, b), x, r, w, b)
    assert nests(kernel) == 3


def test_reductions_of_one_input_are_one_pass():
    """Three reductions over the same rows read the input once."""
    (kernel,) = kernels(lambda x: (x.sum(1), x.amax(1), (x * x).sum(1)), torch.randn(8, 32))
    assert nests(kernel) == 1 and len(kernel.reads) == 1


def test_rows_and_columns_are_two_kernels_with_a_reason():
    """A reduction over other loops is not fused, and the fusion log says so."""
    _, plan = programs(lambda x: (x.sum(1), x.sum(0)), torch.randn(8, 32))
    assert len(list(plan.kernels())) == 2
    assert any(not each.fused and "reduces along other loops" in each.reason for each in plan.decisions)


def test_a_column_reduction_is_vectorised_across_columns():
    """A column reduction is vectorised along the outer loop, which is contiguous."""
    (kernel,) = kernels(lambda x: x.exp().sum(0), torch.randn(8, 32))
    assert kernel.vector_variable == kernel.loops[-1].variable


def test_contiguous_loops_are_one():
    """A pointwise kernel over contiguous tensors has a single loop."""
    (kernel,) = kernels(lambda x: x.exp() + 1, torch.randn(4, 5, 6))
    assert [int(loop.size) for loop in kernel.loops] == [120]


def test_loops_follow_memory():
    """The output's strides order the loops."""
    (kernel,) = kernels(lambda x: x.t() * 2, torch.randn(4, 6))
    assert len(kernel.loops) == 1


def test_long_single_rows_are_not_walked_by_one_thread():
    """The norm of one long row is several kernels, each of them parallel."""
    _, plan = programs(lambda x: x / x.sum(), torch.randn(1 << 16))
    assert len(list(plan.kernels())) == 2
    assert any("too few for a loop over rows" in each.reason for each in plan.decisions)


def test_memory_is_reused():
    """A chain through ATen needs only two buffers for its intermediates."""
    x = torch.randn(16, 16)
    _, plan = programs(lambda x: torch.mm(torch.mm((x + 1).exp(), x).sin(), x).cos() + x, x)
    assert any(isinstance(step, Reuse) for step in plan.steps)
    _, plan = programs(lambda x: x + 1, x)
    assert [type(step) for step in plan.steps] == [Allocate, Kernel]


def test_the_printed_schedule_reads_as_loops():
    """The printed kernel has its loops, passes and stores."""
    _, plan = programs(lambda x: torch.softmax(x, -1), torch.randn(8, 32))
    text = print_schedule(plan)
    assert "parallel for i0 < 8:" in text and "for i1 < 32:" in text and "buf2 += buf1" in text


def test_dead_code_goes():
    """Code without a user is not computed."""
    _, plan = programs(lambda x: (x.exp().sum(), x + 1)[1], torch.randn(4))
    assert len(list(plan.kernels())) == 1


# -- random programs ------------------------------------------------------------------------------

UNARY = [torch.exp, torch.tanh, torch.neg, torch.relu, torch.sigmoid, lambda x: x * 2 + 1, torch.cos]
BINARY = [torch.add, torch.mul, torch.sub, torch.maximum, lambda a, b: torch.where(a > 0, a, b)]
REDUCE = [torch.sum, torch.mean, torch.amax, torch.amin]
VIEWS = [
    lambda x: x.transpose(0, 1), lambda x: x.reshape(x.shape[1], x.shape[0]), lambda x: x.flip(1),
    lambda x: x.roll(1, 0), lambda x: x[:, :1].expand(x.shape), lambda x: torch.cat([x[1:], x[:1]]),
]  # fmt: skip


@st.composite
def random_program(draw):
    """A function of two matrices with random steps, each on earlier values; the last values are returned."""
    steps = draw(
        st.lists(
            st.tuples(st.integers(0, 3), st.integers(0, 100), st.integers(0, 100), st.integers(0, 100)),
            min_size=1,
            max_size=9,
        )
    )
    returned = draw(st.lists(st.integers(0, 100), min_size=1, max_size=3))

    def run(x, y):
        values = [x, y]
        for kind, which, first, second in steps:
            a = values[first % len(values)]
            same = [each for each in values if each.shape == a.shape]
            if kind == 0:
                new = UNARY[which % len(UNARY)](a)
            elif kind == 1:
                new = BINARY[which % len(BINARY)](a, same[second % len(same)])
            elif kind == 2:
                new = a - REDUCE[which % len(REDUCE)](torch.tanh(a) if second % 2 else a, second % 3 % 2, keepdim=True)
            else:
                new = VIEWS[which % len(VIEWS)](a)
            values.append(torch.tanh(new) if kind == 1 else new)
        return [values[-1], *(values[2:][at % len(steps)] for at in returned)]

    return run


@settings(max_examples=25, deadline=None)
@given(random_program(), st.sampled_from([(4, 6), (5, 5), (1, 7), (3, 1)]), st.booleans())
def test_random_programs_compute_what_eager_computes(function, size, dynamic):
    """Random pointwise, reduction and view steps: program and schedule equal eager mode."""
    torch.manual_seed(1)
    check(function, torch.randn(size) * 0.5, torch.randn(size) * 0.5, dynamic=dynamic and min(size) > 1)
