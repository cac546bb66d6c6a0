"""Writes through ``x.data``: autograd sees neither a new version nor a derivative."""

import pytest
import torch

import nbcompile


def adds(x):
    x.data.add_(1)


def scales_a_part(x):
    x.data[0].mul_(3)
    return x * 2


def of_a_view(x):
    x.view(-1).data.zero_()
    return x + 1


def sets(x):
    x.data[1:] = 5
    return x.sum()


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("write", [adds, scales_a_part, of_a_view, sets])
def test_writes_unseen(write, backend):
    """Values, versions and the derivative of what was computed before equal eager's."""

    def played(function):
        x = torch.arange(1.0, 4.0, requires_grad=True)
        before = (x * x).sum()
        version = x._version
        result = function(x)
        before.backward()
        return result, x.detach(), x.grad, x._version - version

    expected = played(write)
    found = played(nbcompile.compile(write, backend=backend))
    assert found[-1] == expected[-1]
    torch.testing.assert_close(found[:-1], expected[:-1])
