"""Split-K products: eager's values in the simulator, reproducible bits, chosen by the model."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")

import nbcompile
from nbcompile.gpu import product_parts
from nbcompile.gpu.chip import CHIPS
from nbcompile.gpu.product_times import Shape
from nbcompile.ir.kernel import ProductTile
from nbcompile.record.recorder import Recorder

pytestmark = pytest.mark.usefixtures("nothing_compiled")

OPTIONS = {"target": "sm_90", "max_autotune": True, "simulation_seconds": 300.0}
TILE = ProductTile(64, 64, 64, 4, 4)


def test_few_rows_and_columns_of_a_long_sum_are_two_kernels():
    """The model's best candidate is two kernels; the epilogue is in the second one; the record has all candidates."""
    torch.manual_seed(0)
    x, w, b = torch.randn(16, 5000).half() / 16, torch.randn(5000, 48).half(), torch.randn(48).half()

    def function(x, w, b):
        return F.gelu(torch.addmm(b, x, w))

    found = nbcompile.explain(function, options=OPTIONS)(x, w, b)
    torch.testing.assert_close(found.result, function(x, w, b), rtol=2e-2, atol=2e-2)
    product, rest = found.kernels
    assert "sum in" in product.autotuning.candidates[0].name
    assert "addmm" in [candidate.name for candidate in product.autotuning.candidates]
    assert "gelu" in rest.name
    number = int(product.autotuning.candidates[0].name.split("sum in ")[1].split()[0])
    # The partial results are stored and loaded once, in float32; there is no other traffic.
    partial = number * 16 * 48 * 4
    assert product.gpu.least == 2 * (16 * 5000 + 5000 * 48) + partial
    assert rest.gpu.least == partial + 2 * 48 + 2 * 16 * 48
    again = nbcompile.compile(function, options=OPTIONS)
    assert torch.equal(again(x, w, b), found.result)


def test_a_product_with_enough_tiles_is_whole():
    """A product with enough tiles, or with a short sum, is not split."""
    chip = CHIPS["sm_90"]
    assert not list(product_parts.counts(TILE, Shape(1, 4096, 4096, 4096, 2, "narrow"), chip))
    assert not list(product_parts.counts(TILE, Shape(1, 64, 64, 256, 2, "narrow"), chip))
    assert list(product_parts.counts(TILE, Shape(1, 64, 64, 4096, 2, "narrow"), chip)) == [2, 4, 8, 16]


def test_partial_results_count_as_traffic():
    """One kernel stores the partial results, and the other loads them: both count as traffic."""
    chip, shape = CHIPS["sm_90"], Shape(1, 2048, 2048, 1 << 15, 2, "narrow")
    times = [product_parts.sum_seconds(shape, chip, 0, number) for number in (2, 4)]
    assert times[1] - times[0] == pytest.approx(2 * 4 * 2048 * 2048 / (0.93 * chip.bytes_per_second), rel=0.1)


def test_the_rows_may_be_dynamic():
    """The sizes of the first call determine the number of parts, which other row counts use, too."""
    torch.manual_seed(0)
    w, recorder = torch.randn(4096, 16).half(), Recorder("f")
    with recorder.listening():
        compiled = nbcompile.compile(lambda x, w: torch.relu(x @ w), options=OPTIONS)
        for rows in (2, 16, 24):
            x = torch.randn(rows, 4096).half() / 16
            torch.testing.assert_close(compiled(x, w), torch.relu(x @ w), rtol=2e-2, atol=2e-2)
    static, dynamic = (frame.compiled_graph.kernels for frame in recorder.frames)
    static_names, names = ([each.name for each in kernels[0].autotuning.candidates] for kernels in (static, dynamic))
    assert "sum in" in names[0]
    assert len(dynamic) == 2
    assert names[0] == static_names[0]
