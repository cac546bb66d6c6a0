"""The page on exactness is true: each difference from eager mode has a check here."""

import functools

import pytest
import torch
import torch.nn.functional as F

import nbcompile
from tests.exactness import BOUNDS, DIFFERENCES


def run(function, *arguments):
    """The compiled and the eager result."""
    nbcompile.reset()
    return nbcompile.compile(function, fullgraph=True, dynamic=False)(*arguments), function(*arguments)


def zeros_of_both_signs(*size):
    """Zeros with random signs."""
    torch.manual_seed(0)
    return torch.where(torch.rand(size) < 0.5, 0.0, -0.0)


def largest_zero():
    """Values and indices are equal; signs of zeros may differ."""
    x = zeros_of_both_signs(9, 37)
    x[3:6] -= (torch.rand(3, 37) < 0.3).float()

    def f(x):
        return [
            *x.max(1), *x.min(0), *x.aminmax(dim=1), x.amax(), x.amin(0), x.max(), x.argmax(1), x.argmin(0),
            F.max_pool1d(x, 4, 3),
        ]  # fmt: skip

    for found, wanted in zip(*run(f, x), strict=True):
        assert torch.equal(found, wanted)


def zero_of_two():
    """The values are eager's; of two zeros the second one is returned, as in eager's vectors."""
    a, b = zeros_of_both_signs(67), -zeros_of_both_signs(67)
    found, eager = run(lambda a, b: [torch.maximum(a, b), torch.minimum(a, b), a.clamp(min=b), a.clamp(max=b)], a, b)
    for each, wanted in zip(found, eager, strict=True):
        assert torch.equal(each, wanted)
        assert torch.equal(each.signbit(), b.signbit())
        assert torch.equal(each.signbit()[:32], wanted.signbit()[:32])


def sign_of_nan():
    """NaN is where eager mode has it, with any sign."""
    x = torch.tensor([float("nan"), -float("nan"), -1.0, 2.0, float("inf"), -float("inf"), 0.0] * 5)
    found, wanted = run(lambda x: torch.stack([x.log(), x - x, x.logit(), torch.xlogy(x, x), torch.logaddexp(x, x)]), x)
    assert torch.equal(found.isnan(), wanted.isnan())


def softshrink():
    """The values are eager's; zeros have the signs of the inputs."""
    x = torch.linspace(-1, 1, 39)
    found, eager = run(F.softshrink, x)
    assert torch.equal(found, eager)
    assert torch.equal(found.signbit(), x.signbit())


def root():
    """The square root of a float32 is computed in float64, and rounded once."""
    x = torch.rand(4096) * 100
    found, eager = run(torch.sqrt, x)
    assert torch.equal(found, x.double().sqrt().float())
    torch.testing.assert_close(found, eager, rtol=2**-22, atol=0)


def infinite_gelu():
    """gelu of infinities is the same in vectors and in the remainder; float64 equals eager's."""
    x = torch.tensor([float("inf"), -float("inf"), 3e38, 2.0, -3.0] * 7)
    for dtype in (torch.float32, torch.bfloat16, torch.float64):
        found, eager = run(lambda x: [F.gelu(x), F.gelu(x, approximate="tanh")], x.to(dtype))
        for each in found:
            assert torch.equal(each[0::5], x.to(dtype)[0::5])
            assert each[1::5].isnan().all()
            assert torch.equal(each[2::5], x.to(dtype)[2::5])
        torch.testing.assert_close(found[0][3::5], eager[0][3::5])
        if dtype is torch.float64:
            torch.testing.assert_close(found[0], eager[0], equal_nan=True, rtol=1e-13, atol=0)


def hyperbolic():
    """sinh and cosh are compared with float64."""
    x = torch.linspace(88, 89.4, 41)
    found, _ = run(lambda x: torch.stack([x.sinh(), x.cosh()]), x)
    exact = torch.stack([x.double().sinh(), x.double().cosh()])
    assert ((found - exact).abs() <= BOUNDS["sinh"] * 2.0**-23 * exact).all()


def equal_rows():
    """Rows of equal numbers of several magnitudes and lengths are reduced along each dimension."""
    values = torch.tensor([0.1, 1.0, 3.3, -1234.567, 1e6 + 0.3, 1e-20])
    for width in (7, 64, 333, 10_000):
        x = values[:, None].repeat(1, width)
        norm, spread = run(lambda x, width=width: (F.layer_norm(x, (width,)), x.var(1, correction=0)), x)[0]
        assert (norm == 0).all()
        assert (spread == 0).all()
    for number in (0.1, -7.77, 1e6 + 0.3):
        x = torch.full((8, 6, 15, 15), number)
        for images in (x, x.to(memory_format=torch.channels_last)):
            norms, _ = run(lambda x: (F.batch_norm(x, None, None, training=True), F.group_norm(x, 3), x.std(0)), images)
            assert all((norm == 0).all() for norm in norms)
        x = torch.full((1_000_000,), number)
        assert run(lambda x: x.var(correction=0), x)[0] <= 1e-12 * number**2
    assert torch.full((4, 7), 0.1).var().item() == pytest.approx(2.3e-16, rel=0.01)


