"""Operators that check values in eager mode, and whose ATen operators do not: the compiled graph checks them, too."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import nbcompile

NAN = float("nan")


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(
    ("value", "target"), [(2.0, 1.0), (-0.1, 0.0), (NAN, 0.0), (0.5, 2.0), (0.5, -1.0), (0.5, NAN)]
)
def test_probabilities_and_targets_are_from_0_to_1(value, target, reduction):
    """binary_cross_entropy of a value outside [0, 1] is an error in both modes, also if only one element is outside."""
    inputs = torch.full((40,), 0.5), torch.full((40,), 0.5)
    inputs[0][7], inputs[1][7] = value, target

    def f(x, y):
        return F.binary_cross_entropy(x, y, reduction=reduction)

    for function in (f, nbcompile.compile(f)):
        with pytest.raises((RuntimeError, IndexError)):
            function(*inputs)


def test_the_check_changes_no_value_and_no_gradient():
    """Losses and gradients of probabilities equal eager mode's, at both ends of the range and for -0.0, too."""
    values = torch.tensor([0.0, -0.0, 1.0, 0.25, 0.75, 0.5])
    targets, weight = torch.tensor([0.0, 1.0, 1.0, 0.0, 0.3, -0.0]), torch.rand(6)

    def f(x, y, w):
        return F.binary_cross_entropy(x, y, w, reduction="none")

    found = []
    for function in (f, nbcompile.compile(f)):
        x = values.clone().requires_grad_()
        loss = function(x, targets, weight)
        loss.sum().backward()
        found.append((loss.detach(), x.grad))
    torch.testing.assert_close(found[1], found[0])


def as_a_factor(x, ids):
    return F.one_hot(ids, 3) * x


def unused(x, ids):
    F.one_hot(ids, 3)
    return x + 1


def shape_alone(x, ids):
    return x * x.new_ones(torch.ops.aten.one_hot(ids, 3).shape)


def outcome(function, ids, requires_grad):
    """Values and gradient, or the class and text of the error."""
    x = torch.ones(3, requires_grad=requires_grad)
    try:
        result = function(x, ids)
        if requires_grad:
            result.sum().backward()
    except Exception as error:
        return type(error), str(error)
    return result.tolist(), x.grad if x.grad is None else x.grad.tolist()


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("function", [as_a_factor, unused, shape_alone])
def test_an_id_that_is_no_class_is_eagers_error(function, requires_grad):
    """one_hot of a class that is too large or negative is an error, also if its result, or its value, is unused."""
    compiled = nbcompile.compile(function)
    for ids in ([0, 1, 2], [0, 9, 1], [-1, 0, 0]):
        given = torch.tensor(ids)
        assert outcome(compiled, given, requires_grad) == outcome(function, given, requires_grad)


def test_no_class_at_all():
    """Any class is rejected where there are 0 classes."""
    with pytest.raises(RuntimeError, match="Class values must be smaller than num_classes"):
        nbcompile.compile(lambda ids: F.one_hot(ids, 0))(torch.tensor([0]))


