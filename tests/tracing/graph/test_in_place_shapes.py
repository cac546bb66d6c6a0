"""In-place operators whose result does not fit into the tensor that they write."""

from __future__ import annotations

import pytest
import torch

import nbcompile
from nbcompile import errors

FLOATS = "add mul eq gt ge atan2 arctan2 copysign clamp_min clamp_max heaviside hypot fmod remainder floor_divide pow \
ne less greater_equal logical_and xlogy nextafter igamma true_divide".split()
INTS = "bitwise_and bitwise_or bitwise_xor bitwise_left_shift gcd lcm logical_or".split()


def _ones(dtype, *sizes):
    return torch.ones(*sizes, dtype=dtype)


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("shape", [(3, 2), (3,)], ids=str)
@pytest.mark.parametrize(
    ("name", "dtype"), [(name, torch.float32) for name in FLOATS] + [(name, torch.int64) for name in INTS]
)
def test_a_result_that_is_larger_than_the_written_tensor_is_an_error(name, dtype, shape, backend):
    """Eager mode raises a RuntimeError, and so does the compiled function; the written tensor keeps its shape."""

    def function(x, y):
        return getattr(x, name + "_")(y)

    with pytest.raises(RuntimeError):
        function(_ones(dtype, 2), _ones(dtype, *shape))
    x = _ones(dtype, 2)
    with pytest.raises(errors.TorchRuntimeError):
        nbcompile.compile(function, backend=backend)(x, _ones(dtype, *shape))
    assert x.shape == (2,)


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("name", FLOATS)
def test_a_smaller_operand_is_broadcast(name):
    """Operands of fewer dimensions, or of size 1, fit."""

    def function(x, y, z):
        return getattr(getattr(x * 2, name + "_")(y), name + "_")(z)

    arguments = torch.full((3, 2), 2.0), torch.ones(2), torch.ones(3, 1)
    compiled = nbcompile.compile(function, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(*arguments), function(*arguments))


@pytest.mark.usefixtures("nothing_compiled")
def test_symbolic_sizes_stay_symbolic():
    """The check adds no guard on a symbolic size."""
    graphs = []
    compiled = nbcompile.compile(
        lambda x, y: (x * 1).eq_(y), dynamic=True, backend=lambda module, inputs: graphs.append(module) or module
    )
    for size in (3, 4, 5):
        assert torch.equal(compiled(torch.ones(2, size), torch.ones(size)), torch.ones(2, size))
    assert len(graphs) == 1
