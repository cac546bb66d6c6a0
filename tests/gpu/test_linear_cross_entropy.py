"""Linear layer and cross entropy as a GPU kernel: eager mode's loss and gradients, in the simulator."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")

import torch.nn.functional as F

import nbcompile
from nbcompile.aot import linear_cross_entropy

OPTIONS = {"target": "sm_90", "simulation_seconds": 300.0}
NAME = "triton_linear_cross_entropy"


@pytest.fixture(autouse=True)
def of_any_size(monkeypatch):
    """The pattern is replaced at any size, without cached sizes of other tests."""
    monkeypatch.setattr(linear_cross_entropy, "LEAST_BYTES", 0)
    nbcompile.reset()


def tensors(dtype=torch.float32, rows=40, depth=48, classes=300, bias=True):
    torch.manual_seed(0)
    x, weight = torch.randn(rows, depth), torch.randn(classes, depth) * 0.2
    target = torch.randint(0, classes, (rows,))
    target[3] = target[7] = -100
    given = [value.to(dtype).requires_grad_() for value in (x, weight, *([torch.randn(classes)] if bias else []))]
    return given, target


def trained(function, inputs, target):
    """The loss, and its gradients."""
    loss = function(target, *inputs)
    return [loss, *torch.autograd.grad(loss.float().sin().sum(), inputs)]


@pytest.mark.parametrize(("how", "sizes"), [
    ({}, {}), ({"reduction": "sum"}, {"bias": False}), ({"reduction": "none", "label_smoothing": 0.2}, {"rows": 70}),
    ({"label_smoothing": 0.1, "ignore_index": 5}, {"dtype": torch.bfloat16}), ({}, {"dtype": torch.float16, "rows": 5 + 4}),
], ids=str)  # fmt: skip
def test_the_loss_and_its_gradients(how, sizes):
    """Each reduction, label smoothing, ignored targets, dtypes, and partial tiles give eager's loss and gradients."""
    inputs, target = tensors(**sizes)
    if "ignore_index" in how:
        target[target == -100] = how["ignore_index"]

    def function(target, x, weight, bias=None):
        return F.cross_entropy(F.linear(x, weight, bias), target, **how)

    expected = trained(function, inputs, target)
    exact = trained(function, [value.detach().double().requires_grad_() for value in inputs], target)
    found = trained(nbcompile.compile(function, options=OPTIONS, fullgraph=True), inputs, target)
    for mine, theirs, true in zip(found, expected, exact, strict=True):
        assert (mine.dtype, mine.shape) == (theirs.dtype, theirs.shape)
        if inputs[0].dtype == torch.float32:
            torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
        else:  # both are rounded at different points: their errors are compared
            assert (mine - true).abs().max() <= 1.5 * (theirs - true).abs().max() + 1e-3


def test_no_logits_are_in_memory():
    """The kernel moves fewer bytes than the logits have; several programs share the classes of few rows."""
    (x, weight), target = tensors(rows=16, depth=16, classes=4096, bias=False)
    with torch.no_grad():
        found = nbcompile.explain(lambda x, w, t: F.cross_entropy(F.linear(x, w), t), options=OPTIONS)(
            x, weight, target
        )
        torch.testing.assert_close(found.result, F.cross_entropy(F.linear(x, weight), target), rtol=1e-5, atol=1e-5)
    (kernel,) = (kernel for kernel in found.kernels if kernel.name == NAME)
    assert kernel.gpu.least < 4 * (16 * 16 + 4096 * 16) + 16 * 8 + 4 * 4 * 16 * 132
    assert kernel.gpu.spills == 0
    assert not any("mm" in kernel.name for kernel in found.kernels)


def test_rows_in_several_dimensions():
    """Batch and time of a language model are one dimension of the loss."""
    (x, weight), target = tensors(bias=False)

    def function(x, weight, target):
        logits = F.linear(x, weight)
        return F.cross_entropy(logits.view(-1, logits.size(-1)), target)

    x = x.detach().view(4, 10, 48)
    found = nbcompile.explain(function, options=OPTIONS)(x, weight.detach(), target)
    torch.testing.assert_close(found.result, function(x, weight, target), rtol=1e-5, atol=1e-5)
    assert NAME in [kernel.name for kernel in found.kernels]


