"""Section 25: reading what was specialised (DT)."""

import warnings

import pytest
import torch
from torch._dynamo.decorators import mark_unbacked
from torch.fx.experimental.symbolic_shapes import ConstraintViolationError

import nbcompile
from tests.support.counts import guards
from tests.support.watched import same, watch


def marked(size):
    tensor = torch.ones(size)
    torch._dynamo.mark_dynamic(tensor, 0)
    return tensor


def test_DT_1_one_marked_one_static():
    """x marked, y static, x * y is a constraint violation, with the line that specialized the size."""
    with pytest.raises(ConstraintViolationError, match=r"return x \* y"):
        nbcompile.compile(product, backend="eager")(marked(5), torch.ones(5))


def product(x, y):
    return x * y


def test_DT_2_two_marked_and_a_branch():
    """Both marked and x.shape[0] < 10: guards check that the sizes are equal, and the range."""

    def f(x, y):
        z = x * y
        return z + 1 if x.shape[0] < 10 else z

    compiled = watch(f)
    compiled(marked(5), marked(5))
    found = " and ".join(guards(compiled))
    assert "L['y'].size()[0] == L['x'].size()[0]" in found
    assert "2 <= L['x'].size()[0] <= 9" in found


def test_DT_3_unbacked_with_a_check():
    """Unbacked with torch._check(x.shape[0] < 10): 0 and 1 are allowed, and the check itself rejects 12."""

    def f(x):
        torch._check(x.shape[0] < 10)
        return x + 1

    def unbacked(size):
        tensor = torch.ones(size)
        mark_unbacked(tensor, 0)
        return tensor

    compiled = watch(f)
    for size in (5, 0, 1):
        same(compiled(unbacked(size)), torch.ones(size) + 1)
    assert len(compiled.backend) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the program's error, not a failure of the compiler
        for _ in range(2):
            with pytest.raises(RuntimeError, match="Expected cond to be True"):
                compiled(unbacked(12))
    same(compiled(unbacked(7)), torch.ones(7) + 1)
    assert len(compiled.backend) == 3


def test_a_call_outside_of_declared_bounds():
    """mark_unbacked(x, 0, max=8) with size nine runs that call as it is; others are compiled as before."""
    compiled = watch(lambda x: x + 1)
    for size, graphs in ((9, 1), (5, 2), (9, 3), (3, 3)):
        tensor = torch.ones(size)
        mark_unbacked(tensor, 0, min=2, max=8)
        same(compiled(tensor), torch.ones(size) + 1)
        assert len(compiled.backend) == graphs
