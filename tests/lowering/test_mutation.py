"""Mutation of inputs: a read before the mutation gets the old value."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from nbcompile.ir import buffer as ir, evaluate
from nbcompile.ir.expr import apply, constant
from nbcompile.ir.index import indices
from nbcompile.ir.layout import contiguous
from nbcompile.lowering import lower
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.mutation import realize_before_mutation
from nbcompile.scheduling import schedule

aten = torch.ops.aten


def copied(function, *inputs):
    """A graph that ends in aten.copy_ to its first argument."""

    def run(*args):
        result, new = function(*args)
        args[0].copy_(new)
        return result

    graph = make_fx(run, tracing_mode="fake")(*inputs)
    return lower(graph), run


MUTATIONS = {
    "element": lambda x: (x * 2, x + 1),
    "row": lambda x: (x.sum(1), torch.softmax(x, 1)),
    "moved": lambda x: (x.exp(), x.flip(0)),
    "reduced": lambda x: (x + 1, x.sum(0, keepdim=True).expand(8, 8) + x.t()),
    "late reader": lambda x: (x.t() * 3, x - 1),
    "constant": lambda x: (x.clone(), torch.zeros(8, 8)),
}


@pytest.mark.parametrize("name", MUTATIONS)
def test_an_input_is_overwritten_after_its_old_value_is_read(name):
    """With copy_ at the end of a graph, results use the old value, and the argument holds the new one."""
    start = torch.randn(8, 8)
    program, run = copied(MUTATIONS[name], start.clone())
    for stage in (program, schedule(program)):
        mine, theirs = start.clone(), start.clone()
        found = evaluate.run(stage, [mine])
        torch.testing.assert_close(found[0], run(theirs))
        torch.testing.assert_close(mine, theirs)


def test_a_copy_to_an_input_is_a_kernel_unless_it_is_rejected():
    """The kernel stores its result in the input; a rejected copy is a call of ATen with the reason."""
    x = torch.randn(4)
    graph = make_fx(lambda x: x.copy_(x + 1), tracing_mode="fake")(x)
    assert [type(each) for each in lower(graph).buffers if not each.name.startswith("x")][-1] is ir.Pointwise
    (node,) = graph.graph.find_nodes(op="call_function", target=aten.copy_.default)
    buffers = lower(graph, fallbacks={node.name: "bisection"}).buffers
    assert [each.reason for each in buffers if isinstance(each, ir.Extern)] == ["bisection"]


def test_a_lazy_value_is_computed_before_a_call_that_mutates_what_it_loads():
    """A value is realized before the call if it is still needed and loads the mutated buffer."""
    builder, graph, values = Builder(), fx.Graph(), {}
    for name in ("x", "y"):
        node = graph.placeholder(name)
        builder.add(ir.GraphInput(name, torch.float32, torch.device("cpu"), contiguous(indices((4,))), len(values)))
        values[node] = builder.whole(name)
    x, y = values
    for name, loaded in (("reads x", x), ("reads y", y), ("reads x, dead", x)):
        one = constant(1.0, torch.float32)
        values[graph.placeholder(name)] = replace(values[loaded], body=apply("add", values[loaded].body, one))
    late, other, dead = list(values)[2:]
    for node in (late, other):
        graph.call_function(aten.neg.default, (node,))  # not lowered yet: the value is still needed
    before = dict(values)
    builder.extern_call(aten.add_.Tensor, (builder.view_of(values[x]),) * 2, {}, torch.empty(4), "a reason")
    realize_before_mutation(builder, values)
    assert [node for node in values if values[node] is not before[node]] == [late]
    kinds = [type(each) for each in builder.buffers[2:]]
    assert kinds[0] is ir.Pointwise and kinds.index(ir.Pointwise) < kinds.index(ir.Extern)
    assert values[other] is before[other] and values[dead] is before[dead]
