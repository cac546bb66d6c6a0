"""Triton kernels in the tracer: decorators, ``wrap_triton``, ``triton_op``, and their errors."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")

import nbcompile
from nbcompile import errors
from tests.gpu.kernels import (
    ON_A_GPU,
    X,
    explained,
    heuristic,
    hooked,
    launched,
    outer_heuristic,
    pruned,
    scale,
    shift,
    tripled,
    tuned,
    tuned_heuristic,
)


@pytest.mark.parametrize(
    ("kernel", "more", "how", "factor"),
    [
        (scale, (3.0,), {"BLOCK": 64, "num_warps": 2}, 3),
        (tuned, (3.0,), {}, 3),
        (heuristic, (3.0,), {}, 3),
        (outer_heuristic, (), {}, 3),
        (torch.library.wrap_triton, (3.0,), {"BLOCK": 64}, 3),
    ],
    ids=["options", "autotune", "heuristics", "heuristics around autotune", "wrap_triton"],
)
def test_decorators(kernel, more, how, factor):
    """Autotuning uses the configuration with the least predicted time; heuristics are traced."""
    chosen = (lambda x: launched(kernel(scale), x, *more, **how)) if kernel is torch.library.wrap_triton else None
    found = explained(chosen or (lambda x: launched(kernel, x, *more, **how)), X)
    assert torch.equal(found.result, X * factor)


@pytest.mark.parametrize(
    ("kernel", "more", "reason"),
    [
        (hooked, (3.0,), "pre_hook"),
        (pruned, (3.0,), "prune_configs_by"),
        (tuned_heuristic, (), "compute their values for each configuration"),
    ],
    ids=["hook", "pruning", "heuristics below autotune"],
)
def test_what_is_rejected_has_a_reason(kernel, more, reason):
    """The graph breaks, and the error has a reason."""
    with pytest.raises(errors.Unsupported, match=reason):
        explained(lambda x: launched(kernel, x, *more), X).result


def test_another_kernel_compiles_again(monkeypatch):
    """The kernel that a global refers to is guarded."""
    compiled = nbcompile.compile(lambda x: launched(scale, x, 3.0, BLOCK=128), options=ON_A_GPU)
    assert torch.equal(compiled(X), X * 3)
    monkeypatch.setitem(globals(), "scale", shift)
    assert torch.equal(compiled(X), X + 3)


def test_a_triton_op_is_looked_into():
    """A ``triton_op`` without gradients is traced, together with the operators around its kernel."""
    found = explained(lambda x: tripled(x) + 1, X)
    assert torch.equal(found.result, X * 3 + 1)
    assert "scale" in [kernel.name for kernel in found.kernels]


def test_without_a_target_it_is_as_in_eager_mode():
    """The error of Triton says that there is no GPU, as in eager mode."""

    def error(function):
        with pytest.raises(RuntimeError) as raised:
            function(X)
        return str(raised.value)

    def function(x):
        return launched(scale, x, 3.0, BLOCK=128)

    if torch.cuda.is_available():
        pytest.skip("Triton finds a GPU here")
    assert error(nbcompile.compile(function)) == error(function)
