"""Collectives that run in eager mode, and answers of a process group while tracing, in one process."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

import nbcompile
from tests.support.one_rank import one_rank  # noqa: F401 - a fixture of every test here


def graphs_of(function, *inputs):
    """The names of the operators in each graph, after a check that the result equals eager mode's."""
    found = []

    def backend(module, _):
        calls = [node for node in module.graph.nodes if node.op.startswith("call")]
        found.append([str(getattr(node.target, "__name__", node.target)) for node in calls])
        return module.forward

    expected = function(*(value.clone() for value in inputs))
    torch.testing.assert_close(nbcompile.compile(function, backend=backend)(*inputs), expected, rtol=0, atol=0)
    return found


@pytest.mark.parametrize("operation", ["SUM", "MAX", "MIN", "PRODUCT"])
def test_a_reduction_in_place_is_one_graph(operation):
    """The graph contains the functional operator, ``wait_tensor`` and ``copy_``."""

    def program(x):
        y = x.sin()
        assert dist.all_reduce(y, getattr(dist.ReduceOp, operation)) is None
        return y * 2

    assert graphs_of(program, torch.randn(4)) == [["sin", "all_reduce", "wait_tensor", "copy_", "mul"]]


def test_a_gradient_goes_past_a_write_as_in_eager_mode():
    """The graph breaks where a tensor requires grad, because the functional operator would reduce the gradient, too."""

    def program(x):
        y = x * 2
        dist.all_reduce(y)
        return y * 3

    assert graphs_of(program, torch.randn(4, requires_grad=True)) == [["mul"], ["mul"]]


@pytest.mark.parametrize(
    "call",
    [
        lambda y: dist.all_reduce(y, async_op=True).wait(),
        lambda y: dist.all_reduce(y[:, ::2].contiguous().to(torch.complex64)),
        lambda y: dist.barrier(),
        lambda y: dist.all_gather_object([None], 3),
        lambda y: dist.broadcast(y, 0),
    ],
    ids=["later", "complex", "barrier", "object", "broadcast"],
)
def test_eager_mode_runs_the_others(call):
    """The graph breaks before the other collectives, and their results can be used after the break."""

    def program(x):
        y = x.sin()
        call(y)
        return y * 2

    first, *others = graphs_of(program, torch.randn(4, 4))
    assert first == ["sin"]
    assert others[-1] == ["mul"]


def test_wrong_sizes_are_eager_modes_error():
    """The exception has the same class as eager mode's."""

    def program(x):
        output = torch.empty(3)
        dist.all_gather_into_tensor(output, x.sin())
        return output

    with pytest.raises(Exception, match=r".") as eager:
        program(torch.randn(4))
    with pytest.raises(type(eager.value)):
        nbcompile.compile(program, backend="eager")(torch.randn(4))


def test_a_group_answers_while_tracing():
    """The size, the rank and the ranks of a group are constants of the graph."""
    world = dist.group.WORLD

    def program(x):
        return x + world.size() + world.rank() + dist.get_rank(world) + len(dist.get_process_group_ranks(world))

    assert graphs_of(program, torch.randn(4)) == [["add"] * 4]


def test_another_group_is_another_entry():
    """A guard checks the group itself: another group needs another cache entry."""
    first, second = dist.group.WORLD, dist.new_group([0])

    def program(x, group):
        return x * (2 if group.group_name == first.group_name else 3)

    compiled = nbcompile.compile(program, backend="eager")
    x = torch.ones(2)
    assert [float(compiled(x, group)[0]) for group in (first, second)] == [2, 3]
