"""Triton kernels that the program launches itself, for a target: in the graph, and run in the simulator."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")

import triton

import nbcompile
from nbcompile.gpu.build import CannotBuild
from nbcompile.gpu.user_kernels import bits
from tests.gpu import kernels
from tests.gpu.kernels import (
    ON_A_GPU,
    X,
    add_to,
    both,
    doubled,
    explained,
    launched,
    negate_bits,
    scale,
    scale_by_bfloat16,
    scale_by_constant,
    scale_by_global,
)


def test_a_launch_is_a_node_between_generated_kernels():
    """As torch captures it; the record has the kernel's text, and the figures of its launch."""
    found = explained(lambda x: launched(scale, x + 1, 3.0, BLOCK=128) * 2, X)
    assert torch.equal(found.result, (X + 1) * 6)
    graph = found.record.frames[0].graph
    assert [node.target for node in graph.nodes if "triton" in node.target] == ["triton_kernel_wrapper_mutation"]
    (users,) = [kernel for kernel in found.kernels if kernel.name == "scale"]
    assert users.language == "triton"
    assert users.source.startswith("def scale(")
    assert users.gpu.coalescing == 1
    assert users.gpu.moved == 2 * 38 * 32  # sectors of 300 numbers, read and written
    assert sum(line.moved for line in users.gpu.lines) == users.gpu.moved
    assert users.gpu.lines[-1].line == 4  # tl.store


def test_sizes_may_be_symbolic():
    """One graph for all sizes; number and grid follow them."""
    compiled = nbcompile.compile(lambda x: launched(scale, x, 3.0, BLOCK=128), options=ON_A_GPU, dynamic=True)
    for size in (300, 129, 1000):
        x = torch.randn(size)
        assert torch.equal(compiled(x), x * 3)


def test_gradients_flow_around_a_launch():
    """What a kernel writes has no derivative, as in eager mode; what is multiplied by it has."""

    def loss(x, w):
        y = x * w
        return (y * launched(scale, y.detach(), 3.0, BLOCK=128)).sum()

    w = torch.full((300,), 0.5, requires_grad=True)
    explained(loss, X, w).result.backward()
    torch.testing.assert_close(w.grad, X * X * 1.5)


def test_parameters_that_are_given_one_tensor_see_what_each_writes():
    """An input, a result of the graph's own, memory that was made for it; also where one parameter is only read."""

    def local(x):
        y = x + 0
        both[(1,)](y, y, 100, BLOCK=128)
        return y

    def given(x):
        both[(1,)](x, x, 100, BLOCK=128)
        return x

    def made(x):
        y = torch.zeros(100)
        both[(1,)](y, y, 100, BLOCK=128)
        return y

    def read(x):
        y = x + 0
        doubled[(1,)](y, y, 100, BLOCK=128)
        return y

    x = torch.arange(100.0)
    for function, expected in ((local, (x + 1) * 10), (made, torch.full((100,), 10.0)), (read, x * 2 + 1)):
        assert torch.equal(explained(function, x).result, expected)
    written = x.clone()
    assert torch.equal(explained(given, written).result, (x + 1) * 10)
    assert torch.equal(written, (x + 1) * 10)


def test_constants_that_are_equal_to_python_are_not_one():
    """Each has code of its own: 0.0 and -0.0, a whole number and a float."""
    x = torch.full((100,), 2**30, dtype=torch.int32)
    for factor, expected in ((4, torch.zeros(100)), (4.0, torch.full((100,), 2.0**32))):
        out = torch.zeros(100)

        def scaled(x, out, factor=factor):
            scale_by_constant[(1,)](x, out, 100, factor, BLOCK=128)
            return out

        assert torch.equal(explained(scaled, x, out).result, expected)
    for factor in (0.0, -0.0):
        found = explained(lambda x, by=factor: launched(scale_by_constant, x, by, BLOCK=128), torch.ones(100)).result
        assert torch.equal(torch.signbit(found), torch.signbit(torch.full((100,), factor)))


def test_numbers_are_passed_as_tritons_launch_passes_them():
    """A number that a kernel takes as bfloat16 is cut off; all are what a signed number of 64 bits can be."""
    by = explained(lambda x: launched(scale_by_bfloat16, x, 2.5, BLOCK=128), X[:100]).result
    assert torch.equal(by, X[:100] * 2.5)
    assert bits(1 + 3 / 256, "bf16") == 0x3F81
    assert bits(1e300, "fp32") == bits(float("inf"), "fp32") == 0x7F800000
    assert bits(-2.0, "fp64") == -(1 << 62)
    assert bits(2**63 + 1, "u64") == -(2**63) + 1
    assert bits(-3, "i32") == -3


def test_a_global_variable_that_changes_is_an_error_as_in_triton(monkeypatch):
    """Its value is in the code; neither the graph that is compiled nor another one runs the old code."""
    compiled = nbcompile.compile(lambda x: launched(scale_by_global, x, BLOCK=128), options=ON_A_GPU)
    assert torch.equal(compiled(X[:100]), X[:100] * 3)
    monkeypatch.setattr(kernels, "FACTOR", triton.language.constexpr(5))
    for function in (
        compiled,
        nbcompile.compile(lambda x: launched(scale_by_global, x, BLOCK=128) + 1, options=ON_A_GPU),
    ):
        with pytest.raises(CannotBuild, match="the global variable FACTOR of scale_by_global has changed"):
            function(X[:100])


