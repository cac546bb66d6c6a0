"""Hints of symbolic sizes: the choice with symbolic sizes is that for constants of the same values."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from nbcompile import torch_internals
from nbcompile.gpu.chip import CHIPS
from nbcompile.gpu.size_hints import SizeHints, size_hints, symbol_hints
from nbcompile.gpu.templates import Autotuner, Choice
from nbcompile.ir.index import index
from nbcompile.ir.layout import SIZE_HINT
from nbcompile.lowering import lower
from nbcompile.scheduling import schedule
from tests.support.lowered import traced

GPU = torch.device("cuda", 0)


def choice(function, *inputs: torch.Tensor, dynamic: bool, chip: str = "sm_90") -> Choice:
    """The choice for the only product of a function."""
    return of_graph(traced(function, *inputs, dynamic=dynamic), inputs, dynamic=dynamic, chip=chip)


def of_graph(graph, inputs, *, dynamic: bool, chip: str = "sm_90") -> Choice:
    """The choice for the only product of a graph."""
    tuner, fallbacks = Autotuner(CHIPS[chip], ("ATEN", "TRITON"), hints=size_hints(graph)), {}
    while True:
        program = lower(graph, True, False, GPU, fallbacks, tuner.parts)
        assert bool(program.symbols) == dynamic
        if tuner.apply(schedule(program), fallbacks) is not None:
            (found,) = tuner.choices.values()
            return found


def half(*size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.bfloat16)


PRODUCTS = {
    "mm": (torch.mm, lambda m, n, k: (half(m, k), half(k, n))),
    "addmm": (torch.addmm, lambda m, n, k: (half(n), half(m, k), half(k, n))),
    "bmm": (torch.bmm, lambda m, n, k: (half(3, m, k), half(3, k, n))),
    "baddbmm": (torch.baddbmm, lambda m, n, k: (half(3, m, n), half(3, m, k), half(3, k, n))),
    "epilogue": (lambda x, w, r: F.gelu(x @ w) + r, lambda m, n, k: (half(m, k), half(k, n), half(m, n))),
    "prologue": (lambda x, w: torch.relu(x) @ w, lambda m, n, k: (half(m, k), half(k, n))),
    "linear": (lambda x, w: F.silu(F.linear(x, w)), lambda m, n, k: (half(5, m, k), half(n, k))),
    "half of the rows": (lambda x, w: x[: x.shape[0] // 2] @ w, lambda m, n, k: (half(2 * m, k), half(k, n))),
}
SIZES = {"small": (34, 50, 72), "wide": (18, 4104, 136), "large": (4104, 2056, 520)}


@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize(("function", "make"), PRODUCTS.values(), ids=PRODUCTS)
def test_dynamic_sizes_choose_as_the_sizes_of_the_call_do(function, make, sizes):
    """The choice between ATen and a kernel, the order of tiles, and predicted times do not depend on dynamism."""
    inputs = make(*sizes)
    dynamic, static = (choice(function, *inputs, dynamic=how) for how in (True, False))
    # With strides as arguments, descriptors and split sums are no candidates.
    names = [each.label for each in dynamic.candidates]
    common = {each.label: each.seconds for each in static.candidates if each.label in names}
    assert {each.label: each.seconds for each in dynamic.candidates} == pytest.approx(common)
    assert names == list(common)
    assert (dynamic.shape.rows, dynamic.shape.columns) == (static.shape.rows, static.shape.columns)


@pytest.mark.parametrize("chip", ["sm_80", "sm_90"])
@pytest.mark.parametrize(
    ("sizes", "kind"), [((4104, 2048, 512), "programs"), ((4104, 2048, 512), "TMA"), ((34, 32, 8192), "sum in")]
)
def test_dynamic_rows_have_all_candidates(chip, sizes, kind):
    """With symbolic rows, persistent kernels, descriptors and split sums are candidates in the same order."""
    rows, columns, depth = sizes
    inputs = half(rows, depth), half(depth, columns)
    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        context = StatelessSymbolicContext([DimDynamic.DYNAMIC, DimDynamic.STATIC])
        fakes = mode.from_tensor(inputs[0], symbolic_context=context), mode.from_tensor(inputs[1], static_shapes=True)
        graph = make_fx(lambda x, w: torch.relu(x @ w))(*fakes)
    dynamic = of_graph(graph, inputs, dynamic=True, chip=chip)
    static = choice(lambda x, w: torch.relu(x @ w), *inputs, dynamic=False, chip=chip)
    labels = [each.label for each in dynamic.candidates]
    assert labels == [each.label for each in static.candidates]
    assert any(kind in label for label in labels) == (chip == "sm_90" or kind != "TMA")


def test_each_symbol_of_a_size_has_its_number():
    """The kernel for ``s0 // 2`` has the argument ``s0``, whose hint is known, although it is no size itself."""
    shape_env = ShapeEnv()
    rows = torch_internals.symbolic_int(shape_env, 100, "rows")
    with FakeTensorMode(shape_env=shape_env):
        value = torch.empty(rows // 2, 8)
    (symbol,) = rows.node.expr.free_symbols
    assert symbol_hints([value, 3]) == symbol_hints([rows // 2]) == {symbol.name: 100}
    hints = SizeHints(symbol_hints([value]))
    assert hints.number(index(value.shape[0])) == 50
    assert hints.of([symbol.name]) == {symbol.name: 100}


def test_a_size_that_no_call_has_is_the_default():
    """An unbacked symbolic size has the default hint."""
    size = ShapeEnv().create_unbacked_symint()
    assert symbol_hints([size]) == {}
    assert SizeHints(symbol_hints([size])).number(index(2 * size)) == 2 * SIZE_HINT