WINDOW = torch.hann_window(12)
SIGNALS = {
    "by a function": lambda s, w: torch.istft(s, 16, 4, window=w, win_length=12, length=40),
    "by a method": lambda s, w: s.istft(16, 4, 12, w),
    "by ATen": lambda s, w: torch.ops.aten.istft(s, 16, 4, 12, w),
    "not centred": lambda s, w: torch.istft(s, 16, 4, 16, F.pad(w, (2, 2)) + 0.5, center=False, normalized=True),
    "without a window": lambda s, w: torch.istft(s, 16) * w.sum(),
    "complex": lambda s, w: (
        torch.istft(torch.cat([s, s[..., 1:8, :]], -2), 16, 4, 12, w + 0j, onesided=False, return_complex=True).real
    ),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("call", SIGNALS.values(), ids=SIGNALS)
@pytest.mark.usefixtures("nothing_compiled")
def test_an_inverse_fourier_transform_of_frames_is_one_graph(call, dynamic):
    """Signal and gradients of istft are eager mode's, though C++ reads the sums of the windows to check them."""
    torch.manual_seed(0)
    spectrum = torch.stft(torch.randn(2, 64), 16, 4, 12, WINDOW, return_complex=True)
    found = []
    for function in (call, nbcompile.compile(call, fullgraph=True, dynamic=dynamic)):
        values, weights = spectrum.clone().requires_grad_(), WINDOW.clone().requires_grad_()
        signal = function(values, weights)
        signal.square().sum().backward()
        found.append((signal.detach(), values.grad, weights.grad))
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.usefixtures("nothing_compiled")
def test_windows_that_leave_a_part_uncovered_are_an_error(requires_grad, dynamic):
    """An istft by windows of zeros raises as in eager mode, also if the graph ran before, or its result is unused."""

    def unused(s, w):
        s.istft(16, 4, window=w)
        return s + 1

    spectrum = torch.stft(torch.randn(64), 16, 4, window=torch.ones(16), return_complex=True)
    spectrum.requires_grad_(requires_grad)
    for call in (lambda s, w: torch.istft(s, 16, 4, window=w, length=40), unused):
        compiled = nbcompile.compile(call, dynamic=dynamic)
        compiled(spectrum, torch.ones(16))
        for function in (call, compiled):
            with pytest.raises(RuntimeError, match="window overlap add min: 1"):
                function(spectrum, torch.zeros(16))


MAPPED = {
    "ids": (lambda ids: F.one_hot(ids, 3), torch.tensor([[0, 1], [2, 7]])),  # eager mode checks no batch of ids
    "ids of two levels": (torch.vmap(lambda ids: F.one_hot(ids, 3)), torch.tensor([[[0, 1]], [[2, 0]]])),
    "windows": (lambda w: torch.istft(torch.ones(9, 17) + 0j, 16, 4, window=w), torch.rand(2, 16) + 0.1),
    "spectra": (lambda s: torch.istft(s + 0j, 16, 4, window=torch.ones(16)), torch.ones(2, 9, 17)),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(("call", "batch"), MAPPED.values(), ids=MAPPED)
@pytest.mark.usefixtures("nothing_compiled")
def test_batches_of_vmap_are_checked_as_far_as_in_eager_mode(call, batch, dynamic):
    """An assertion has no batching rule: under vmap a check covers the whole batch, or there is no check."""

    def mapped(values):
        return torch.vmap(call)(values)

    compiled = nbcompile.compile(mapped, fullgraph=True, dynamic=dynamic)
    torch.testing.assert_close(compiled(batch), mapped(batch))


@pytest.mark.usefixtures("nothing_compiled")
def test_one_window_of_a_batch_leaves_a_part_uncovered():
    """Under vmap an istft raises if one window of the batch is bad, as in eager mode."""

    def mapped(windows):
        return torch.vmap(lambda w: torch.istft(torch.ones(9, 17) + 0j, 16, 4, window=w))(windows)

    compiled = nbcompile.compile(mapped)
    compiled(torch.ones(2, 16))
    for function in (mapped, compiled):
        with pytest.raises(RuntimeError, match="window overlap add min: 1"):
            function(torch.stack([torch.ones(16), torch.zeros(16)]))


@pytest.mark.usefixtures("nothing_compiled")
def test_a_warning_of_cpp_is_shown_though_the_definition_in_python_runs():
    """Eager mode warns of an istft without a window; the call that compiles warns once, too."""

    def signal(s):
        return torch.istft(s, 16, 4)

    spectrum = torch.ones(9, 17) + 0j
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        for function in (signal, nbcompile.compile(signal, fullgraph=True)):
            with pytest.warns(UserWarning, match="A window was not provided") as caught:
                function(spectrum)
            assert [(warning.filename, warning.lineno) for warning in caught] == [
                (__file__, signal.__code__.co_firstlineno + 1)
            ]
    finally:
        torch.set_warn_always(before)
