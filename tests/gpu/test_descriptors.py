"""Matrix products whose factors are loaded by tensor descriptors: eager's numbers in the simulator, and the candidates."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")

import nbcompile
from nbcompile.gpu import templates
from nbcompile.ir.kernel import ProductTile
from nbcompile.record.recorder import Recorder
from tests.gpu import products

pytestmark = pytest.mark.usefixtures("nothing_compiled")

OURS = {
    "target": "sm_90", "max_autotune_gemm": True, "max_autotune_gemm_backends": "TRITON", "simulation_seconds": 600.0,
}  # fmt: skip
TILE = ProductTile(64, 64, 32, 4, 3, descriptors=True)


def half(*size: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.randn(size).to(dtype)


def explained(function, *inputs, **how):
    found = nbcompile.explain(function, options=OURS, **how)(*inputs)
    torch.testing.assert_close(found.result, function(*inputs), **products.tolerance(inputs[0].dtype))
    return found


def columns_first(x: torch.Tensor) -> torch.Tensor:
    return x.transpose(-1, -2).contiguous().transpose(-1, -2)


PRODUCTS = {
    "mm": (lambda x, w: x @ w, half(70, 96), half(96, 72)),
    "float16": (lambda x, w: x @ w, half(64, 64, dtype=torch.float16), half(64, 64, dtype=torch.float16)),
    "bias and activation": (lambda x, w, b: F.gelu(torch.addmm(b, x, w)), half(70, 40), half(40, 72), half(72)),
    "the right factor turned": (lambda x, w: F.linear(x, w), half(70, 96), half(72, 96)),
    "both turned": (lambda x, w: torch.relu(x @ w), columns_first(half(72, 96)), columns_first(half(96, 72))),
    "a batch": (lambda x, w: torch.bmm(x, w) * 2, half(3, 70, 40), half(3, 40, 72)),
    "a batch, turned": (lambda x, w: torch.bmm(x, w), half(2, 70, 40), columns_first(half(2, 40, 72))),
    "three dimensions": (lambda x, w, b: F.silu(F.linear(x, w, b)), half(3, 30, 40), half(72, 40), half(72)),
    "a slice": (lambda x, w: x[:, 16:80] @ w, half(70, 96), half(64, 72)),
}


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("programs", [0, 2])
def test_a_product_by_descriptors(monkeypatch, name, programs):
    """Partial tiles, transposed factors, batches and epilogues work, with one tile per program or several."""
    torch.manual_seed(0)
    monkeypatch.setattr(templates, "TILES", (replace(TILE, programs=programs),))
    function, *inputs = PRODUCTS[name]
    (kernel,) = explained(function, *inputs).kernels
    assert "make_tensor_descriptor" in kernel.source
    assert kernel.gpu.spills == 0


@pytest.mark.prints_machine_code
def test_the_copy_engine_feeds_the_matrix_units(monkeypatch):
    """UTMALDG loads a tile in one instruction, and HGMMA reads it from shared memory."""
    monkeypatch.setattr(templates, "TILES", (TILE,))
    (kernel,) = explained(lambda x, w: torch.relu(x @ w), half(70, 96), half(96, 72)).kernels
    text = " ".join(text for line in kernel.gpu.lines for text in line.sass)
    assert "UTMALDG.2D" in text
    assert "HGMMA.64x64x16.F32.BF16" in text
    assert "LDGSTS" not in text


@pytest.mark.parametrize("programs", [0, 2])
def test_sizes_may_be_dynamic_where_strides_are_known(monkeypatch, programs):
    """The row count may be symbolic after a second one was seen."""
    monkeypatch.setattr(templates, "TILES", (replace(TILE, programs=programs),))
    w, recorder = half(96, 72), Recorder("f")
    with recorder.listening():
        compiled = nbcompile.compile(lambda x, w: torch.relu(x @ w), options=OURS)
        for rows in (70, 130, 5):
            x = half(rows, 96)
            torch.testing.assert_close(compiled(x, w), torch.relu(x @ w), **products.tolerance(x.dtype))
    (dynamic,) = recorder.frames[-1].compiled_graph.kernels
    assert len(recorder.frames) == 2
    assert "make_tensor_descriptor(p0, [(" in dynamic.source


@pytest.mark.parametrize(("function", "inputs"), [
    (lambda x, w: torch.relu(x) @ w, (half(64, 64), half(64, 64))),
    (lambda x, w: x @ w, (half(64, 67), half(67, 64))),
    (lambda x, w: x[:, 1:33] @ w, (half(64, 64), half(32, 64))),
    (lambda x, w: x @ w, (half(64, 1).expand(64, 64), half(64, 64))),
    (lambda x, w: x[:, ::2] @ w, (half(64, 128), half(64, 64))),
    (lambda x, w: x @ w, (torch.randn(64, 64), torch.randn(64, 64))),
], ids=["computed", "odd rows", "an odd start", "expanded", "every second column", "float32"])  # fmt: skip
def test_other_factors_are_loaded_by_the_threads(function, inputs):
    """A computed factor, or one with unsupported strides, has no candidate with descriptors."""
    found = explained(function, *inputs)
    (tuned,) = (kernel.autotuning for kernel in found.kernels if kernel.autotuning is not None)
    assert not any("TMA" in candidate.name for candidate in tuned.candidates)


@pytest.mark.parametrize(("target", "is_there"), [("sm_80", False), ("sm_90", True)])
def test_descriptors_are_candidates_from_sm_90_on(target, is_there):
    """From sm_90 on descriptors are candidates, with one tile per program and as persistent kernels."""
    found = nbcompile.explain(torch.mm, options={**OURS, "target": target})(half(128, 128), half(128, 128))
    (tuned,) = (kernel.autotuning for kernel in found.kernels if kernel.autotuning is not None)
    assert any("TMA" in candidate.name for candidate in tuned.candidates) == is_there
