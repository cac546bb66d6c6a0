"""Random loop programs have the same result on every target: evaluator = generated C++ = Triton's interpreter = eager.

A program is a list of steps over a few tensors of one shape (with tails, odd strides, several types): formulas, masks,
reductions, scans, reads at places that are read from memory. Numbers are small and whole, so that no order of additions
rounds differently.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.support.lowered import check

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int32, torch.bool]
LAYOUTS = ["contiguous", "transposed", "every second", "one row", "channels last"]
UNARY = {
    "neg": lambda a: -_number(a), "abs": lambda a: _number(a).abs(), "relu": lambda a: _number(a).relu(),
    "halved": lambda a: _number(a) // 2, "float": lambda a: a.float(), "bfloat16": lambda a: a.to(torch.bfloat16),
    "int": lambda a: a.long(), "double": lambda a: a.double(), "positive": lambda a: a > 0,
    "shifted": lambda a: F.pad(a, (1, 0))[:, :-1], "from below": lambda a: F.pad(a, (0, 0, 0, 2), value=1)[2:],
    "rolled": lambda a: a.roll(1, 0), "turned": lambda a: a.flip(1), "softly": lambda a: torch.sigmoid(a.float()).round(),
}  # fmt: skip
BINARY = {
    "add": lambda a, b: _small(_number(a) + b), "sub": lambda a, b: _small(_number(a) - _number(b)),
    "mul": lambda a, b: _small(_number(a) * b), "maximum": torch.maximum,
    "where": lambda a, b: torch.where(a > b, a, b), "masked": lambda a, b: a.masked_fill(b > 0, 1),
    "joined": lambda a, b: torch.cat([a[:, :1], b[:, 1:]], 1),
}  # fmt: skip
ALONG = {
    "sum": lambda a, dim: _small(_number(a).sum(dim, keepdim=True)), "amax": lambda a, dim: a.amax(dim, keepdim=True),
    "argmin": lambda a, dim: _number(a).argmin(dim, keepdim=True), "any": lambda a, dim: (a > 1).any(dim, keepdim=True),
    "cumsum": lambda a, dim: _small(_number(a).cumsum(dim)), "cummax": lambda a, dim: _number(a).cummax(dim)[0],
    "where cummin": lambda a, dim: _number(a).cummin(dim)[1],
}  # fmt: skip
INDIRECT = {
    "rows": lambda a, rows, columns: a[rows], "columns": lambda a, rows, columns: a.index_select(1, columns),
    "both": lambda a, rows, columns: a[rows.unsqueeze(1), columns],
    "added": lambda a, rows, columns: _number(a).index_add(0, rows, _number(a)),
}  # fmt: skip


def _number(a):
    return a.int() if a.dtype == torch.bool else a


def _small(a):
    return a.clamp(-8, 8)


@st.composite
def loop_programs(draw):
    """Inputs, and steps that each add one value of the full shape."""
    shape = (draw(st.sampled_from([1, 2, 5, 17])), draw(st.sampled_from([1, 3, 16, 31, 64, 70])))
    inputs = [(draw(st.sampled_from(DTYPES)), draw(st.sampled_from(LAYOUTS))) for _ in range(2)]
    steps = []
    for known in range(2, 2 + draw(st.integers(1, 6))):
        kind = draw(st.sampled_from(["unary", "binary", "along", "indirect"]))
        table = {"unary": UNARY, "binary": BINARY, "along": ALONG, "indirect": INDIRECT}[kind]
        operands = [draw(st.integers(0, known - 1)) for _ in range(2)]
        steps.append((draw(st.sampled_from(sorted(table))), operands, draw(st.integers(0, 1))))
    return shape, inputs, steps, draw(st.integers(0, 1000))


def made(shape, dtype, layout, generator):
    """A tensor of small integers with random strides."""
    rows, columns = shape
    size = {"transposed": (columns, rows), "every second": (rows, 2 * columns), "one row": (1, columns)}.get(
        layout, shape
    )
    numbers = torch.randint(-4, 5, size, generator=generator).to(dtype)
    match layout:
        case "transposed":
            return numbers.t()
        case "every second":
            return numbers[:, ::2]
        case "one row":
            return numbers.expand(rows, columns)
        case "channels last":
            return numbers.t().contiguous().t()
    return numbers


def run_ways(program):
    """The program traced, lowered, scheduled, and run on every target; ``check`` compares the results with eager's."""
    shape, kinds, steps, seed = program
    generator = torch.Generator().manual_seed(seed)
    given_tensors = [made(shape, *kind, generator) for kind in kinds]
    rows = torch.randint(-shape[0], shape[0], (shape[0],), generator=generator)
    columns = torch.randint(0, shape[1], (shape[1],), generator=generator)

    def function(first, second, rows, columns):
        values = [first, second]
        for name, (one, two), dim in steps:
            if name in UNARY:
                value = UNARY[name](values[one])
            elif name in BINARY:
                value = BINARY[name](*torch.broadcast_tensors(*_alike(values[one], values[two])))
            elif name in ALONG:
                value = ALONG[name](values[one], dim)
            else:
                value = INDIRECT[name](values[one], rows % shape[0], columns)
            values.append(value.expand(shape))
        return [values[-1] + 0 if values[-1].dtype != torch.bool else ~values[-1], values[-2].clone()]

    check(function, *given_tensors, rows, columns, exact_strides=False)


def _alike(a, b):
    dtype = torch.promote_types(a.dtype, b.dtype)
    return a.to(dtype), b.to(dtype)


QUIET = [HealthCheck.too_slow, HealthCheck.data_too_large]


@settings(max_examples=8, suppress_health_check=QUIET)
@given(loop_programs())
def test_random_programs(program):
    """A few random programs with a fixed seed."""
    run_ways(program)


@pytest.mark.slow
@pytest.mark.timeout(3000)
@settings(max_examples=300, derandomize=False, suppress_health_check=QUIET)
@given(loop_programs())
def test_many_random_programs(program):
    """Many random programs with new seeds."""
    run_ways(program)


def test_a_read_of_the_only_row():
    """An index into a dimension of size 1 is checked, and loaded from memory like any other."""
    check(lambda x, rows: x[rows] + 1, torch.randn(1, 64), torch.tensor([0, -1, 0]))


def test_the_reduction_of_everything_among_constants():
    """In Triton a full reduction is a scalar, and a constant is a block of one element: a comparison has both."""
    for last in (1.0, float("nan")):
        x = torch.tensor([[3.0, -1.0, 2.0], [0.0, 4.0, last]])
        check(lambda x: [x.sum().clamp(-8, 8), (x.sum() > 3) & (x.amax() < 5)], x, must_be_triton=True)
