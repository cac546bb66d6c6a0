"""Column reductions: several vectors of columns in one step."""

import platform

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

from nbcompile.aot.decompositions import default_table
from nbcompile.codegen import cpp
from nbcompile.lowering.graph import lower
from nbcompile.runtime import toolchain
from nbcompile.scheduling.plan import schedule
from tests.codegen.test_cpp import compiled
from tests.support.targets import compiler

R = torch.randn
SHAPES = [(7, 3), (65, 16), (130, 100), (64, 128), (200, 257), (3, 1025), (129, 1)]
FUNCTIONS = {
    "sum": lambda x: (x.sum(0),),
    "mean, kept": lambda x: (x.mean(0, keepdim=True), x - x.mean(0, keepdim=True)),
    "variance": lambda x: (x.var(0),),
    "largest": lambda x: (x.amax(0), x.amin(0)),
    "place": lambda x: (x.argmax(0), x.argmin(0)),
    "softmax": lambda x: (torch.softmax(x, 0),),
    "three dimensions": lambda x: (torch.stack([x, x * 2]).sum(1), torch.stack([x, x.exp()]).sum((0, 1))),
}


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_width(shape):
    """Whole blocks of columns, partial blocks, and single columns give eager's results."""
    torch.manual_seed(0)
    x = R(shape)

    def function(x):
        return tuple(result for each in FUNCTIONS.values() for result in each(x))

    for ours, eager in zip(compiled(function, [x])([x]), function(x), strict=True):
        torch.testing.assert_close(ours, eager, atol=3e-5, rtol=1e-4)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64, torch.int64, torch.bool], ids=str)
def test_every_type(dtype):
    """Column reductions of 16-bit and 64-bit types, and of bools, give eager's results."""
    x = (R(77, 45) * 3).to(dtype)
    function = (lambda x: (x.any(0), x.sum(0))) if dtype == torch.bool else (lambda x: (x.sum(0), x.amax(0)))
    for ours, eager in zip(compiled(function, [x])([x]), function(x), strict=True):
        torch.testing.assert_close(ours, eager)


def test_symbolic_sizes():
    """One dynamic kernel serves narrow and wide matrices."""
    run = compiled(lambda x: (x.sum(0), x.amax(0)), [R(9, 40)], "symbolic")
    for shape in [(2, 3), (70, 128), (300, 200), (5, 999)]:
        x = R(shape)
        for ours, eager in zip(run([x]), (x.sum(0), x.amax(0)), strict=True):
            torch.testing.assert_close(ours, eager, atol=3e-5, rtol=1e-4)


def test_a_nan_reaches_only_its_column():
    """A nan stays in its column: lanes after the last column are masked."""
    x = R(70, 37)
    x[3, 36] = float("nan")
    (ours,) = compiled(lambda x: (x.amax(0),), [x])([x])
    assert ours.isnan().tolist() == [False] * 36 + [True]


def test_long_sums_stay_exact():
    """A column of a hundred thousand is a sum of short sums, whose error is smaller than that of one long sum."""
    torch.manual_seed(0)
    x = torch.rand(100_000, 20)
    (ours,) = compiled(lambda x: (x.sum(0),), [x])([x])
    one_by_one = torch.from_numpy(np.add.accumulate(x.numpy(), 0)[-1])
    exact = x.double().sum(0)
    assert (ours - exact).abs().mean() < (one_by_one - exact).abs().mean() / 2


@pytest.mark.parametrize("width", [8, 100, 256])
def test_rows_found_by_an_index_are_added_along_memory(width):
    """embedding(...).sum(1) reads whole rows; each index is checked once for all columns."""
    table, index = R(50, width), torch.randint(0, 50, (6, 20))
    run = compiled(lambda w, i: (F.embedding(i, w).sum(1),), [table, index])
    torch.testing.assert_close(run([table, index])[0], F.embedding(index, table).sum(1), atol=1e-5, rtol=1e-5)
    index[2, 19] = 50
    with pytest.raises(IndexError, match="index 50 is out of bounds"):
        run([table, index])


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the processors named here are x86")
@pytest.mark.parametrize("processor", ["skylake-avx512", "haswell", "x86-64"])
def test_units_compile_for_every_vector_width(processor, tmp_path):
    """The generated code compiles for each vector width."""

    def function(x, d, i):
        return F.pad(x, (1, 2)) * 2, x.sum(0), d.sum(0), F.embedding(i, x), i.sum(0), x.argmax(0), torch.softmax(x, -1)

    arguments = [R(9, 13), R(9, 13).double(), torch.randint(0, 9, (5, 7))]
    graph = make_fx(function, decomposition_table=default_table(), tracing_mode="fake")(*arguments)
    source = cpp.emit(schedule(lower(graph))).source
    toolchain.build(compiler(), source, tmp_path / "unit.so", f"-march={processor}")
