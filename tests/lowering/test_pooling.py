"""Pooling: eager's values, indices and gradients."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from tests.lowering.images import check_gradients, image, volume
from tests.support.lowered import check

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
}


@pytest.mark.parametrize("name", FORWARD)
def test_forward(name):
    """Pooling gives eager's values without a call of ATen."""
    function, inputs = FORWARD[name]
    check(function, *inputs)


COMPILED = {
    "max": lambda x: F.max_pool2d(x, 3, 2, 1),
    "mean": lambda x: F.avg_pool2d(x, 3, 2, 1) * F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "mean without overlap": lambda x: F.avg_pool2d(x, 2),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, (4, 1)),
    "adaptive, uneven": lambda x: F.adaptive_avg_pool2d(x, 3) + F.adaptive_max_pool2d(x, 3),
}


@pytest.mark.parametrize("name", COMPILED)
def test_gradients(name):
    """Compiled forward and backward passes equal eager's."""
    check_gradients(COMPILED[name])


def test_sizes_that_are_symbols():
    """One kernel serves images of any size."""
    other = (torch.randn(3, 3, 9, 14),)
    for function in (lambda x: F.max_pool2d(x, 2), lambda x: F.avg_pool2d(x, 3, 1, 1)):
        check(function, image, dynamic=True, other_inputs=other)


def test_windows_of_symbolic_images_are_read_without_a_mask_where_all_lie_inside():
    """If the count of windows is rounded down, loads have no mask, as all windows are inside; rounded up, they have."""
    for function, masked in (
        (lambda x: F.max_pool2d(x, 2), False),
        (lambda x: F.max_pool2d(x, 3, 2), False),
        (lambda x: F.avg_pool2d(x, 2), False),
        (lambda x: F.max_pool2d(x, 2, ceil_mode=True), True),
        (lambda x: F.max_pool2d(x, 3, 2, 1), True),
    ):
        for other in ((torch.randn(3, 3, 9, 14),), (torch.randn(1, 3, 4, 3),)):
            program, _ = check(function, image, dynamic=True, other_inputs=other)
            assert any("Masked(" in str(buffer) for buffer in program.buffers) == masked


@pytest.mark.parametrize("pool", [F.max_pool1d, F.max_pool2d, F.max_pool3d])
@pytest.mark.parametrize(("padding", "dilation"), [(0, 1), (1, 1), (1, 2)])
def test_the_index_of_a_window_that_holds_only_the_lowest_number_is_inside_the_tensor(pool, padding, dilation):
    """If all elements are -inf, the index is that of the first element inside the image, not of the padding."""
    x = torch.full((1, 2, *[6] * int(pool.__name__[-2])), -math.inf)
    check(lambda x: list(pool(x, 3, 1, padding, dilation, return_indices=True)), x)
