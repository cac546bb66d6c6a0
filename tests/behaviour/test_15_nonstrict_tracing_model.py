"""Section 15: non-strict tracing (NS): make_fx beside nbcompile.compile, with its documented pitfalls."""

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from tests.support.graphs import operators
from tests.support.watched import same, watch

x = torch.ones(3)
G = torch.ones(3)


def by_shape(x):
    return x**2 / 2 if x.shape[0] > 2 else x - 5


def test_NS_1_branch_on_a_shape():
    """make_fx records the taken branch without a guard, which is wrong for another size; nbcompile recompiles."""
    gm = make_fx(by_shape, tracing_mode="fake")(x)
    assert [each.split(".")[0] for each in operators(gm.graph)] == ["pow", "div"]
    one = torch.ones(1)
    assert not torch.equal(gm(one), by_shape(one))
    f = watch(by_shape)
    same(f(x), by_shape(x))
    same(f(one), by_shape(one))
    assert len(f.graphs) == 2


def test_NS_3_global_tensor():
    """make_fx stores a global tensor as a constant, if that is allowed; in nbcompile it is an input."""
    global G

    def g(x):
        return x + G

    with pytest.raises(AssertionError, match="convert all Tensors to FakeTensors"):
        make_fx(g, tracing_mode="fake")(x)
    gm = make_fx(g, tracing_mode="fake", _allow_non_fake_inputs=True)(x)
    f = watch(g)
    f(x)
    before, G = G, torch.zeros(3)
    try:
        same(gm(x), x + before)
        same(f(x), x + G)
    finally:
        G = before
    assert len(f.graphs) == 1


def test_NS_5_print(capsys):
    """print runs only at the capture with make_fx, and in every call with nbcompile."""

    def g(x):
        print("seen", x)
        return x + 1

    gm = make_fx(g, tracing_mode="fake")(x)
    assert "FakeTensor" in capsys.readouterr().out
    gm(x)
    assert capsys.readouterr().out == ""
    f = watch(g)
    f(x)
    f(x)
    assert capsys.readouterr().out.count("seen tensor") == 2


def test_NS_6_mutated_list():
    """make_fx does not shorten a list that the function shortens; nbcompile replays the change."""

    def g(xs):
        return xs.pop()

    xs = [x, x * 2]
    make_fx(g, tracing_mode="fake")(xs)
    assert len(xs) == 2
    f = watch(lambda xs: xs.pop() + 1)
    same(f(xs), x * 2 + 1)
    assert len(xs) == 1


def test_NS_7_data_ptr():
    """A read of the address of a fake tensor is an error."""
    with pytest.raises(RuntimeError, match="Cannot access data pointer"):
        make_fx(lambda x: x + x.data_ptr(), tracing_mode="fake")(x)


def test_NS_8_numbers_are_constants():
    """A number is a constant in make_fx; nbcompile guards it."""

    def g(x, k):
        return x * k

    gm = make_fx(g, tracing_mode="fake")(x, 3.14)
    same(gm(x, 2.0), x * 3.14)
    f = watch(g)
    f(x, 3.14)
    same(f(x, 2.0), x * 2.0)


def test_NS_10_modes():
    """The modes are real, fake and symbolic; `.item()` fails in real mode, and is a node in fake mode."""
    with pytest.raises(AssertionError):
        make_fx(by_shape, tracing_mode="nonsense")(x)
    with pytest.raises(RuntimeError):
        make_fx(lambda x: x + x.sum().item(), tracing_mode="real")(x)
    gm = make_fx(lambda x: x + x.sum().item(), tracing_mode="fake")(x)
    assert any("_local_scalar_dense" in each for each in operators(gm.graph))
