"""Products with tensor descriptors on the stand-in driver: scratch memory, pointers of any alignment, recordings."""

from __future__ import annotations

import pytest
import torch

import nbcompile
from nbcompile.gpu import templates
from nbcompile.ir.kernel import ProductTile
from nbcompile.runtime import gpu_launcher

OURS = {"max_autotune": True, "max_autotune_gemm_backends": "TRITON"}
TILE = ProductTile(64, 64, 32, 4, 3, programs=2, descriptors=True)


@pytest.fixture(autouse=True)
def described(monkeypatch):
    """Descriptors are the only candidate, without a measurement."""
    monkeypatch.setattr(templates, "TILES", (TILE,))


def inputs(rows: int = 70):
    torch.manual_seed(0)
    return torch.randn(rows, 96, device="cuda").bfloat16(), torch.randn(96, 72, device="cuda").bfloat16()


def function(x, w):
    return torch.relu(x @ w)


def same(found, expected) -> None:
    torch.testing.assert_close(found.cpu(), expected.cpu(), rtol=2e-2, atol=5e-2)


def launches(here) -> list[str]:
    return [line.split()[1] for line in here.driver.log() if line.startswith("launch ")]


def test_the_launcher_gives_memory_for_descriptors(here):
    """The launcher allocates 128 bytes for each of two descriptors and two programs, from torch's allocator."""
    x, w = inputs()
    found = nbcompile.explain(function, options=OURS)(x, w)
    same(found.result, function(x, w))
    (kernel,) = found.kernels
    assert "make_tensor_descriptor" in kernel.source
    compiled = nbcompile.compile(function, options=OURS)
    compiled(x, w)
    here.driver.clear_log()
    same(compiled(x, w), function(x, w))
    assert launches(here).count("triton_mm_relu_0") == 1
    assert here.executor.reasons == []


def test_a_pointer_of_another_alignment_gets_code_without_descriptors(here):
    """Descriptors need multiples of 16 bytes; for other pointers there is code without descriptors."""
    x, w = inputs()
    compiled = nbcompile.compile(function, options=OURS)
    same(compiled(x, w), function(x, w))
    moved = torch.empty(x.numel() + 1, dtype=x.dtype, device="cuda")[1:].view(x.shape)
    moved.copy_(x)
    same(compiled(moved, w), function(x, w))
    assert here.executor.reasons == []


def test_a_recorded_graph_has_its_own_memory_for_descriptors(here):
    """The recording's pool has the scratch memory; a replay builds the descriptors again from the copied inputs."""
    compiled = nbcompile.compile(function, options={**OURS, "triton.cudagraphs": True})
    for seed in range(5):
        torch.manual_seed(seed)
        x, w = inputs()
        x = x * (seed + 1)
        same(compiled(x, w), function(x, w))
    here.driver.clear_log()
    x, w = inputs()
    same(compiled(x, w), function(x, w))
    assert any(line.startswith("replay") for line in here.driver.log())
    assert here.executor.reasons == []


def test_missing_scratch_memory_is_torch_s_own_error(here):
    """If scratch memory cannot be allocated, torch's error is raised and nothing is launched; the next call runs."""
    x, w = inputs()
    out = torch.empty(70, 72, device="cuda", dtype=x.dtype)

    def into(x, w, out):
        out.copy_(function(x, w))

    compiled = nbcompile.compile(into, options=OURS)
    compiled(x, w, out)
    expected = out.clone()
    out.zero_()
    here.driver.set_capacity(0)
    with pytest.raises(torch.OutOfMemoryError):
        compiled(x, w, out)
    here.driver.set_capacity()
    compiled(x, w, out)
    same(out, expected)


def test_scratch_memory_is_freed_and_tried_for_once(here):
    """If scratch memory cannot be allocated, unused memory is freed, and the launch goes on."""
    x, w = inputs()
    compiled = nbcompile.compile(function, options=OURS)
    size = compiled(x, w).nbytes
    calls = []

    def freeing():
        calls.append("freed")
        here.driver.set_capacity()

    gpu_launcher.memory_holders.append(freeing)
    try:
        here.driver.set_capacity(here.driver.allocated() + size)  # enough for the result only
        same(compiled(x, w), function(x, w))
    finally:
        gpu_launcher.memory_holders.pop()
        here.driver.set_capacity()
    assert calls == ["freed"]
