"""Resizing and padding of images: eager's values and gradients."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import nbcompile
from tests.lowering.images import check_gradients, image, row, volume
from tests.support.lowered import check

FORWARD = {
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
    """Resizing gives eager's values without a call of ATen."""
    function, inputs = FORWARD[name]
    check(function, *inputs)


COMPILED = {
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
    """Compiled forward and backward passes equal eager's."""
    check_gradients(COMPILED[name])


def test_sizes_that_are_symbols():
    """One kernel serves images of any size."""
    other = (torch.randn(3, 3, 9, 14),)
    for function in (lambda x: F.pad(x, (1, 1, 2, 0), "replicate"),):
        check(function, image, dynamic=True, other_inputs=other)


@pytest.mark.filterwarnings("error::nbcompile.errors.GeneratedCodeWarning")
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear", "bicubic"])
def test_a_scale_that_is_no_integer_and_sizes_that_are_symbols(mode):
    """The size of the result is a symbol times a float, which kernels compute as Python does."""

    def f(x):
        return F.interpolate(x, scale_factor=(1.7, 0.5), mode=mode)

    compiled = nbcompile.compile(f, dynamic=True)
    for size in ((9, 11), (7, 16)):
        x = torch.rand(2, 3, *size, generator=torch.Generator().manual_seed(0))
        torch.testing.assert_close(compiled(x), f(x))