def sums():
    """Sums are compared with float64, and are equal with one and two threads."""
    torch.manual_seed(0)
    x = torch.randn(4, 65536)
    found, _ = run(lambda x: (x.sum(1), x.t().contiguous().sum(0), x.sum()), x)
    for total, exact in zip(found, (x.double().sum(1), x.double().sum(1), x.double().sum()), strict=True):
        assert ((total - exact).abs() <= 1e-6 * x.double().abs().sum(1).max()).all()
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1 if threads > 1 else 2)
        again, _ = run(lambda x: (x.sum(1), x.t().contiguous().sum(0), x.sum()), x)
    finally:
        torch.set_num_threads(threads)
    assert all(map(torch.equal, found, again))


def large_variance():
    """Values on both sides of the bound, in rows of several lengths; with an infinite mean, too."""

    def f(x):
        columns = x.t()
        return (
            x.var(1),
            x.std(1),
            torch.var_mean(x, 1)[0],
            F.layer_norm(x, x.shape[1:]),
            F.batch_norm(columns, None, None, training=True),
        )

    for width in (5, 17, 300):
        torch.manual_seed(0)
        unit = (torch.finfo(torch.float32).max / width) ** 0.5
        x = torch.arange(width) % 2 * 2 - 1 + 0.1 * torch.rand(4, width)
        found, _ = run(f, x * unit * 0.8)
        for result, exact in zip(found, f((x * unit * 0.8).double()), strict=True):
            assert torch.allclose(result.double(), exact, rtol=2e-6, atol=1e-6)
        found, wanted = run(f, x * unit * 4)
        assert all(result.isinf().all() for result in found[:3])
        assert all((result == 0).all() for result in found[3:])
        assert wanted[1].isfinite().all()
    (variance, *_, rows, columns), (_, deviation, *_) = run(f, torch.full((4, 300), 3e38))
    assert not variance.isfinite().any()
    assert rows.isnan().all()
    assert columns.isnan().all()
    assert (deviation == 0).all()


def nan_window():
    """The values are eager's."""
    x = torch.full((1, 1, 6), float("nan"))
    (value, place), (eager, _) = run(lambda x: F.max_pool1d(x, 3, 3, return_indices=True), x)
    assert value.isnan().all()
    assert eager.isnan().all()
    assert ((place >= 0) & (place < 6)).all()


def grid_coordinates():
    """NaN coordinates give zeros; other modes equal eager's."""
    image = torch.rand(2, 3, 5, 4)
    for number in (float("nan"), float("inf"), -float("inf")):
        grid = torch.full((2, 3, 2, 2), number)
        for mode in ("bilinear", "nearest", "bicubic"):
            found, wanted = run(functools.partial(F.grid_sample, mode=mode, align_corners=False), image, grid)
            if mode == "bilinear":
                assert wanted.isnan().all()
                assert (found == 0).all()
            else:
                assert torch.equal(found.nan_to_num(7), wanted.nan_to_num(7))


def large_quotient():
    """The remainder is NumPy's, and eager's if that is a number."""
    x = torch.tensor([1.0, -3.0, 3e38, 5e-40, 0.0] * 8)
    found, wanted = run(lambda x: x % 1e-40, x)
    assert torch.equal(found, torch.from_numpy(x.numpy() % torch.tensor(1e-40).numpy()))
    assert ((found == wanted) | wanted.isnan()).all()


def strides():
    """A floored quotient has eager's values and torch.compile's strides."""
    x = (torch.rand(2, 3, 4, 5) + 1).contiguous(memory_format=torch.channels_last)
    found, wanted = run(lambda x, y: x // y, x, torch.ones(2, 3, 4, 5))
    assert torch.equal(found, wanted)
    assert wanted.stride() == x.stride()
    assert found.stride() == (60, 20, 5, 1)


CHECKS = {
    check.__name__: check
    for check in (
        largest_zero,
        zero_of_two,
        sign_of_nan,
        softshrink,
        root,
        hyperbolic,
        equal_rows,
        sums,
        large_variance,
        nan_window,
        grid_coordinates,
        infinite_gelu,
        large_quotient,
        strides,
    )
}


def test_every_difference_has_a_check():
    """Each row of the page has a check."""
    assert [row.name for row in DIFFERENCES] == list(CHECKS)


@pytest.mark.parametrize("name", CHECKS)
def test_what_the_page_says_of_a_difference(name):
    """Compiled and eager results are as the row says."""
    CHECKS[name]()


def test_running_extremes_take_the_latest_zero():
    """cummax and cummin return the value at their index, as eager does, with any sign of zero."""
    x = zeros_of_both_signs(5, 83)
    x[1] -= (torch.rand(83) < 0.3).float()
    functions = [functools.partial(f, dim=dim) for f in (torch.cummax, torch.cummin) for dim in (0, 1)]

    def f(x):
        return [part for function in functions for part in function(x)]

    for found, wanted in zip(*run(f, x), strict=True):
        assert torch.equal(found, wanted)
        assert torch.equal(found.signbit(), wanted.signbit())


def test_subnormal_numbers_are_flushed_as_in_eager():
    """torch.set_flush_denormal holds for compiled code, which uses the thread's mode; one thread here."""
    x = torch.full((3, 21), 1e-40)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for flush in (True, False):
            torch.set_flush_denormal(flush)
            found, wanted = run(lambda x: (x * 2, x + x, x.sum(1), x.double() * 1, x / 3), x)
            assert all(map(torch.equal, found, wanted)), flush
    finally:
        torch.set_flush_denormal(False)
        torch.set_num_threads(threads)
