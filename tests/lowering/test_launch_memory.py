"""Writes of a user's Triton kernel through views of one storage, in the simulator."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")

from tests.gpu.kernels import add_to, explained, negate_bits


def launch(target, first, count, step=1):
    """A kernel that adds 1000 to some elements of the target, counted from its first element."""
    add_to[(1,)](target, first, count, STEP=step, BLOCK=128)


def in_eager_mode(target, first, count, step=1):
    """The same in eager mode, on the CPU."""
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


def column_of_all(x, add):
    y = x.view(10, 10) * 2
    add(y.unbind(1)[3], 1, 8, 10)
    return y


def half_of_a_row(x, add):
    y = x.view(10, 10) * 2
    add(y.unbind()[3].split(6, -1)[1], -5, 20)
    return y


def part_of_an_input_in_three(x, add):
    add(x.split([30, 50, 20])[1], -10, 70)
    return x * 2


def divided_afterwards(x, add):
    add(x, 0, 20)
    first, second = x.split([15, 85])
    y = x * 2
    add(y, 10, 20)
    return first * 1, second.sum(), y.view(10, 10).unbind(1)[2] + 1


PARTS = [column_of_all, half_of_a_row, part_of_an_input_in_three, divided_afterwards]


@pytest.mark.parametrize(
    "function", [part_of_a_result, part_of_an_input, column, rows_turned_round, row_of_an_input, diagonal, *PARTS]
)
def test_what_a_kernel_writes_beside_a_view_is_in_its_base(function):
    """A kernel gets a pointer, and may write before and after the view: these writes reach the base."""
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
    """A view of another dtype shares the memory: the sign bit of the integer is the sign of the float."""
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


def written_thrice(x, add):
    for first in (0, 20, 40):
        add(x, first, 50)


def written_by_way_of_parts(x, add):
    first, second = x.split([40, 60])
    add(first, 0, 60)
    add(second, -10, 30)
    add(x.view(10, 10)[3], 4, 30, 2)


def read_in_between(x, add):
    add(x, 0, 100)
    y = x * 2
    add(x, 0, 50)
    return y


def read_after_all(x, add):
    before = x[3:7]
    add(x, 0, 50)
    add(x, 50, 50)
    return before + 1, x * 2


ALONE = [only_written, written_twice, written_thrice, written_by_way_of_parts]
"""Programs of launches alone."""
COPIES = {only_written: 0, read_before: 0, seen_through_a_view: 0, returned: 0}


@pytest.mark.parametrize(
    "function",
    [*COPIES, *ALONE[1:], read_in_between, read_after_all, kept_before, kept_in_between, written_otherwise_afterwards],
)
def test_an_input_is_written_where_it_is(function):
    """An input is mutated without a copy, unless its old value is read afterwards."""
    x, eager_x = torch.arange(100.0), torch.arange(100.0)
    expected = function(eager_x, in_eager_mode)
    found = explained(lambda x: function(x, launch), x)
    torch.testing.assert_close(found.result, expected, rtol=0, atol=0)
    assert torch.equal(x, eager_x)
    if function in COPIES:
        wrapper = found.record.frames[0].compiled_graph.wrapper
        (launched_with,) = [line for line in wrapper.splitlines() if "kwargs={" in line]
        assert "'target': arg0_1" in launched_with
    if function in ALONE:
        assert {kernel.name for kernel in found.kernels} == {"add_to"}
        assert "empty_strided" not in found.record.frames[0].compiled_graph.wrapper
