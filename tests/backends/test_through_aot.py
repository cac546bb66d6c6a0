"""Graphs that AOTAutograd cannot trace, or whose result it would change: they run as captured."""

from __future__ import annotations

import warnings

import pytest
import torch

import nbcompile
from nbcompile import config, errors


@pytest.mark.compiles
def test_a_graph_that_asks_for_data_runs_as_captured_and_says_so():
    """ATen reads a size that is a tensor while the graph runs; a fake tensor has no value, so the graph falls back."""

    def sized_by_a_tensor(n, x):
        return torch.zeros(n) + 1, x.narrow(0, n, 1)

    function = nbcompile.compile(sized_by_a_tensor)
    for n in (4, 2):
        arguments = torch.tensor(n), torch.arange(8.0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            results = function(*arguments)
        assert all(map(torch.equal, results, sized_by_a_tensor(*arguments)))
        told = [str(each.message) for each in caught if each.category is errors.GeneratedCodeWarning]
        assert len(told) == (n == 4), "once, at the first call"
        assert all("runs as it was captured" in each for each in told)


def test_a_float_out_of_a_tensor_compiles_to_generated_code():
    """AOTAutograd asks for constants instead of floats that cannot be tensors; this float has no constant value."""

    def scaled(n, x):
        factor = n.item()
        return x * factor if factor > 1 else x - factor

    function = nbcompile.compile(scaled)
    with config.patch(capture_scalar_outputs=True), warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in (2.5, 0.5, 3.5):
            arguments = torch.tensor(n, dtype=torch.float64), torch.arange(8.0)
            assert torch.equal(function(*arguments), scaled(*arguments))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "aot_eager_decomp_partition", "inductor"])
def test_a_graph_may_set_the_default_dtype(backend):
    """Every run sets the default dtype, for later operators of the graph and for code after the graph."""

    def program(x):
        torch.set_default_dtype(torch.float64)
        wide = torch.ones(2) + x / 2
        return wide, torch.arange(2) / 2

    compiled, x = nbcompile.compile(program, backend=backend), torch.ones(2, dtype=torch.float32)
    try:
        for _ in range(3):
            torch.set_default_dtype(torch.float32)
            wide, halves = compiled(x)
            assert (wide.dtype, halves.dtype, torch.get_default_dtype()) == (torch.float64,) * 3
            assert wide.tolist() == [1.5, 1.5] and halves.tolist() == [0, 0.5]
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("reference", [False, True])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_targets_of_a_margin_loss_end_with_a_negative_class(backend, reference):
    """Values after the end of the targets are no classes: in vectors, in matrices, and with gradients."""
    loss = torch.nn.functional.multilabel_margin_loss
    scores, classes = torch.tensor([[0.1, 0.2, 0.4, 0.8]]), torch.tensor([[3, 0, -1, 1]])
    ended = torch.tensor([[-1, 0, 1, 2]])
    with config.patch(reference=reference):
        for x, t in ((scores, classes), (scores[0], classes[0]), (scores, ended), (scores[0], ended[0])):
            leaves = [x.clone().requires_grad_() for _ in range(2)]
            function = nbcompile.compile(lambda x, t: loss(x * 2, t), backend=backend)
            found, expected = function(leaves[0], t), loss(leaves[1] * 2, t)
            assert torch.equal(found, expected)
            found.backward()
            expected.backward()
            assert torch.equal(leaves[0].grad, leaves[1].grad)
            assert torch.equal(
                nbcompile.compile(loss, backend=backend)(x, t, reduction="none"), loss(x, t, reduction="none")
            )
