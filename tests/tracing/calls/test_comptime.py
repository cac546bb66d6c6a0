"""Functions that inspect the trace: their arguments, and the effect of their errors."""

import io

import pytest
import torch
from torch._dynamo.comptime import comptime

import nbcompile


def compiled(function, **options):
    return nbcompile.compile(function, backend="eager", **options)


def test_an_error_of_the_function_is_the_compilations():
    """An assertion about the trace fails while the program is compiled, with its own message."""

    def f(x):
        comptime.assert_static(x.shape[0])
        return x + 1

    with pytest.raises(AssertionError, match="expected static but got dynamic"):
        compiled(f, dynamic=True)(torch.ones(3))
    assert compiled(f, dynamic=False)(torch.ones(3)).tolist() == [2.0, 2.0, 2.0]


def test_it_runs_when_the_frame_is_compiled():
    """A function that inspects the trace runs once for each compilation, not at each call."""
    seen = []

    def look(ctx):
        seen.append((ctx.get_local("k").as_python_constant(), ctx.get_local("y").as_fake().shape))

    def f(x, k):
        y = x * k
        comptime(look)
        return y

    run = compiled(f)
    for k in (True, True, False):
        run(torch.ones(3), k)
    assert seen == [(True, torch.Size([3])), (False, torch.Size([3]))]


def test_the_graph_bytecode_and_guards_are_printed():
    """A function that inspects the trace can print the graph so far, the current instruction and the guards."""
    out = io.StringIO()

    def look(ctx):
        ctx.print_graph(verbose=False, file=out)
        ctx.print_disas(file=out)
        ctx.print_guards(file=out)

    def f(x):
        y = x * 2
        comptime(look)
        return y

    compiled(f)(torch.ones(3))
    text = out.getvalue()
    assert "l_x_ * 2" in text
    assert "-->" in text
    assert "TENSOR_MATCH L['x']" in text
    assert f"{look.__name__}" in text


def test_a_value_can_be_made_static():
    """A size that is forced to be static is a constant of the cache entry: another size causes a recompile."""

    def f(x):
        comptime.force_static(x)
        return x + 1

    graphs = []
    run = nbcompile.compile(f, backend=lambda module, _: graphs.append(module) or module.forward, dynamic=True)
    for size in (3, 4, 3):
        assert run(torch.ones(size)).shape == (size,)
    assert len(graphs) == 2
