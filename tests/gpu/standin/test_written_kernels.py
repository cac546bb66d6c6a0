"""Kernels that were written for a node, in the store: a later process launches them as it does generated kernels."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import nbcompile
from nbcompile import api, config
from nbcompile.aot import linear_cross_entropy
from nbcompile.fast.disk_cache import writer
from nbcompile.gpu import cubins
from tests.lowering.attention_functions import causal, soft_cap

PRODUCTS = {"max_autotune_gemm": True, "max_autotune_gemm_backends": "TRITON"}


def attention(query, mask):
    """A flex attention with a score function and a block mask."""
    return flex_attention(query, query, query, score_mod=soft_cap, block_mask=mask).float().square().sum()


def grouped(x, w, offsets):
    """A grouped product with an epilogue."""
    return torch.relu(torch._grouped_mm(x, w, offsets)) * 2


def loss(x, w, target):
    """A linear layer and its cross entropy."""
    return F.cross_entropy(F.linear(x, w), target)


def given(name):
    """New arguments for each call."""
    torch.manual_seed(0)
    if name == "attention":
        query = torch.randn(1, 2, 64, 16).half().to("cuda").requires_grad_()
        return query, create_block_mask(causal, None, None, 64, 64, device="cuda", BLOCK_SIZE=64)
    if name == "grouped":
        x, w = torch.randn(48, 32).bfloat16().to("cuda"), torch.randn(3, 32, 16).bfloat16().to("cuda")
        return x, w, torch.tensor([8, 24, 48], dtype=torch.int32).to("cuda")
    x, w = torch.randn(40, 32).to("cuda").requires_grad_(), torch.randn(100, 32).to("cuda").requires_grad_()
    return x, w, torch.randint(0, 100, (40,)).to("cuda")


def run(function, here, **options):
    """Results and gradients as in a new process with the same store, the record, and the launches."""
    nbcompile.reset()
    here.driver.clear_log()
    arguments = given(function.__name__)
    recorder = api.new_recorder(function.__name__)
    with recorder.listening():
        result = nbcompile.compile(function, **options)(*arguments)
    learned = [value for value in arguments if isinstance(value, torch.Tensor) and value.requires_grad]
    found = [result.detach(), *(torch.autograd.grad(result, learned) if learned else ())]
    writer.flush()
    launches = [line.split()[1] for line in here.driver.log() if line.startswith("launch ")]
    # The stand-in driver runs Python during measurements: these frames are not the program's.
    frames = [frame for frame in recorder.record().frames if frame.file == __file__]
    return [value.cpu() for value in found], frames, launches


@pytest.mark.fast_path
@pytest.mark.parametrize(
    ("function", "options", "kernels"),
    [
        (attention, {}, {"triton_flex_attention", "triton_flex_attention_of_query", "triton_flex_attention_of_keys"}),
        (grouped, {"options": PRODUCTS}, {"triton_grouped_mm"}),
        (loss, {}, {"triton_linear_cross_entropy"}),
    ],
)
def test_a_later_process_launches_it(function, options, kernels, here, tmp_path, monkeypatch):
    """The later process traces, lowers and compiles nothing; results, gradients and launches are the same."""
    monkeypatch.setenv("NBCOMPILE_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("NBCOMPILE_FRAMES_DIR", raising=False)
    monkeypatch.setattr(linear_cross_entropy, "LEAST_BYTES", 0)
    with config.patch(warm_start=True):
        first, frames, launches = run(function, here, **options)
        assert not any("not kept" in frame.store for frame in frames), [frame.store for frame in frames]
        assert kernels <= set(launches)
        monkeypatch.setattr(cubins._workers, "compile", lambda requests: pytest.fail("compiled again"))
        second, frames, again = run(function, here, **options)
    assert frames
    assert [frame.cause for frame in frames if not frame.cause.startswith("loaded")] == []
    assert again == launches[-len(again) :]  # the first process measures candidates before
    assert all(torch.equal(one, other) for one, other in zip(first, second, strict=True))
    assert here.executor.reasons == []
