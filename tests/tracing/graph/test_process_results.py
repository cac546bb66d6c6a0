"""Process state that a function reads and that GLOBAL_STATE does not compare has a separate guard."""

import pytest
import torch

import nbcompile
from tests.support.graphs import Graphs


@pytest.fixture
def autocast_dtype():
    """A fixture that sets autocast's CPU dtype, and restores it at the end."""
    before = torch.get_autocast_dtype("cpu")
    yield lambda dtype: torch.set_autocast_dtype("cpu", dtype)
    torch.set_autocast_dtype("cpu", before)


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("backend", ["eager", "nbcompile"])
def test_the_dtype_of_autocast_changes_while_autocast_is_off(autocast_dtype, backend):
    """Another dtype of autocast causes a recompile, because a context without a dtype uses it."""

    def function(x):
        with torch.autocast("cpu"):
            return x @ x, torch.get_autocast_dtype("cpu")

    compiled = nbcompile.compile(function, backend=backend, fullgraph=True)
    x = torch.ones(2, 2)
    for dtype in (torch.bfloat16, torch.float16, torch.bfloat16):
        autocast_dtype(dtype)
        for _ in range(3):
            product, asked = compiled(x)
            assert product.dtype == asked == dtype


@pytest.mark.usefixtures("nothing_compiled")
def test_a_dtype_of_autocast_that_the_function_sets():
    """The guard checks the dtype at the function's entry, not the one that it sets: one entry serves all calls."""

    def function(x):
        before = torch.get_autocast_dtype("cpu")
        torch.set_autocast_dtype("cpu", torch.float16)
        with torch.autocast("cpu"):
            product = x @ x
        torch.set_autocast_dtype("cpu", before)
        return product

    graphs = Graphs()
    compiled = nbcompile.compile(function, backend=graphs, fullgraph=True)
    assert [compiled(torch.ones(2, 2)).dtype for _ in range(3)] == [torch.float16] * 3
    assert len(graphs) == 1
    assert torch.get_autocast_dtype("cpu") == torch.bfloat16
