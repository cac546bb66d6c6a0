"""Convolutions of an inference graph in the channels-last format."""

import pytest
import torch
import torch.nn.functional as F

from nbcompile.aot.channels_last import mark_channels_last
from nbcompile.capture.node_meta import CHANNELS_LAST
from tests.support.lowered import traced

CONVOLUTION = torch.ops.aten.convolution.default


def marked(function, *inputs):
    """The notes of the pass, and which convolutions it marks."""
    graph = traced(function, *inputs)
    notes = mark_channels_last(graph)
    return notes, [
        bool(node.meta.get(CHANNELS_LAST)) for node in graph.graph.find_nodes(op="call_function", target=CONVOLUTION)
    ]


def images(channels=32, size=24):
    return torch.randn(2, channels, size, size)


def weights(window=3, channels=32, outputs=32):
    return torch.randn(outputs, channels, window, window)


def twice(x, w, v):
    return F.conv2d(F.conv2d(x, w).relu(), v).relu()


def test_convolutions_that_gain_are_marked():
    """Convolutions with 3x3 windows over many channels are marked, and a note counts them."""
    assert marked(twice, images(), weights(), weights()) == (("channels last: 2 convolutions",), [True, True])


def test_windows_of_one_pixel_follow_the_others():
    """A 1x1 convolution alone gains nothing; next to a marked one it is marked, so that nothing is transposed."""
    assert marked(twice, images(), weights(1), weights(1)) == ((), [False, False])
    assert marked(twice, images(), weights(3), weights(1))[1] == [True, True]


@pytest.mark.parametrize(
    ("function", "inputs"),
    [
        (lambda x, w: F.conv2d(x, w).relu(), (images(8), weights(channels=8))),
        (lambda x, w: F.conv2d(x, w).relu(), (images(), weights(outputs=8))),
        (lambda x, w: F.conv2d(x, w).relu(), (images(size=8), weights())),
        (lambda x, w: F.conv2d(x, w).relu(), (images().double(), weights().double())),
        (lambda x, w: F.conv_transpose2d(x, w).relu(), (images(), weights())),
        (lambda x, w: F.conv1d(x, w).relu(), (torch.randn(2, 32, 600), torch.randn(32, 32, 3))),
    ],
    ids=["few channels in", "few channels out", "few pixels", "float64", "transposed", "one dimension"],
)
def test_what_gains_nothing_is_left(function, inputs):
    """A convolution that gains nothing keeps the format of its input."""
    assert marked(function, *inputs) == ((), [False])


def test_what_is_returned_has_eagers_strides():
    """A result of the graph, or a view of it, keeps the strides that eager mode returns."""
    assert marked(F.conv2d, images(), weights()) == ((), [False])
    assert marked(lambda x, w: F.conv2d(x, w).permute(0, 2, 3, 1), images(), weights()) == ((), [False])
