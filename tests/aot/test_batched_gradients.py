"""``is_grads_batched=True`` through compiled graphs: gradients are eager's."""

from __future__ import annotations

import pytest
import torch

import nbcompile

pytestmark = pytest.mark.usefixtures("nothing_compiled")


def leaves():
    torch.manual_seed(0)
    return torch.randn(3, 3, requires_grad=True), torch.randn(3, 3, requires_grad=True)


@pytest.mark.parametrize(
    "program",
    [
        lambda x, w: ((x @ w).sin(),),
        lambda x, w: ((x * w).cos(), x > 0, w.exp() * x),
        lambda x, w: ((x @ w).sum(), w * x),
    ],
    ids=["a product", "a result without a gradient", "a sum"],
)
def test_a_batch_of_gradients(program):
    """A batch of tangents gives a batch of gradients, each equal to eager's."""
    compiled = nbcompile.compile(program)
    expected, found = [], []
    for function, results in ((program, expected), (compiled, found)):
        for chosen in ([0], [-1], [0, -1]):
            x, w = leaves()
            outputs = [function(x, w)[at] for at in chosen]
            batches = [torch.arange(4.0 * out.numel()).reshape(4, *out.shape) for out in outputs]
            results.append(torch.autograd.grad(outputs, (x, w), batches, is_grads_batched=True))
    torch.testing.assert_close(found, expected)


def test_a_jacobian():
    """``torch.autograd.functional.jacobian(vectorize=True)`` differentiates with a batch of tangents."""
    x, w = leaves()

    def program(x):
        return (x @ w).tanh()

    expected = torch.autograd.functional.jacobian(program, x, vectorize=True)
    found = torch.autograd.functional.jacobian(nbcompile.compile(program), x, vectorize=True)
    torch.testing.assert_close(found, expected)


def test_a_batch_beside_one_gradient():
    """A graph that is retained after a batch of gradients still has its saved tensors for the next backward pass."""
    x, w = leaves()
    (result,) = nbcompile.compile(lambda x, w: ((x @ w).sin(),))(x, w)
    batch = torch.eye(9).reshape(9, 3, 3)
    (rows,) = torch.autograd.grad(result, x, batch, is_grads_batched=True, retain_graph=True)
    (total,) = torch.autograd.grad(result.sum(), x)
    torch.testing.assert_close(rows.sum(0), total)
