"""The sentence that the view gives for each operator that ATen runs."""

import pytest
import torch

import nbcompile
from nbcompile.lowering.extern import fallback_reason

aten = torch.ops.aten

SENTENCES = {
    aten.sort.default: "sorting",
    aten.bucketize.Tensor: "a binary search: where an element is read next depends on what was read",
    aten.searchsorted.Tensor: "a binary search: where an element is read next depends on what was read",
    aten.i0.default: "a special function, which ATen sums term by term",
    aten.gcd.default: "no lowering for this operator yet",
}


@pytest.mark.parametrize("target", SENTENCES, ids=str)
def test_each_reason(target):
    """A reason is true of the operator: a search does not sort."""
    assert fallback_reason(target) == SENTENCES[target]


@pytest.mark.compiles
def test_the_view_says_it():
    """The sentence stands at the kernel."""
    edges = torch.tensor([0.0, 1.0])
    explained = nbcompile.explain(lambda x: torch.bucketize(x, edges) + 1)(torch.ones(3))
    assert "a binary search: where an element is read next" in explained._repr_mimebundle_()["text/html"]
