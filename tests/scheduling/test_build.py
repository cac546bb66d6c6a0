"""The kernel of a group: its passes, values from earlier passes, and stores."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from nbcompile.ir.buffer import LoopBuffer
from nbcompile.ir.expr import Load
from nbcompile.ir.kernel import Accumulate, Carry, Let, Nest, Store
from nbcompile.ir.traversal import walk
from nbcompile.lowering import lower
from nbcompile.scheduling.build import MEMORY, RECOMPUTE, SCRATCH, _Builder, build_kernel
from nbcompile.scheduling.groups import join, singleton_group
from tests.support.lowered import traced

GPU = torch.device("cuda")


def group_of(function, *inputs, device=None):
    """A group of all loop buffers of a function, and the program."""
    program = lower(traced(function, *inputs))
    buffers = [buffer for buffer in program.buffers if isinstance(buffer, LoopBuffer)]
    if device is not None:
        buffers = [dataclasses.replace(buffer, device=device) for buffer in buffers]
    group = singleton_group(buffers[0])
    for buffer in buffers[1:]:
        group = join(group, buffer)
    return group, program


def built(function, *inputs, also_stored=(), device=None):
    """The builder after planning, and the kernel."""
    group, program = group_of(function, *inputs, device=device)
    stored = {view.buffer for view in program.outputs if hasattr(view, "buffer")}
    names = [member.buffer.name for member in group.members]
    stored |= {names[at] for at in also_stored}
    builder = _Builder("k", group, stored, program.tensors())
    return builder, builder.kernel(), program


def nests(kernel):
    return [statement for statement in kernel.body if isinstance(statement, Nest)]


def inside(kernel, cls):
    """The statements of one class in the loop nests."""
    return [part for nest in nests(kernel) for part in nest.body if isinstance(part, cls)]


def softmax(x):
    return torch.softmax(x, -1)


def test_a_row_is_gone_through_as_often_as_a_later_value_needs_an_earlier_one():
    """A softmax has three passes over the row: the maximum, the sum, the quotients."""
    _, kernel, _ = built(softmax, torch.randn(8, 32))
    assert len(nests(kernel)) == 3
    assert [part.kind for part in inside(kernel, Accumulate)] == ["max", "sum"]


def also_returned(x):
    """A value that is stored in any case."""
    y = x.exp().sin()
    return y, y / y.sum(1, keepdim=True)


def of_a_scan(x):
    c = x.cumsum(1)
    return c / c.sum(1, keepdim=True)


@pytest.mark.parametrize(("function", "size", "device", "strategy"), [
    (softmax, (8, 32), None, SCRATCH),  # a row that stays in the cache
    (also_returned, (8, 32), None, MEMORY),  # loaded again from the stored result
    (softmax, (16, 1 << 17), None, MEMORY),  # a row that is too long for the cache
    (softmax, (16, 1 << 16), GPU, RECOMPUTE),  # a GPU has no cache for the row
    (of_a_scan, (16, 1 << 16), GPU, MEMORY),  # a random number cannot be recomputed
])  # fmt: skip
def test_how_a_later_pass_gets_a_value_of_an_earlier_one(function, size, device, strategy):
    """Length, device and cost decide between recomputation, a load and a scratch row; only a CPU has scratch rows."""
    builder, kernel, _ = built(function, torch.empty(size), device=device)
    assert list(builder.strategy.values()) == [strategy]
    assert [scratch.name for scratch in kernel.scratch] == [f"row_{name}" for name in builder.strategy][
        : strategy == SCRATCH
    ]


def test_what_one_later_pass_needs_is_computed_there():
    """The difference from the mean is computed in the pass that needs it, without scratch memory."""
    builder, kernel, _ = built(lambda x: torch.nn.functional.layer_norm(x, (16,)), torch.randn(8, 16))
    assert builder.strategy == {} and len(nests(kernel)) == 3


def test_nothing_is_stored_that_nothing_outside_reads():
    """A value that only the kernel reads is a local variable, and is not stored."""

    def f(x):
        return (x - x.mean(1, keepdim=True)).sum(1)

    _, kernel, program = built(f, torch.randn(6, 10))
    stores = [statement for statement in (*kernel.body, *inside(kernel, Store)) if isinstance(statement, Store)]
    assert {store.buffer for store in stores} == {view.buffer for view in program.outputs}


def test_a_narrow_sum_is_accumulated_wide():
    """A bfloat16 sum is accumulated in float32, and converted once after the pass."""
    _, kernel, _ = built(lambda x: x.sum(1), torch.randn(4, 9).bfloat16())
    (accumulate,) = inside(kernel, Accumulate)
    assert accumulate.name.endswith("_wide") and accumulate.value.dtype == torch.float32
    named, stored = [statement for statement in kernel.body if isinstance(statement, (Let, Store))]
    assert named.value.op == "cast" and named.value.dtype == torch.bfloat16 and stored.value.name == named.name


@pytest.mark.parametrize("function", [lambda x: x.argmax(1), lambda x: x.argmin()])
def test_an_index_counts_in_the_order_of_the_reduced_dims(function):
    """Among equal values the first index in the order of the reduced dims counts."""
    _, kernel, _ = built(function, torch.randn(3, 5))
    (accumulate,) = inside(kernel, Accumulate)
    symbols = [loop.variable for loop in nests(kernel)[0].loops]
    sizes = [int(loop.size) for loop in nests(kernel)[0].loops]
    position = 0
    for symbol, size in zip(symbols, sizes, strict=True):
        position = position * size + symbol
    assert (accumulate.index - position).expand() == 0


def test_a_scan_carries_along_its_dim():
    """A scan carries its value along one dim."""
    _, kernel, _ = built(lambda x: x.cummax(1)[1], torch.randn(3, 5))
    carry = inside(kernel, Carry)[-1]
    assert carry.kind == "argmax" and carry.index == nests(kernel)[0].loops[0].variable


@pytest.mark.parametrize("function", [
    softmax, lambda x: (x - x.mean(1, keepdim=True)).square().sum(1), lambda x: torch.nn.functional.layer_norm(x, (16,)),
    lambda x: (x.exp(), x.exp().sum(1)), lambda x: x.cumsum(1) / x.sum(1, keepdim=True),
], ids=["softmax", "variance", "layer norm", "both", "scan"])  # fmt: skip
def test_no_load_of_a_kernel_is_of_its_own_values(function):
    """A kernel loads only memory that it stored before, or a scratch row: its other values are locals."""
    builder, kernel, _ = built(function, torch.randn(4, 16))
    own = set(builder.produced)
    for name, needed in builder.needed_in.items():  # and each is computed in a pass that needs it, if there is one
        if builder.element[name] and needed and name not in builder.stored:
            assert builder.passes[name] in needed or builder.strategy.get(name)
    memory = {name for name, how in builder.strategy.items() if how == MEMORY}
    for nest in nests(kernel):
        for part in nest.body:
            read = {node.buffer for node in walk(part.value) if isinstance(node, Load)}
            assert read & own <= memory


def test_build_kernel_names_its_buffers_and_nodes():
    """A kernel names its buffers and nodes, so that the record leads to the operators."""
    group, program = group_of(softmax, torch.randn(8, 32))
    kernel = build_kernel("kernel7", group, {view.buffer for view in program.outputs}, program.tensors())
    assert kernel.name == "kernel7" and kernel.buffers == tuple(member.buffer.name for member in group.members)
    assert kernel.from_nodes and kernel.from_nodes == group.from_nodes()
