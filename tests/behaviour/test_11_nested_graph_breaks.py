"""Section 11: nested graph breaks (NG), in both modes."""

import pytest
import torch

import nbcompile
from nbcompile.record import links
from tests.support.watched import same, watch

x = torch.ones(3)
GB = torch._dynamo.graph_break


def inner1(x):
    x = x + 1
    GB()
    return x + 2


def inner2(x):
    x = x + 4
    x = inner1(x)
    return x + 8


def outer(x):
    x = x + 16
    x = inner2(x)
    return x + 32


def chain(depth):
    """``depth`` callers of a leaf that breaks the graph; each adds before and after its call."""

    def leaf(x):
        x = x + 1
        GB()
        return x + 1

    function = leaf
    for _ in range(depth):
        function = caller_of(function)
    return function


def caller_of(inner):
    def caller(x):
        x = x + 1
        x = inner(x)
        return x + 1

    caller.__code__ = caller.__code__.replace()  # each level has a separate code object
    return caller


def test_NG_1_legacy():
    """By default the break is repeated in each caller: six frames and graphs, three resume functions, one cause."""
    f = watch(outer)
    same(f(x), x + 63)
    assert f.graphs == ["add"] * 6
    assert len(f.frames) == 6
    assert len(f.breaks) == 3
    assert sum(len(each.resume_functions) for each in f.frames) == 3
    (only,) = links.distinct_breaks(f.record)
    assert len(only.frames) == 3


@pytest.mark.parametrize("depth", [1, 2, 4, 8])
def test_NG_2_cost_of_legacy(depth):
    """N callers give 2N+2 graphs and N+1 breaks, and N(N+1)/2 calls are traced."""
    f = watch(chain(depth))
    same(f(x), x + 2 * depth + 2)
    assert len(f.graphs) == 2 * depth + 2
    assert len(f.breaks) == depth + 1
    inlined = sum(len(each.inlined) for each in f.frames)
    assert inlined == depth * (depth + 1) // 2


def test_NG_3_linear():
    """With nested_graph_breaks each frame of the chain resumes: two graphs of three operators, one report."""
    f = watch(outer)
    with nbcompile.config.patch(nested_graph_breaks=True):
        same(f(x), x + 63)
        same(f(x), x + 63)
    assert f.graphs == ["add add add"] * 2
    assert len(f.frames) == 2
    assert len(f.breaks) == 1


@pytest.mark.parametrize("depth", [1, 2, 4, 8, 16])
def test_NG_3_cost_of_linear(depth):
    """N callers give two graphs, two frames and one break at any depth; the number of traced calls is linear in N."""
    f = watch(chain(depth))
    with nbcompile.config.patch(nested_graph_breaks=True):
        same(f(x), x + 2 * depth + 2)
    assert f.graphs == [" ".join(["add"] * (depth + 1))] * 2
    assert len(f.frames) == 2
    assert len(f.breaks) == 1
    assert sum(len(each.inlined) for each in f.frames) == 2 * depth


def test_NG_4_tree_of_resume_functions():
    """The frame has a resume function for each level of the chain, from the innermost outwards."""
    f = watch(outer)
    with nbcompile.config.patch(nested_graph_breaks=True):
        f(x)
    names = [each.name.rpartition("_at_")[0] for each in f.frames[0].resume_functions]
    assert names == [f"torch_dynamo_resume_in_{each}" for each in ("inner1", "inner2", "outer")]


def test_NG_5_live_locals_of_the_callers():
    """Lists, operands and cells of the callers have the same values after the break."""

    def leaf(x):
        GB()
        return x + 1

    def middle(x, kept):
        kept.append(x * 2)
        return [x, leaf(x), len(kept)]

    def g(x):
        kept = [x + 5]
        n = 3

        def closure(y):
            return y * n

        got = (kept[0], middle(x, kept))
        n = 4
        return kept, got, closure(x)

    f = watch(g)
    with nbcompile.config.patch(nested_graph_breaks=True):
        kept, got, closed = f(x)
        expected = g(x)
    same((kept, got, closed), expected)
    assert kept[0] is got[0]
    assert len(f.graphs) == 2


def test_NG_5_a_resumed_function_breaks_again():
    """A second break in the same chain resumes again, with three graphs."""

    def leaf(x):
        x = x + 1
        GB()
        x = x * 2
        GB()
        return x - 1

    def g(x):
        return leaf(x + 10) * 3

    f = watch(g)
    with nbcompile.config.patch(nested_graph_breaks=True):
        same(f(x), g(x))
    assert f.graphs == ["add add", "mul", "sub mul"]


def test_NG_5_branch_on_data_in_a_callee():
    """A data-dependent branch in a callee: both sides continue with the whole chain."""

    def leaf(x):
        if x.sum() > 0:
            return x + 1
        return x - 1

    def g(x):
        return leaf(x * 2) * 3

    f = watch(g)
    with nbcompile.config.patch(nested_graph_breaks=True):
        for each in (x, -x, x):
            same(f(each), g(each))
    assert f.graphs == ["mul sum gt", "add mul", "sub mul"]


def test_NG_5_methods_modules_and_contexts():
    """The chain contains methods of modules, no_grad in a caller and keyword arguments."""

    class Inner(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(3))

        def forward(self, x, *, scale):
            x = x * self.weight
            GB()
            return x * scale

    class Outer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x):
            with torch.no_grad():
                y = self.inner(x + 1, scale=2.0)
            return y + torch.is_grad_enabled()

    module = Outer()
    f = watch(module)
    with nbcompile.config.patch(nested_graph_breaks=True):
        same(f(x), module(x))


def test_NG_6_disable_nested_graph_breaks():
    """disable_nested_graph_breaks restores the default mode for a region."""
    limited = torch._dynamo.disable_nested_graph_breaks(inner2)

    def g(x):
        x = x + 16
        x = limited(x)
        return x + 32

    f = watch(g)
    with nbcompile.config.patch(nested_graph_breaks=True):
        same(f(x), x + 63)
    assert len(f.graphs) == 6


def test_NG_7_generators():
    """A break inside a generator cannot resume: the function that consumes the generator is skipped."""

    def items(x):
        yield x + 1
        GB()
        yield x + 2

    def g(x):
        total = x * 2
        for each in items(x):
            total = total + each
        return total

    for nested in (False, True):
        f = watch(g)
        with nbcompile.config.patch(nested_graph_breaks=nested):
            same(f(x), g(x))
        assert f.graphs == []


def test_NG_7_fullgraph_wins():
    """fullgraph=True raises an error in the linear mode, too."""
    with nbcompile.config.patch(nested_graph_breaks=True), pytest.raises(nbcompile.exc.Unsupported):
        watch(outer, fullgraph=True)(x)


def test_NG_8_default():
    """The linear mode is not the default, as in torch 2.13."""
    assert nbcompile.config.nested_graph_breaks is False


def test_NG_9_frames_are_linear_calls_are_not():
    """By default the number of frames is linear in the depth, and that of the traced calls quadratic."""
    counts = []
    for depth in (2, 4):
        f = watch(chain(depth))
        f(x)
        counts.append((len(f.frames), sum(len(each.inlined) for each in f.frames)))
    assert counts == [(6, 3), (10, 10)]
