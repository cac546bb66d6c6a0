"""The library of a matrix product in a program, with eager's result from each library."""

import functools
from collections.abc import Callable, Iterator

import pytest
import torch

import nbcompile
from nbcompile import config
from nbcompile.runtime import processor

Product = Callable[..., torch.Tensor]
HAS_ONEDNN = any(needs <= processor.features() for needs in processor.ONEDNN_NEEDS)
SIDE = 384
"""A product of two such squares is large."""


@functools.cache
def numbers(*size: int) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(sum(size)))


def mm() -> tuple[Product, tuple[torch.Tensor, ...]]:
    return torch.mm, (numbers(SIDE, SIDE), numbers(SIDE, 448))


def transposed() -> tuple[Product, tuple[torch.Tensor, ...]]:
    return lambda a, b: a.t() @ b.t(), (numbers(SIDE, 448), numbers(448, SIDE))


def batches() -> tuple[Product, tuple[torch.Tensor, ...]]:
    return torch.bmm, (numbers(9, 160, SIDE), numbers(9, SIDE, 64))


def turned_batches() -> tuple[Product, tuple[torch.Tensor, ...]]:
    return lambda q, k: q @ k.transpose(1, 2), (numbers(9, 160, SIDE), numbers(9, 64, SIDE))


def linear() -> tuple[Product, tuple[torch.Tensor, ...]]:
    return torch.nn.functional.linear, (numbers(SIDE, SIDE), numbers(448, SIDE), numbers(448))


def batches_with_a_sum() -> tuple[Product, tuple[torch.Tensor, ...]]:
    return torch.baddbmm, (numbers(9, 1, 64), numbers(9, 160, SIDE), numbers(9, SIDE, 64))


def between_others() -> tuple[Product, tuple[torch.Tensor, ...]]:
    """Factors that are columns of a wider tensor."""
    return lambda a, b: a[:, 8:-8] @ b[:, :SIDE], (numbers(SIDE, SIDE + 16), numbers(SIDE, SIDE + 64))


LARGE = (mm, transposed, batches, turned_batches, linear, batches_with_a_sum, between_others)


def small() -> tuple[Product, tuple[torch.Tensor, ...]]:
    return torch.mm, (numbers(64, 64), numbers(64, 64))


def few_columns() -> tuple[Product, tuple[torch.Tensor, ...]]:
    return torch.mm, (numbers(1024, 1024), numbers(1024, 33))


def every_other() -> tuple[Product, tuple[torch.Tensor, ...]]:
    return lambda a, b: a[:, ::2] @ b, (numbers(SIDE, 2 * SIDE), numbers(SIDE, 448))


def one_for_all() -> tuple[Product, tuple[torch.Tensor, ...]]:
    return lambda a, b: torch.bmm(a.expand(9, 160, SIDE), b), (numbers(1, 160, SIDE), numbers(9, SIDE, 64))


def scaled() -> tuple[Product, tuple[torch.Tensor, ...]]:
    add = functools.partial(torch.addmm, beta=0.5, alpha=2)
    return lambda *args: add(*args), (numbers(448), numbers(SIDE, SIDE), numbers(SIDE, 448))


def doubles() -> tuple[Product, tuple[torch.Tensor, ...]]:
    return torch.mm, (numbers(SIDE, SIDE).double(), numbers(SIDE, 448).double())


AS_EAGER = (small, few_columns, every_other, one_for_all, scaled, doubles)


@pytest.fixture
def calls_of_onednn(capfd: pytest.CaptureFixture[str]) -> Iterator[Callable[[], int]]:
    """The number of products that oneDNN computed since the last call, from its log."""
    with torch.backends.mkldnn.verbose(torch.backends.mkldnn.VERBOSE_ON):
        capfd.readouterr()
        yield lambda: sum(",exec,cpu,matmul" in line for line in capfd.readouterr().out.splitlines())


def check(product: Product, args: tuple[torch.Tensor, ...]) -> None:
    exact = product(*(each.double() for each in args))
    eager, found = product(*args), nbcompile.compile(lambda *args: product(*args))(*args)
    assert found.stride() == eager.stride()
    bound = 4 * (eager - exact).abs().max() + 1e-6
    assert (found - exact).abs().max() <= bound


@pytest.mark.parametrize("products", config.CHOICES["products"])
@pytest.mark.parametrize("of", LARGE)
def test_large_products_go_to_the_chosen_library(of, products, calls_of_onednn):
    """By default large products use oneDNN on processors that are not Intel's; the rounding is close to eager's."""
    nbcompile.reset()
    with config.patch(products=products):
        check(*of())
        assert processor.multiplies_by_onednn() == (HAS_ONEDNN and products in ("onednn", *by_default()))
        assert calls_of_onednn() == processor.multiplies_by_onednn()


def by_default():
    return () if processor.maker() == "GenuineIntel" else ("",)


@pytest.mark.parametrize(
    ("features", "maker", "products", "expected"),
    [
        ("avx512bw avx512vl avx512dq avx2", "AuthenticAMD", "", True),
        ("avx512bw avx512vl avx512dq avx2", "AuthenticAMD", "aten", False),
        ("avx512bw avx512vl avx512dq avx2", "GenuineIntel", "", False),
        ("avx512bw avx512vl avx512dq avx2", "GenuineIntel", "onednn", True),
        ("avx2 fma", "AuthenticAMD", "", False),
        ("avx2 fma", "AuthenticAMD", "onednn", False),
        ("avx2 avx_ne_convert", "", "onednn", True),
        ("", "", "", False),
    ],
)
def test_the_library_is_chosen_by_processor_and_setting(features, maker, products, expected, monkeypatch):
    """The processor's description and the setting choose the library."""
    monkeypatch.setattr(processor, "_description", lambda: {"flags": features, "vendor_id": maker})
    with config.patch(products=products):
        assert processor.multiplies_by_onednn() == expected


