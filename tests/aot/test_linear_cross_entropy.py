"""Recognition of a linear layer whose only use is a cross entropy."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import nbcompile
from nbcompile.aot import linear_cross_entropy
from nbcompile.aot.linear_cross_entropy import fuse_linear_cross_entropy


def _written(x, w, t):
    logits = F.linear(x, w)
    x.add_(1)
    return F.cross_entropy(logits, t) + x.sum()


def _elements_set(x, w, t):
    logits = F.linear(x, w).view(-1, 8)
    w[0] = 3
    return F.cross_entropy(logits, t)


def _without_gradient(x, w, t):
    with torch.no_grad():
        logits = F.linear(x, w)
    return F.cross_entropy(logits, t)


def _autocast(x, w, t):
    x, w = x.bfloat16(), w.bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        return F.cross_entropy(F.linear(x, w), t)


X, W, T = torch.randn(6, 4), torch.randn(8, 4), torch.tensor([0, 7, 3, -100, 1, 2])


def captured(function, *inputs):
    """The graph of a function, after the pass, and its notes."""
    kept = []

    def backend(module, examples):
        kept.append((module, fuse_linear_cross_entropy(module, is_target=True)))
        return module.forward

    nbcompile.reset()
    result = nbcompile.compile(function, backend=backend, fullgraph=True, dynamic=False)(*map(torch.clone, inputs))
    torch.testing.assert_close(result, function(*map(torch.clone, inputs)))
    return kept[0]


@pytest.fixture
def of_any_size(monkeypatch):
    """The pattern is replaced at any size."""
    monkeypatch.setattr(linear_cross_entropy, "LEAST_BYTES", 0)


@pytest.mark.usefixtures("of_any_size")
def test_the_pattern_is_one_operator():
    """One operator computes the loss, and the linear layer is gone."""
    module, (note,) = captured(lambda x, w, t: F.cross_entropy(F.linear(x, w), t), X, W, T)
    assert "not held" in note
    assert not module.graph.find_nodes(op="call_function", target=F.linear)
    captured(lambda x, w, t: F.cross_entropy(F.linear(bias=x.sum() + w[:, 0], weight=w, input=x), t), X, W, T)


@pytest.mark.usefixtures("of_any_size")
@pytest.mark.parametrize(("function", "reason"), [
    (lambda x, w, t: F.cross_entropy(logits := F.linear(x, w), t) + logits.sum(), "something else reads them"),
    (lambda x, w, t: F.cross_entropy(F.linear(x, w), t, torch.ones(8)), "classes have weights"),
    (lambda x, w, t: F.cross_entropy(F.linear(x, w), F.one_hot(t.clamp(0), 8).float()), "probabilities"),
    (lambda x, w, t: F.cross_entropy(F.linear(x, w), t, reduce=True), "long ago"),
    (lambda x, w, t: F.cross_entropy(F.linear(x, w, x.sum()), t), "one number for each class"),
    (lambda x, w, t: F.cross_entropy(F.linear(x, w, x[:1, 0]), t), "one number for each class"),
    (lambda x, w, t: F.cross_entropy(F.linear(x, w, (x @ w.T).exp()), t), "one number for each class"),
    (lambda x, w, t: F.cross_entropy(F.linear(x.expand(8, 6, 4).mT.mT.permute(1, 0, 2), w[0]), t), "no matrix"),
    (lambda x, w, t: torch.func.grad(lambda x: F.cross_entropy(F.linear(x, w), t))(x), "torch.func"),
    (lambda x, w, t: torch.func.jvp(lambda x: F.cross_entropy(F.linear(x, w), t), (x,), (x,))[1], "torch.func"),
    (_written, "changes a tensor or a mode"), (_elements_set, "changes a tensor or a mode"),
    (_without_gradient, "changes a tensor or a mode"), (_autocast, "another type"),
])  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_what_is_kept_has_a_reason(function, reason):
    """A linear layer that is not fused has its reason in the record."""
    _, (note,) = captured(function, X, W, T)
    assert reason in note


def test_few_logits_are_held():
    """A linear layer with few logits is not fused: saving logits is cheap, and the backward would recompute them."""
    _, notes = captured(lambda x, w, t: F.cross_entropy(F.linear(x, w), t), X, W, T)
    assert notes == ()
