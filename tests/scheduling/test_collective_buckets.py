"""Buckets of collectives: which calls are merged, with the results of the separate calls."""

from __future__ import annotations

import pytest
import torch

from nbcompile.ir import evaluate, verify
from nbcompile.ir.buffer import Extern
from nbcompile.ir.kernel import Kernel
from nbcompile.lowering import lower
from nbcompile.scheduling import collective_buckets, schedule
from tests.support import targets
from tests.support.lowered import flat, require_equal, traced

if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
    pytest.skip("this torch has no gloo", allow_module_level=True)

functions = torch.ops._c10d_functional


@pytest.fixture(scope="module", autouse=True)
def group():
    """A process group with one process."""
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def wait(x):
    return functions.wait_tensor(x)


def launches(function, *inputs):
    """Launches by name, in order; program, schedule and C++ give eager's results, bitwise."""
    graph = traced(function, *inputs)
    seen = []

    def verified(program):
        seen.append(program)
        verify.verify_program(program)

    plan = schedule(lower(graph), verified, buckets=True)
    verify.verify_schedule(plan)
    expected = flat(function(*[each.clone() for each in inputs]))
    for stage in (seen[0], plan):
        require_equal(evaluate.run(stage, [each.clone() for each in inputs], graph), expected)
    require_equal(targets.run_cpp(plan, [each.clone() for each in inputs], graph), expected)
    steps = [step for step in plan.steps if isinstance(step, Kernel | Extern)]
    return ["kernel" if isinstance(step, Kernel) else step.target._opname for step in steps]


def joined(function, *inputs):
    """The number of tensors of each collective, in order."""
    graph = traced(function, *inputs)
    program = collective_buckets.bucket_collectives(lower(graph))
    verify.verify_program(program)
    calls = [each for each in program.buffers if isinstance(each, Extern) and each.target._opname != "wait_tensor"]
    return [len(call.args[0]) if isinstance(call.args[0], list) else 1 for call in calls]


def vector(size=8):
    return torch.randn(size)


@pytest.mark.parametrize("name", ["all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor"])
def test_independent_collectives_of_one_kind_are_one_call(name):
    """Independent collectives of one kind are one call, issued when the last argument is computed."""
    more = {"all_reduce": ("sum",), "all_gather_into_tensor": (1,), "reduce_scatter_tensor": ("sum", 1)}[name]

    def program(x, y):
        begun = [getattr(functions, name)(each, *more, "0") for each in (x.sin(), y.cos())]
        product = torch.outer(x, x) @ torch.outer(x, x)
        first, second = map(wait, begun)
        return first + 1, second.exp(), product

    found = launches(program, vector(), vector(5))
    assert found == ["kernel"] * 2 + [f"{name}_coalesced", "mm"] + ["wait_tensor", "kernel"] * 2


def test_one_that_needs_another_is_another_call():
    """A collective that depends on another one, also through a bucket, is in another bucket: there is no cycle."""

    def chain(x):
        return wait(functions.all_reduce(wait(functions.all_reduce(x, "sum", "0")).sin(), "sum", "0"))

    def crossed(x, y):
        first, other = functions.all_reduce(x, "sum", "0"), functions.all_reduce(y, "max", "0")
        second = functions.all_reduce(wait(other).sin(), "sum", "0")
        last = functions.all_reduce(wait(first).cos(), "max", "0")
        return wait(second), wait(last)

    assert joined(chain, vector()) == [1, 1]
    assert sorted(joined(crossed, vector(), vector())) == [1, 1, 2]
    assert launches(crossed, vector(), vector()).count("all_reduce_coalesced") == 1


def test_equal_kinds_alone_share_a_bucket():
    """A bucket has one kind of reduction, one dtype and one operator; non-contiguous arguments are separate."""

    def program(x, y, z):
        begun = [
            functions.all_reduce(x, "sum", "0"), functions.all_reduce(x + 1, "max", "0"),
            functions.all_reduce(y, "sum", "0"), functions.all_gather_into_tensor(x, 1, "0"),
            functions.broadcast(x, 0, "0"), functions.all_reduce(z.t(), "sum", "0"),
        ]  # fmt: skip
        return [wait(each) for each in begun]

    assert joined(program, vector(), vector().double(), torch.randn(2, 3)) == [1] * 6


def test_large_ones_and_full_buckets(monkeypatch):
    """A large collective gains nothing; a bucket ends before it exceeds the limit."""

    def program(a, b, c, d):
        return [wait(functions.all_reduce(each, "sum", "0")) for each in (a, b, c, d)]

    inputs = [vector(), vector(), vector(), vector(64)]
    assert joined(program, *inputs) == [4]
    monkeypatch.setattr(collective_buckets, "SMALL", 8 * 4)
    assert joined(program, *inputs) == [3, 1]
    monkeypatch.setattr(collective_buckets, "MOST_BYTES", 2 * 8 * 4)
    assert joined(program, *inputs) == [2, 1, 1]


def test_an_input_is_written_after_all_of_the_bucket():
    """A mutation of an input comes after the waits for all results of the bucket that reads it."""

    def program(x, y):
        first, second = (functions.all_gather_into_tensor(each, 1, "0") for each in (x, y.sin()))
        total = wait(second)
        x.copy_(total * 3)
        return wait(first) * 2

    order = launches(program, vector(), vector())
    begun = order.index("all_gather_into_tensor_coalesced")
    # The kernel that writes x needs both waits; the kernel of the other result may run between them.
    assert order[begun:] in (
        ["all_gather_into_tensor_coalesced", "wait_tensor", "wait_tensor", "kernel", "kernel"],
        ["all_gather_into_tensor_coalesced", "wait_tensor", "kernel", "wait_tensor", "kernel"],
        ["all_gather_into_tensor_coalesced", "wait_tensor", "wait_tensor", "kernel"],
    )


def test_without_the_option_nothing_is_joined():
    """Without the option no collectives are merged: all processes have to do the same, so the program has to ask."""

    def program(x, y):
        return [wait(functions.all_reduce(each, "sum", "0")) for each in (x, y)]

    graph = traced(program, vector(), vector())
    plan = schedule(lower(graph))
    assert [step.target._opname for step in plan.steps if isinstance(step, Extern)][:2] == ["all_reduce"] * 2
