"""The reference evaluator: the plainest definition of what a program computes."""

from __future__ import annotations

import pytest
import sympy
import torch

from nbcompile.ir.buffer import BufferView, GraphInput, Pointwise, Program, Scan, SymbolSource
from nbcompile.ir.evaluate import number_of, run, symbol_values, tabulate, uninitialised
from nbcompile.ir.expr import IndexOf, Load, apply, constant
from nbcompile.ir.index import indices, loop_variable
from nbcompile.ir.layout import Layout, contiguous

CPU, F32 = torch.device("cpu"), torch.float32
i0 = loop_variable(0)


def symbols(*names):
    return [sympy.Symbol(name, integer=True, positive=True) for name in names]


def given(size, stride, offset=0):
    return GraphInput("x", F32, CPU, Layout(indices(size), indices(stride), sympy.Integer(offset)), 0)


def plus_one(layout, writes_to=""):
    return Pointwise(
        "y", F32, CPU, layout, apply("add", Load("x", (i0,), F32), constant(1.0, F32)), writes_to=writes_to
    )


def test_an_input_is_read_through_its_strides():
    """An input may have an offset into its storage, and strides that are not contiguous."""
    memory = torch.arange(10.0)
    x = memory[3::2]
    program = Program(
        (given((4,), (2,)), plus_one(contiguous(indices((4,))))), (BufferView("y", contiguous(indices((4,)))),), 1
    )
    (result,) = run(program, [x])
    assert torch.equal(result, x + 1)


def test_a_write_to_an_input_comes_last():
    """A load of a mutated input reads the old value anywhere in the program; the caller's tensor is written last."""
    layout = contiguous(indices((3,)))
    written = plus_one(layout, writes_to="x")
    later = Pointwise("z", F32, CPU, layout, Load("x", (i0,), F32))
    x = torch.zeros(3)
    (result, same) = run(
        Program((given((3,), (1,)), written, later), (BufferView("z", layout), BufferView("x", layout)), 1), [x]
    )
    assert result.tolist() == [0, 0, 0] and x.tolist() == [1, 1, 1]
    assert same is x, "an output that is an input is the very same object"


def test_an_output_over_an_input_is_a_view_of_it():
    """An output with another layout, or one that must be a separate object, is a view of the input."""
    layout = contiguous(indices((4,)))
    views = (
        BufferView("x", Layout(indices((2,)), indices((2,)), sympy.Integer(1))),
        BufferView("x", layout, distinct=True),
    )
    x = torch.arange(4.0)
    half, whole = run(Program((given((4,), (1,)),), views, 1), [x])
    x.add_(10)
    assert half.tolist() == [11, 13] and torch.equal(whole, x) and whole is not x


def test_sizes_are_read_from_the_arguments():
    """A symbolic size is read from a size or stride of an argument, or from a number."""
    n, s, k = symbols("n", "s", "k")
    sources = (SymbolSource(n, 0, 1), SymbolSource(s, 0, 0, "stride"), SymbolSource(k, 1))
    values = symbol_values(Program((), (), 2, sources), [torch.empty(2, 3)[:, :2], 7])
    assert values == {n: 2, s: 3, k: 7} and all(type(value) is int for value in values.values())


def test_numbers_have_pythons_types():
    """A comparison is a bool, a quotient is a float, and other results are ints."""
    (n,) = symbols("n")
    for expression, expected in (
        (n + 1, 4),
        (n / 2, 1.5),
        (n > 2, True),
        (sympy.Integer(5), 5),
        (sympy.Float(0.5), 0.5),
    ):
        number = number_of(expression, {n: 3})
        assert number == expected and type(number) is type(expected)


def test_a_table_depends_on_nothing_but_its_variable():
    """A body that loads, or has another symbol in an index, is no table; a table without iterations is empty."""
    squares = apply("mul", IndexOf(i0, torch.int64), IndexOf(i0, torch.int64))
    assert tabulate(squares, i0, 4) == [0, 1, 4, 9] and tabulate(squares, i0, 0) == []
    assert tabulate(Load("x", (i0,), F32), i0, 4) is None
    assert tabulate(IndexOf(i0 + symbols("n")[0], torch.int64), i0, 4) is None


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.complex64, torch.int8, torch.uint8, torch.int64]
)
def test_reads_of_uninitialised_memory_are_detected(dtype):
    """Memory that nothing wrote has a value that a program is unlikely to compute."""
    memory = uninitialised((3,), dtype)
    assert memory.dtype == dtype and (memory.isnan().all() or memory.eq(0x5A).all())


def test_a_scan_runs_along_one_dimension():
    """A scan runs along one dimension, independently for all other indices."""
    layout = contiguous(indices((2, 3)))
    i1 = loop_variable(1)
    x = GraphInput("x", F32, CPU, layout, 0)
    for dim in (0, 1):
        total = Scan("y", F32, CPU, layout, Load("x", (i0, i1), F32), "sum", dim, F32)
        (result,) = run(Program((x, total), (BufferView("y", layout),), 1), [torch.arange(6.0).reshape(2, 3)])
        assert torch.equal(result, torch.arange(6.0).reshape(2, 3).cumsum(dim))
