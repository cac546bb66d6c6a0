"""Convolutions in the channels-last format: chosen where it is faster, with eager's results."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import nbcompile


class Residual(nn.Module):
    """Two convolutions with a residual connection."""

    def __init__(self, channels: int, stride: int = 1) -> None:
        super().__init__()
        self.one = nn.Conv2d(channels, 2 * channels, 3, stride, padding=1, bias=False)
        self.two = nn.Conv2d(2 * channels, 2 * channels, 3, padding=1)
        self.norms = nn.ModuleList(nn.BatchNorm2d(2 * channels) for _ in range(3))
        self.around = nn.Conv2d(channels, 2 * channels, 1, stride)

    def forward(self, x):
        inner = self.norms[1](self.two(self.norms[0](self.one(x)).relu()))
        return (inner + self.norms[2](self.around(x))).relu()


def nets():
    """Networks with an image each."""
    torch.manual_seed(0)
    yield "residual", Residual(16), torch.randn(4, 16, 13, 11)
    yield "chain", nn.Sequential(Residual(16), Residual(32, stride=2)), torch.randn(4, 16, 24, 24)
    yield (
        "groups",
        nn.Sequential(nn.Conv2d(32, 32, 3, groups=2), nn.Conv2d(32, 16, 3), nn.ReLU()),
        torch.randn(4, 32, 16, 16),
    )
    head = nn.Sequential(nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.MaxPool2d(2), nn.Flatten())
    yield "head", nn.Sequential(*head, nn.Linear(32 * 4 * 4, 5)), torch.randn(9, 3, 12, 12)
    yield "one image", nn.Sequential(Residual(16), nn.AdaptiveAvgPool2d(1)), torch.randn(1, 16, 24, 24)


CASES = list(nets())


def compiled(net, x):
    frame_recorder = nbcompile.api.new_recorder("convolution")
    with torch.no_grad(), frame_recorder.listening():
        result = nbcompile.compile(net)(x)
    graphs = [frame.compiled_graph for frame in frame_recorder.record().frames if frame.compiled_graph is not None]
    nbcompile.reset()
    return result, [note for graph in graphs for note in graph.notes if "channels last" in note]


@pytest.mark.parametrize("net, x", [case[1:] for case in CASES], ids=[case[0] for case in CASES])
@pytest.mark.parametrize("given", [torch.contiguous_format, torch.channels_last], ids=str)
def test_elements_and_strides_are_those_of_eager(net, x, given):
    """The result has eager's strides, whatever the format of the image."""
    net, x = net.eval(), x.contiguous(memory_format=given)
    result, notes = compiled(net, x)
    with torch.no_grad():
        torch.testing.assert_close(result, net(x), check_stride=True, rtol=1e-4, atol=1e-4)
    assert len(notes) == 1


@pytest.mark.parametrize(
    "net, x",
    [
        (nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU()), torch.randn(2, 3, 19, 19)),
        (nn.Sequential(nn.Conv2d(16, 32, 1), nn.ReLU()), torch.randn(2, 16, 19, 19)),
        (nn.Sequential(nn.ConvTranspose2d(16, 16, 3), nn.ReLU()), torch.randn(2, 16, 19, 19)),
        (nn.Sequential(nn.Conv1d(16, 16, 3), nn.ReLU()), torch.randn(2, 16, 900)),
        (nn.Sequential(nn.Conv2d(16, 16, 3), nn.ReLU()), torch.randn(1, 16, 19, 19)),
        (nn.Conv2d(16, 16, 3), torch.randn(2, 16, 19, 19)),
    ],
    ids=["few channels", "one pixel", "transposed", "one dimension", "few pixels", "returned"],
)
def test_what_gains_nothing_stays(net, x):
    """Convolutions that gain nothing keep their format: few channels or pixels, 1x1, other kinds, a returned result."""
    net = net.eval()
    result, notes = compiled(net, x)
    with torch.no_grad():
        torch.testing.assert_close(result, net(x), check_stride=True, rtol=1e-4, atol=1e-4)
    assert not notes


