"""Pooling, resizing and padding compute what eager computes, on every target."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

import nbcompile
from tests.lowering.programs import check

torch.manual_seed(0)
image, volume, row = torch.randn(2, 3, 8, 11), torch.randn(1, 2, 4, 6, 5), torch.randn(2, 3, 12)
aten = torch.ops.aten

FORWARD = {
    "max": (lambda x: [*F.max_pool2d(x, 3, 2, return_indices=True), F.max_pool2d(x, 2)], (image,)),
    "max padded": (lambda x: list(F.max_pool2d(x, 3, (1, 2), (1, 0), (2, 1), True, True)), (image,)),
    "max half": (lambda x: F.max_pool2d(x, 3, 2, 1), (image.bfloat16(),)),
    "max of one image": (lambda x: F.max_pool2d(x, 2), (image[0],)),
    "max 3d": (lambda x: list(F.max_pool3d(x, 2, padding=1, return_indices=True)), (volume,)),
    "mean": (lambda x: [F.avg_pool2d(x, 2), F.avg_pool2d(x, 3, 2, 1), F.avg_pool2d(x, 3, 2, 1, True, False)], (image,)),
    "mean ceil": (lambda x: [F.avg_pool2d(x, 3, 2, 1, True), F.avg_pool2d(x, (2, 3), divisor_override=5)], (image,)),
    "mean 3d": (lambda x: F.avg_pool3d(x, 2, padding=1), (volume,)),
    "as many as asked for": (lambda x: [aten._adaptive_avg_pool2d(x, (4, 11)), F.avg_pool1d(x[0], 3)], (image,)),
    "nearest": (lambda x: [F.interpolate(x, scale_factor=2), F.interpolate(x, size=(16, 33))], (image,)),
    "nearest uneven": (lambda x: [F.interpolate(x, size=(5, 17)), F.interpolate(x, scale_factor=1.7)], (image,)),
    "nearest exact": (lambda x: F.interpolate(x, size=(5, 17), mode="nearest-exact"), (image,)),
    "nearest 1d, 3d": (lambda x, y: [F.interpolate(x, 20), F.interpolate(y, scale_factor=2)], (row, volume)),
    "between": (
        lambda x, y, z: [
            F.interpolate(x, scale_factor=2, mode="bilinear"),
            F.interpolate(x, (16, 33), mode="bilinear", align_corners=True),
            F.interpolate(x, (5, 40), mode="bilinear"),
            F.interpolate(x, scale_factor=1.7, mode="bilinear"),
            F.interpolate(y, 30, mode="linear"),
            F.interpolate(z, scale_factor=2, mode="trilinear"),
        ],
        (image, row, volume),
    ),
    "wide": (
        lambda x: [
            F.interpolate(x, scale_factor=2),
            F.interpolate(x, scale_factor=2, mode="bilinear"),
            F.pad(x, (3, 5, 1, 2), "reflect"),
            F.pad(x, (20, 9, 0, 2), "replicate"),
        ],
        (torch.randn(1, 2, 5, 50),),
    ),
    "channels last": (
        lambda x: [F.interpolate(x, scale_factor=2), F.interpolate(x, scale_factor=2, mode="bilinear")],
        (torch.randn(2, 20, 5, 6).contiguous(memory_format=torch.channels_last),),
    ),
    "mirrored": (lambda x, y: [F.pad(x, (2, 1, 3, 0), "reflect"), F.pad(y, (3, 4), "reflect")], (image, row)),
    "repeated": (lambda x, y: [F.pad(x, (2, 1, 3, 0), "replicate"), F.pad(y, (3, 9), "replicate")], (image, row)),
}


@pytest.mark.parametrize("name", FORWARD)
def test_forward(name):
    """Without a call of ATen."""
    function, inputs = FORWARD[name]
    check(function, *inputs)


COMPILED = {
    "max": lambda x: F.max_pool2d(x, 3, 2, 1),
    "mean": lambda x: F.avg_pool2d(x, 3, 2, 1) * F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "mean without overlap": lambda x: F.avg_pool2d(x, 2),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, (4, 1)),
    "adaptive, uneven": lambda x: F.adaptive_avg_pool2d(x, 3) + F.adaptive_max_pool2d(x, 3),
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "between": lambda x: (
        F.interpolate(x, scale_factor=1.5, mode="bilinear") + F.interpolate(x, (12, 16), mode="bicubic")
    ),
    "borders": lambda x: F.pad(
        F.pad(F.pad(x, (1, 2, 1, 1), "reflect"), (2, 0, 0, 1), "circular"), (1, 1, 0, 3), "replicate"
    ),
    "windows": lambda x: F.fold(F.unfold(x, 3, padding=1) * 2, (8, 11), 3, padding=1),
    "grid": lambda x: F.grid_sample(x, x[:, :2].permute(0, 2, 3, 1).tanh(), align_corners=False),
    "moved": lambda x: (
        F.pixel_shuffle(x.expand(2, 12, 8, 11) if x.shape[1] == 12 else x.repeat(1, 4, 1, 1), 2).roll(3, 2).flip(3)
    ),
}


@pytest.mark.parametrize("name", COMPILED)
def test_gradients(name):
    """Compiled forward and backward are eager's."""
    function = COMPILED[name]
    x, y = (image.clone().requires_grad_() for _ in range(2))
    expected, found = function(x), nbcompile.compile(function)(y)
    torch.testing.assert_close(found, expected)
    weight = torch.randn_like(expected)
    (expected * weight).sum().backward()
    (found * weight).sum().backward()
    torch.testing.assert_close(y.grad, x.grad, rtol=1e-4, atol=1e-5)


def test_sizes_that_are_symbols():
    """One kernel for images of any size."""
    other = (torch.randn(3, 3, 9, 14),)
    for function in (
        lambda x: F.max_pool2d(x, 2),
        lambda x: F.avg_pool2d(x, 3, 1, 1),
        lambda x: F.pad(x, (1, 1, 2, 0), "replicate"),
    ):
        check(function, image, dynamic=True, other_inputs=other)


def test_windows_of_symbolic_images_are_read_without_a_mask_where_all_lie_inside():
    """As many windows as fit reach nowhere out, whatever the size; rounded up, the last may."""
    for function, masked in (
        (lambda x: F.max_pool2d(x, 2), False),
        (lambda x: F.max_pool2d(x, 3, 2), False),
        (lambda x: F.avg_pool2d(x, 2), False),
        (lambda x: F.max_pool2d(x, 2, ceil_mode=True), True),
        (lambda x: F.max_pool2d(x, 3, 2, 1), True),
    ):
        for other in ((torch.randn(3, 3, 9, 14),), (torch.randn(1, 3, 4, 3),)):
            program, _ = check(function, image, dynamic=True, other_inputs=other)
            assert any("Masked(" in str(each) for each in program.buffers) == masked


@pytest.mark.parametrize("pool", [F.max_pool1d, F.max_pool2d, F.max_pool3d])
@pytest.mark.parametrize(("padding", "dilation"), [(0, 1), (1, 1), (1, 2)])
def test_the_index_of_a_window_that_holds_only_the_lowest_number_is_inside_the_tensor(pool, padding, dilation):
    """Where every element is -inf, the index is that of the first element inside, not of the padding."""
    x = torch.full((1, 2, *[6] * int(pool.__name__[-2])), -math.inf)
    check(lambda x: list(pool(x, 3, 1, padding, dilation, return_indices=True)), x)