def test_infinite_and_unknown_numbers_spread():
    """NaN and infinity in a row propagate as in eager mode."""
    (x, weight), target = tensors(bias=False)
    x.data[5, 2], x.data[6, 1] = float("nan"), float("inf")

    def function(x, weight, target):
        return F.cross_entropy(F.linear(x, weight), target, reduction="none")

    with torch.no_grad():
        found = nbcompile.compile(function, options=OPTIONS)(x, weight, target)
        torch.testing.assert_close(found, function(x, weight, target), rtol=1e-5, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("wrong", [-1, 300])
def test_a_target_that_is_no_class_is_an_error(wrong):
    """A target out of range is an error, as in eager mode, but an ignored target is not."""
    (x, weight), target = tensors(bias=False, rows=20)
    target[5] = wrong

    def function(x, weight, target, ignored):
        return F.cross_entropy(F.linear(x, weight), target, ignore_index=ignored)

    compiled = nbcompile.compile(function, options=OPTIONS)
    with torch.no_grad():
        target[target == -100] = 0
        torch.testing.assert_close(compiled(x, weight, target, wrong), function(x, weight, target, wrong))
        for run in (function, compiled):
            with pytest.raises((IndexError, RuntimeError), match="out of"):
                run(x, weight, target, -100)


def loss_of_several(x, weight, bias, target):
    """The loss of a batch of sequences."""
    logits = F.linear(x, weight, bias)
    return F.cross_entropy(logits.view(-1, logits.size(-1)), target, label_smoothing=0.1)


def batch(rows, depth, classes, dtype=torch.float32):
    torch.manual_seed(rows)
    x, weight, bias = torch.randn(2, rows, depth), torch.randn(classes, depth) * 0.2, torch.randn(classes)
    target = torch.randint(0, classes, (2 * rows,))
    target[1] = -100
    return [value.to(dtype).requires_grad_() for value in (x, weight, bias)], target


@pytest.mark.usefixtures("nothing_compiled")
def test_one_kernel_has_all_sizes():
    """Rows, depth and classes may be symbolic: loss and gradients are eager's, without a recompile."""

    def trained(function, inputs, target):
        loss = function(*inputs, target)
        return [loss, *torch.autograd.grad(loss, inputs)]

    compiled = nbcompile.compile(loss_of_several, options=OPTIONS, dynamic=True, fullgraph=True)
    inputs, target = batch(20, 24, 100)
    found = nbcompile.explain(loss_of_several, options=OPTIONS, dynamic=True)(*inputs, target)
    assert f"forward.{NAME}" in [kernel.name for kernel in found.kernels]
    trained(compiled, inputs, target)
    # More rows than one tile, fewer classes than programs that share them, and more of all.
    for sizes in ((20, 24, 100), (33, 40, 70), (3, 16, 33), (70, 17, 600)):
        inputs, target = batch(*sizes)
        with nbcompile.set_stance("fail_on_recompile"):
            mine = trained(compiled, inputs, target)
        for one, other in zip(mine, trained(loss_of_several, inputs, target), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.filterwarnings("error")
@pytest.mark.usefixtures("nothing_compiled")
def test_a_size_that_is_computed_and_rows_that_are_none():
    """Computed sizes and strided inputs work, and a call without rows launches no kernel."""

    def function(x, weight, target):
        return F.cross_entropy(F.linear(x[2:, ::2], weight[:, ::2]), target[2:], reduction="sum")

    compiled = nbcompile.compile(function, options=OPTIONS, dynamic=True)
    for rows, classes in ((40, 90), (9, 300), (2, 50)):
        (x, weight), target = tensors(rows=max(rows, 8), classes=classes, bias=False)
        given = x.detach()[:rows], weight.detach(), target[:rows].clone()
        torch.testing.assert_close(compiled(*given), function(*given), rtol=1e-5, atol=1e-4)
    found = nbcompile.explain(function, options=OPTIONS, dynamic=True)(
        *(value.detach() for value in tensors(bias=False)[0]), tensors()[1]
    )
    assert NAME in [kernel.name for kernel in found.kernels]


@pytest.mark.usefixtures("nothing_compiled")
def test_the_least_of_logits_is_no_guard(monkeypatch):
    """The first call's sizes decide whether logits are saved: other sizes do not recompile."""
    monkeypatch.setattr(linear_cross_entropy, "LEAST_BYTES", 4 * 40 * 100)
    compiled = nbcompile.compile(loss_of_several, options=OPTIONS, dynamic=True)
    with torch.no_grad():
        inputs, target = batch(20, 24, 100)
        compiled(*inputs, target)
        inputs, target = batch(7, 24, 100)
        with nbcompile.set_stance("fail_on_recompile"):
            torch.testing.assert_close(compiled(*inputs, target), loss_of_several(*inputs, target))