def test_gradients_are_those_of_eager():
    """A graph with a backward pass keeps its format, and gradients equal eager's."""
    net, x = Residual(16), torch.randn(2, 16, 8, 8)
    result = nbcompile.compile(net)(x)
    got = torch.autograd.grad(result.sum(), net.parameters())
    expected = torch.autograd.grad(net(x).sum(), net.parameters())
    nbcompile.reset()
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-3)


SMALL = {
    "strided": ((2, 3, 9, 7), (5, 3, 3, 3), {"stride": 2, "padding": 1}),
    "one pixel": ((2, 4, 1, 1), (6, 4, 1, 1), {}),
    "patches": ((1, 3, 16, 16), (8, 3, 4, 4), {"stride": 4}),
    "one dimension": ((2, 3, 19), (5, 3, 3), {"stride": 2, "padding": 1}),
    "uneven": ((3, 2, 8, 11), (4, 2, 3, 2), {"stride": (1, 3), "padding": (2, 0)}),
}
OTHER = {
    "groups": ((2, 4, 8, 8), (6, 2, 3, 3), {"groups": 2}),
    "dilated": ((2, 3, 9, 9), (4, 3, 3, 3), {"dilation": 2}),
    "large": ((4, 16, 32, 32), (32, 16, 3, 3), {}),
    "double": ((2, 3, 9, 7), (5, 3, 3, 3), {}),
    "no image": ((0, 3, 9, 7), (5, 3, 3, 3), {}),
    "large, one dimension": ((2, 32, 400), (64, 32, 3), {}),
}


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("name", [*SMALL, *OTHER])
def test_small_ones_are_matrix_products(name, biased):
    """Small convolutions are matrix products, forward and backward, with eager's strides, for views of images, too."""
    shape, window, options = (SMALL | OTHER)[name]
    torch.manual_seed(0)
    dtype = torch.float64 if name == "double" else torch.float32
    x, w = (
        torch.randn(*shape, dtype=dtype).transpose(-1, -2).contiguous().transpose(-1, -2),
        torch.randn(*window, dtype=dtype),
    )
    given = [x, w, *([torch.randn(window[0], dtype=dtype)] if biased else [])]
    convolve = torch.nn.functional.conv1d if len(shape) == 3 else torch.nn.functional.conv2d

    def function(*tensors):
        return convolve(tensors[0].relu(), *tensors[1:], **options).sigmoid()

    def step(call):
        tensors = [each.detach().clone().requires_grad_() for each in given]
        result = call(*tensors)
        return result, *torch.autograd.grad(result.square().sum(), tensors)

    frame_recorder = nbcompile.api.new_recorder("small")
    with frame_recorder.listening():
        call = nbcompile.compile(function)
        results = step(call)
        with torch.no_grad():
            plain = call(*given)
    kernels = [
        each.name for frame in frame_recorder.record().frames if frame.compiled_graph is not None
        for each in frame.compiled_graph.kernels
    ]  # fmt: skip
    nbcompile.reset()
    for one, two in zip((*results, plain), (*step(function), function(*given)), strict=True):
        torch.testing.assert_close(one, two, rtol=1e-4, atol=1e-4)
        assert one.stride() == two.stride()
    assert any("_slow_conv2d_forward" in each for each in kernels) == (name in SMALL)
    assert any("_slow_conv2d_backward" in each for each in kernels) == (name in SMALL)


def test_frozen_weights_and_inputs_without_gradient():
    """A convolution may need the gradient of the image alone, or of the weight alone."""
    torch.manual_seed(0)
    x, w = torch.randn(2, 3, 9, 7), torch.randn(5, 3, 3, 3)
    call = nbcompile.compile(lambda x, w: torch.nn.functional.conv2d(x, w).tanh())
    for wanted in (x, w):
        wanted.requires_grad_()
        (ours,) = torch.autograd.grad(call(x, w).sum(), wanted)
        (expected,) = torch.autograd.grad(torch.nn.functional.conv2d(x, w).tanh().sum(), wanted)
        torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-4)
        wanted.requires_grad_(False)
    nbcompile.reset()