def test_parameters_that_are_given_views_of_one_tensor_see_what_each_writes():
    """Of the whole or of parts that overlap, of a result or an input; what no view has stays what it was."""

    def reshaped(x):
        y = x + 0
        both[(1,)](y, y.view(4, 25), 100, BLOCK=128)
        return y

    def transposed(x):
        y = x.view(10, 10) * 1
        both[(1,)](y.t(), y.view(-1), 100, BLOCK=128)
        return y.view(-1)

    def given(x):
        both[(1,)](x, x[0:], 100, BLOCK=128)
        return x

    def overlapping(x):
        y = x + 0
        both[(1,)](y[20:70], y[10:80], 50, BLOCK=128)
        return y

    x = torch.arange(100.0)
    for function in (reshaped, transposed, given):
        assert torch.equal(explained(function, x.clone()).result, (x + 1) * 10)
    expected = x.clone()
    expected[20:70] += 1
    expected[10:60] *= 10
    assert torch.equal(explained(overlapping, x).result, expected)


def launch(target, first, count, step=1):
    """Add 1000 to some elements, counted from the first one of the target."""
    add_to[(1,)](target, first, count, STEP=step, BLOCK=128)


def in_eager_mode(target, first, count, step=1):
    """The same without Triton, on the CPU."""
    start = target.storage_offset() + first
    target.as_strided((count,), (step,), start).add_(1000)


def part_of_a_result(x, add):
    y = x * 2
    add(y[10:20], 0, 50)
    return y


def part_of_an_input(x, add):
    add(x[10:20], -5, 50)
    return x * 2


def column(x, add):
    y = x.view(10, 10) * 2
    add(y[:, 3], 1, 8, 10)
    return y.sum(0), y


def rows_turned_round(x, add):
    y = x * 2
    add(y.view(10, 10)[2:4].t(), -10, 40)
    return y


def row_of_an_input(x, add):
    add(x.view(10, 10)[3], 4, 30, 2)
    return x.view(10, 10).t() * 2


def diagonal(x, add):
    y = x.view(10, 10) * 2
    add(y.diagonal(), 1, 9, 11)
    return y


@pytest.mark.parametrize(
    "function", [part_of_a_result, part_of_an_input, column, rows_turned_round, row_of_an_input, diagonal]
)
def test_what_a_kernel_writes_beside_a_view_is_in_its_base(function):
    """A kernel gets an address, and may go on from there, to either side."""
    x, eager_x = torch.arange(100.0), torch.arange(100.0)
    expected = function(eager_x, in_eager_mode)
    found = explained(lambda x: function(x, launch), x).result
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    assert torch.equal(x, eager_x)


def negate(target, step=1):
    sign = -(2**31) if target.dtype == torch.int32 else -(2**15)
    negate_bits[(1,)](target, (target.numel() + step - 1) // step, SIGN=sign, STEP=step, BLOCK=256)


def as_whole_numbers(y):
    negate(y.view(torch.int32))
    return y


def twice(y):
    negate(y.view(torch.int32))
    add_to[(1,)](y, 0, 100, STEP=1, BLOCK=128)
    return y


def as_pairs_of_halves(y):
    negate(y.view(torch.int16)[1:], 2)
    return y


def a_part_as_whole_numbers(y):
    negate(y[20:60].view(torch.int32)[10:])
    return y


@pytest.mark.parametrize("where", ["result", "input"])
@pytest.mark.parametrize("function", [as_whole_numbers, twice, as_pairs_of_halves, a_part_as_whole_numbers])
def test_a_view_of_another_type_is_the_same_memory(function, where):
    """The sign of a float is the first bit of a whole number; what is written so is in the float."""
    x = torch.arange(1.0, 101.0)
    expected = {as_whole_numbers: -x, twice: 1000 - x, as_pairs_of_halves: -x}.get(function)
    if expected is None:
        expected = x.clone()
        expected[30:60] *= -1
    given = x.clone()
    found = explained(function if where == "input" else lambda x: function(x + 0), given).result
    assert torch.equal(found, expected)
    assert torch.equal(given, expected if where == "input" else x)


def only_written(x, add):
    add(x, 0, 100)


def written_twice(x, add):
    add(x, 0, 100)
    add(x[50:], 0, 50)


def read_before(x, add):
    y = x * 2
    add(x, 0, 100)
    return y + x


def kept_before(x, add):
    y = x.clone()
    add(x, 0, 100)
    return y


def kept_in_between(x, add):
    add(x, 0, 100)
    y = x.clone()
    add(x, 0, 100)
    return y


def seen_through_a_view(x, add):
    y = x[10:20]
    add(x, 0, 100)
    return y * 2


def returned(x, add):
    add(x, 0, 100)
    return x, x[5:].clone()


def written_otherwise_afterwards(x, add):
    add(x, 0, 100)
    x.mul_(2)


COPIES = {only_written: 0, read_before: 0, seen_through_a_view: 0, returned: 0}


@pytest.mark.parametrize(
    "function",
    [*COPIES, written_twice, kept_before, kept_in_between, written_otherwise_afterwards],
)
def test_an_input_is_written_where_it_is(function):
    """Not by way of a copy of it, unless its old content is read afterwards."""
    x, eager_x = torch.arange(100.0), torch.arange(100.0)
    expected = function(eager_x, in_eager_mode)
    found = explained(lambda x: function(x, launch), x)
    torch.testing.assert_close(found.result, expected, rtol=0, atol=0)
    assert torch.equal(x, eager_x)
    if function in COPIES:
        wrapper = found.record.frames[0].compiled_graph.wrapper
        (launched_with,) = [line for line in wrapper.splitlines() if "kwargs={" in line]
        assert "'target': arg0_1" in launched_with