def test_a_library_that_rejects_is_asked_once(calls_of_onednn, monkeypatch):
    """If torch's function raises on this processor, products run through ATen, with right results."""
    monkeypatch.setattr(processor, "multiplies_by_onednn", lambda: True)
    nbcompile.reset()
    check(*linear())
    assert calls_of_onednn() == HAS_ONEDNN


@pytest.mark.parametrize("of", AS_EAGER)
def test_other_products_are_eagers(of, calls_of_onednn):
    """Small, narrow, strided or scaled products, and those of other dtypes, are bitwise equal to eager's."""
    product, args = of()
    assert torch.equal(nbcompile.compile(lambda *args: product(*args))(*args), product(*args))
    assert calls_of_onednn() == 0


def test_torchs_switch_counts_at_each_call(calls_of_onednn):
    """torch.backends.mkldnn.flags(enabled=False) gives eager's bits, from the same compiled graph."""
    product, args = mm()
    compiled = nbcompile.compile(lambda *args: product(*args))
    compiled(*args)
    calls_of_onednn()
    with torch.backends.mkldnn.flags(enabled=False):
        assert torch.equal(compiled(*args), product(*args))
    assert calls_of_onednn() == 0


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w, b: torch.nn.functional.linear(x, w, b).detach(),
        lambda x, w, b: torch.nn.functional.linear(x, w.detach(), b.detach()),
        lambda x, w, b: torch.no_grad()(torch.nn.functional.linear)(x, w, b),
    ],
    ids=["result detached", "factors detached", "without gradients"],
)
def test_autograd_does_not_see_the_bias_copied(function):
    """A result without a gradient does not get one from the copied bias, and its version is eager's."""
    x, w, b = numbers(SIDE, SIDE), *(torch.nn.Parameter(each.clone()) for each in (numbers(448, SIDE), numbers(448)))
    found, eager = nbcompile.compile(lambda *args: function(*args))(x, w, b), function(x, w, b)
    seen = [(each.requires_grad, each.is_leaf, each._version) for each in (found, eager)]
    assert seen[0] == seen[1]
    torch.testing.assert_close(found, eager, atol=1e-3, rtol=1e-4)


GRADIENT_FREE = {
    "linear": lambda x, w, b: torch.nn.functional.linear(x, w, b).detach(),
    "scaled": lambda x, w, b: torch.addmm(b, x, w, beta=0.5, alpha=2).detach(),
    "batch": lambda x, w, b: torch.baddbmm(b, x[None], w[None]).detach(),
    "convolution": lambda x, w, b: torch.nn.functional.conv1d(x[None], w[:, :, None], b).detach(),
    "transposed convolution": lambda x, w, b: torch.nn.functional.conv_transpose1d(x[None], w[:, :, None], b).detach(),
}


@pytest.mark.parametrize("side", [8, 300])
@pytest.mark.parametrize("with_onednn", [True, False])
@pytest.mark.parametrize("name", GRADIENT_FREE)
def test_autograd_does_not_see_what_a_library_does(name, with_onednn, side):
    """A result without a gradient does not get one from parameters among the factors, with either library."""
    x, w, b = numbers(side, side), *(torch.nn.Parameter(each.clone()) for each in (numbers(side, side), numbers(side)))
    function = GRADIENT_FREE[name]
    with torch.backends.mkldnn.flags(enabled=with_onednn):
        found, eager = nbcompile.compile(lambda *args: function(*args))(x, w, b), function(x, w, b)
    assert not found.requires_grad and found.is_leaf and found._version == eager._version
    torch.testing.assert_close(found, eager, atol=1e-2, rtol=1e-3)


def test_nan_and_infinity_pass_through(calls_of_onednn):
    """NaN and infinity of a factor appear only in the rows and columns that depend on them."""
    left, right = numbers(SIDE, SIDE).clone(), numbers(SIDE, 448).clone()
    left[3, 5], right[7, 11] = float("nan"), float("inf")
    found, eager = nbcompile.compile(lambda a, b: a @ b)(left, right), left @ right
    assert torch.equal(found.isnan(), eager.isnan()) and torch.equal(found.isinf(), eager.isinf())


def test_sizes_that_a_call_decides(calls_of_onednn):
    """With symbolic sizes each call chooses: ATen for a small product, oneDNN for a large one."""
    compiled = nbcompile.compile(lambda a, b: (a @ b).relu(), dynamic=True)
    for rows in (8, 600, 9, 700):
        left, right = numbers(rows, SIDE), numbers(SIDE, 448)
        torch.testing.assert_close(compiled(left, right), (left @ right).relu(), atol=1e-3, rtol=1e-4)
        assert calls_of_onednn() == (processor.multiplies_by_onednn() and rows > 100)


def test_derivatives_of_large_products():
    """The derivatives of both factors are products, too."""
    left, right = (each.clone().requires_grad_() for each in (numbers(SIDE, SIDE), numbers(SIDE, 448)))
    found = nbcompile.compile(lambda a, b: (a @ b).sin())(left, right)
    given = numbers(SIDE, 448)
    exact = torch.autograd.grad((left.double() @ right.double()).sin(), (left, right), given.double())
    for one, other in zip(torch.autograd.grad(found, (left, right), given), exact, strict=True):
        torch.testing.assert_close(one, other, atol=2e-3, rtol=1e-3)
