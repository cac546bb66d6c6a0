"""The reason that the record gives for each operator that runs through ATen."""

import pytest
import torch
import torch.nn.functional as F

import nbcompile
from nbcompile.lowering.extern import fallback_reason
from tests.lowering.families import WAYS, check_family, every_way, v, x, y

aten = torch.ops.aten

SENTENCES = {
    aten.sort.default: "sorting",
    aten.bucketize.Tensor: "a binary search: where an element is read next depends on what was read",
    aten.searchsorted.Tensor: "a binary search: where an element is read next depends on what was read",
    aten.i0.default: "a special function, which ATen sums term by term",
    aten.special_modified_bessel_k0.default: "a special function, which ATen sums term by term",
    aten.special_laguerre_polynomial_l.default: "an orthogonal polynomial, which ATen computes from those of lower degrees",
    aten.view_as_real.default: "complex numbers: generated kernels hold real ones",
    aten.gcd.default: "no lowering for this operator yet",
}


@pytest.mark.parametrize("target", SENTENCES, ids=str)
def test_each_reason(target):
    """Each operator has the reason of its kind."""
    assert fallback_reason(target) == SENTENCES[target]


def test_relatives_have_one_reason():
    """All polynomials and Bessel functions are in the table, and share two reasons."""
    names = [
        name for name in dir(aten) if name.startswith("special_") and ("_polynomial_" in name or "_bessel_" in name)
    ]
    assert len(names) > 15
    reasons = {fallback_reason(getattr(aten, name).default) for name in names}
    assert reasons == {SENTENCES[aten.i0.default], SENTENCES[aten.special_laguerre_polynomial_l.default]}


@pytest.mark.compiles
def test_the_view_says_it():
    """The reason is shown at the kernel."""
    edges = torch.tensor([0.0, 1.0])
    explained = nbcompile.explain(lambda x: torch.bucketize(x, edges) + 1)(torch.ones(3))
    assert "a binary search: where an element is read next" in explained._repr_mimebundle_()["text/html"]


FAMILIES = {
    "products, sorts, convolutions": (
        lambda x, y, v: [
            x @ y.t(),
            (x @ y.t()).relu() + 1,
            torch.cumsum(x, 1),
            torch.sort(x, 1)[0] + 1,
            F.linear(x + 1, y, None).sum(0),
            torch.topk(x, 3)[1],
            F.conv1d(x[None], y[:, :8, None]),
        ],
        (x, y, v),
    ),
}


@every_way
@pytest.mark.parametrize("name", FAMILIES)
def test_family(name, how):
    """Kernels that read the result of an ATen operator give eager's values."""
    check_family(*FAMILIES[name], how, needs_aten=WAYS)
