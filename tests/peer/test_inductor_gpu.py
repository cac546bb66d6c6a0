"""nbcompile/peer/inductor_gpu.py: Inductor's CUDA code without a GPU, in nbcompile's simulator of Triton."""

from __future__ import annotations

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")

from nbcompile.gpu.chip import CHIPS
from nbcompile.peer import inductor_gpu

PROGRAMS = {
    "a transpose": (lambda x, y: x.t() + y, (torch.randn(40, 70), torch.randn(70, 40)), ["triton_poi"]),
    "a sum in two steps": (lambda x: x.sum(), (torch.randn(70_000),), ["triton_red", "triton_per"]),
}
"""A function, its inputs, and the first ten characters of each name of Inductor's kernels."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_inductors_code_gives_eagers_results(name):
    """Results are eager mode's, also with a grid of two dimensions; predicted times are not below the roofline's."""
    function, inputs, kernels = PROGRAMS[name]
    graph = make_fx(function)(*inputs)
    launches, (result,) = inductor_gpu.simulate(graph, inputs, CHIPS["sm_90"])
    torch.testing.assert_close(result, function(*inputs), rtol=1e-4, atol=1e-3)
    assert [launch.name[:10] for launch in launches] == kernels
    assert all(0 < launch.times.roofline <= launch.times.predicted for launch in launches)


def test_what_was_pretended_is_put_back():
    """After an error, too, torch.cuda is restored: is_available() and get_device_properties are as before."""

    def rejected(x):
        raise ValueError("no such graph\nat all")

    before = torch.cuda.is_available(), torch.cuda.get_device_properties
    with pytest.raises(inductor_gpu.NoCodeError, match="^ValueError: no such graph$"):
        inductor_gpu.simulate(rejected, [torch.ones(3)], CHIPS["sm_90"])
    assert (torch.cuda.is_available(), torch.cuda.get_device_properties) == before
