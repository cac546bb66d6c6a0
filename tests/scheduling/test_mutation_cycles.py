"""Cycles of mutations: inputs that are mutated with each other's old values."""

import pytest
import torch
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx

from nbcompile.aot.decompositions import default_table
from nbcompile.codegen import cpp
from nbcompile.codegen.launch_plan import opaque_values
from nbcompile.lowering.graph import lower
from nbcompile.runtime import program
from nbcompile.scheduling.plan import schedule
from tests.support.targets import compiler


def in_turn(x, y, z):
    x.add_(y)
    y.mul_(x)
    return (x + 0,)


def ring(x, y, z):
    kept = x.clone()
    x.copy_(y + 1)
    y.copy_(z * 2)
    z.copy_(kept.tanh())
    return (kept + z,)


def swapped(x, y, z):
    kept = x.clone()
    x.copy_(y)
    y.copy_(kept)
    return (kept * 2,)


def crosswise(x, y, z):
    first, second = x + y.t(), y * x.t()
    x.copy_(first)
    y.copy_(second)
    return (first + 0,)


def with_sums(x, y, z):
    first, second = x / y.sum(), y / x.sum(0)
    x.copy_(first)
    y.copy_(second)
    return (z + first,)


def onto_itself(x, y, z):
    x.copy_(x.t() + y)
    y.copy_(x.flip(0))
    return (y + 1,)


@pytest.mark.parametrize("function", [in_turn, ring, swapped, crosswise, with_sums, onto_itself])
def test_a_cycle_of_mutations(function):
    """Kernels, not ATen, mutate the inputs as eager mode does."""
    torch.manual_seed(0)
    ours = [torch.randn(9, 9) for _ in range(3)]
    eager = [each.clone() for each in ours]
    graph = make_fx(
        functionalize(function, remove="mutations_and_views"), decomposition_table=default_table(), tracing_mode="fake"
    )(*[each.clone() for each in ours])
    planned = schedule(lower(graph))
    results = program.load(cpp.emit(planned), compiler(), constants=opaque_values(planned))(list(ours))
    for one, two in zip([*results, *ours], [*function(*eager), *eager], strict=True):
        torch.testing.assert_close(one, two)


def test_one_loop_where_places_agree():
    """Two mutations with equal indices are one kernel, without a buffer between them."""
    inputs = [torch.randn(8) for _ in range(3)]
    graph = make_fx(functionalize(in_turn, remove="mutations_and_views"), tracing_mode="fake")(
        *[each.clone() for each in inputs]
    )
    (kernel,) = schedule(lower(graph)).kernels()
    assert not any(name.endswith("_value") for name in kernel.writes)
