"""Strided rows are packed into panels before the passes over them; the results are eager's for all sizes."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import nbcompile
from tests.codegen.test_transpose_tiles import sources

NORMS = {
    "softmax": lambda x: torch.softmax(x, -1),
    "log_softmax": lambda x: torch.log_softmax(x, -1),
    "layer_norm": lambda x: F.layer_norm(x, x.shape[-1:]),
    "rms_norm": lambda x: F.rms_norm(x, x.shape[-1:]),
}
LAYOUTS = {
    "transposed": ((130, 65), lambda x: x.t()),
    "few rows": ((40, 9), lambda x: x.t()),
    "short rows": ((10, 300), lambda x: x.t()),
    "middle": ((3, 33, 50), lambda x: x.transpose(1, 2)),
    "first": ((20, 5, 37), lambda x: x.permute(2, 1, 0)),
    "channels": ((2, 19, 6, 7), lambda x: x.permute(0, 2, 3, 1)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_and_type(layout, dtype):
    """Whole tiles and remainders, rows strided along any outer loop, and elements of 16 to 64 bits work."""
    torch.manual_seed(0)
    size, change = LAYOUTS[layout]
    x = torch.randn(size).to(dtype)
    for norm in NORMS.values():
        result, text = sources(lambda x, norm=norm: norm(change(x)), x)
        assert "pack_panel" in text or "unpack_panel" in text, text
        atol, rtol = {torch.bfloat16: (4e-3, 0.016)}.get(dtype, (1e-5, 1.3e-6))  # one ulp of a value near 0.5
        torch.testing.assert_close(result, norm(change(x)), atol=atol, rtol=rtol)


PROGRAMS = {
    "beside rows that lie along": lambda x, y: torch.softmax(x.t() + y, -1),
    "packed store": lambda x, y: torch.softmax(x.t(), 0),
    "packed load and store": lambda x, y: torch.empty_like(x).t().copy_(torch.softmax(x.t(), -1)) * 2,
    "two results": lambda x, y: (torch.softmax(x.t(), -1), torch.softmax(y, -1).t().contiguous()),
    "two packed loads": lambda x, y: F.layer_norm(x.t() * (x * 2 + 1).t(), y.shape[-1:]) + y,
    "reduced only": lambda x, y: ((x.t() * y).sum(-1), (x.t() - y).amax(-1)),
    "largest of a row": lambda x, y: ((x.t() + y).argmax(-1), (x.t() + y).sum(-1)),
    "scanned": lambda x, y: (x.t() + y).cumsum(-1),
    "under a mask": lambda x, y: torch.softmax(F.pad(x.t(), (3, 2)) + F.pad(y, (3, 2)), -1),
    "a row before": lambda x, y: torch.softmax(x.t()[1:] + x.t()[:-1], -1),
    "with a weight": lambda x, y: F.layer_norm(x.t(), y.shape[-1:], y[0], y[1]),
    "truth values": lambda x, y: ((x.t() > 0) & (y > 0)).sum(-1),
    "whole numbers": lambda x, y: ((x * 9).long().t() + (y * 9).long()).sum(-1),
    "two inner loops": lambda x, y: (lambda a: (a - a.mean((0, 1))).sum(2))(
        x.reshape(2, -1, x.shape[1]).movedim(2, 0).softmax(-1)
    ),
    "rows of two dimensions": lambda x, y: F.layer_norm(
        x[:, :, None].expand(-1, -1, 3).permute(1, 2, 0), (3, x.shape[0])
    ),
}


@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "symbolic"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_with_strided_rows(name, dynamic):
    """Contiguous accesses in the same loops, and symbolic sizes, give eager's results."""
    torch.manual_seed(0)
    function = PROGRAMS[name]
    compiled = nbcompile.compile(function, dynamic=dynamic)
    for rows, columns in ((40, 50), (24, 19), (100, 17)):
        x, y = torch.randn(rows, columns), torch.randn(columns, rows)
        torch.testing.assert_close(compiled(x, y), function(x, y))
    nbcompile.reset()


def test_gradients():
    """The backward of a softmax over transposed rows has contiguous and strided rows."""
    x, g = torch.randn(70, 45, requires_grad=True), torch.randn(45, 70)
    torch.softmax(x.t(), -1).backward(g)
    expected, x.grad = x.grad, None
    nbcompile.compile(lambda x: torch.softmax(x.t(), -1))(x).backward(g)
    torch.testing.assert_close(x.grad, expected)
    nbcompile.reset()


def test_what_is_changed_in_place_is_read_before():
    """Rows that are mutated in place are not packed."""

    def change(x):
        x.t().copy_(torch.softmax(x.t(), -1))
        return x * 2

    x = torch.randn(33, 50)
    expected, given = x.clone(), x.clone()
    result, wanted = nbcompile.compile(change)(given), change(expected)
    torch.testing.assert_close((result, given), (wanted, expected))
    nbcompile.reset()


def test_rows_for_two_threads():
    """Each thread has a separate panel."""
    x = torch.randn(700, 512)
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        result = nbcompile.compile(lambda x: torch.softmax(x.t(), -1))(x)
    finally:
        torch.set_num_threads(threads)
    torch.testing.assert_close(result, torch.softmax(x.t(), -1))
    nbcompile.reset()
