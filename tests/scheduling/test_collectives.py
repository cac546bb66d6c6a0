"""The order of collectives and their waits in the plan, and the memory of collectives in flight."""

from __future__ import annotations

import pytest
import torch

from nbcompile.ir.buffer import Extern
from nbcompile.ir.kernel import Kernel, Schedule
from nbcompile.scheduling import collectives
from nbcompile.scheduling.dependencies import reads
from tests.support.lowered import check, programs

if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
    pytest.skip("this torch has no gloo", allow_module_level=True)


@pytest.fixture(scope="module", autouse=True)
def group():
    """A process group with one process."""
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def begun(x, operator="all_reduce"):
    functions = torch.ops._c10d_functional
    if operator == "all_reduce":
        return functions.all_reduce(x, "sum", "0")
    return functions.all_gather_into_tensor(x, 1, "0") if operator == "all_gather" else functions.broadcast(x, 0, "0")


def wait(x):
    return torch.ops._c10d_functional.wait_tensor(x)


def order(plan: Schedule) -> list[str]:
    """Launches by name: operators, and kernels."""
    launches = [step for step in plan.steps if isinstance(step, Kernel | Extern)]
    return ["kernel" if isinstance(step, Kernel) else step.target._opname for step in launches]


def square(size=8):
    return torch.randn(size, size)


def test_a_product_is_computed_while_a_sum_is_on_its_way():
    """A collective is issued early, and its wait comes right before the first use of the result."""

    def program(x, y):
        product = y @ y
        total = wait(begun(x.sin()))
        return product + total

    _, plan = check(program, square(), square(), allow_extern=True)
    assert order(plan) == ["kernel", "all_reduce", "mm", "wait_tensor", "kernel"]


def test_only_what_does_not_wait_is_fused_apart():
    """A pointwise kernel that needs no wait is not fused with one that does; the log says so."""

    def program(x, y):
        total = wait(begun(x.sin()))
        alone = (y * 2).exp()
        return alone, total * y + 1, alone.sum()

    _, plan = check(program, square(), square(), allow_extern=True)
    assert order(plan)[:2] == ["kernel", "all_reduce"]
    assert order(plan)[-2:] == ["wait_tensor", "kernel"]
    assert any("on its way" in decision.reason for decision in plan.decisions if not decision.fused)


def test_the_result_of_a_wait_is_the_collectives_memory():
    """The result of a wait is the collective's memory, which is not reused while the result is needed."""

    def program(x):
        total = wait(begun(x.sin()))
        factor = total.exp()
        return total + factor @ factor

    check(program, square(), allow_extern=True)


@pytest.mark.parametrize("operator", ["all_gather", "all_reduce"])
def test_what_a_collective_reads_is_not_reused_before_the_wait(operator):
    """A collective reads its argument until the wait: the memory is not reused before."""

    def program(x, y):
        sent = x.sin()
        gathered = begun(sent, operator)
        for _ in range(3):
            y = (y @ y).cos()
        return wait(gathered) + 1, y

    _, plan = check(program, square(), square(), allow_extern=True)
    assert order(plan)[:2] == ["kernel", f"{operator}{'_into_tensor' if operator == 'all_gather' else ''}"]
    waiting = next(at for at, step in enumerate(plan.steps) if "wait_tensor" in str(getattr(step, "target", "")))
    (sent,) = next(step for step in plan.steps if isinstance(step, Kernel)).writes
    before = [step for step in plan.steps[:waiting] if type(step).__name__ in ("Free", "Reuse")]
    assert sent not in [getattr(step, "memory_of", getattr(step, "buffer", None)) for step in before]


def test_an_input_is_written_after_the_wait():
    """A mutation of the collective's argument comes after the wait."""

    def program(x, y):
        gathered = wait(begun(x, "all_gather"))
        x.copy_(y @ y)
        return gathered * 2

    _, plan = check(program, square(), square(), allow_extern=True)
    assert order(plan).index("wait_tensor") < len(order(plan)) - 1 - order(plan)[::-1].index("kernel")
    assert order(plan)[-1] == "kernel"


@pytest.mark.parametrize("begin", [begun, lambda x: x], ids=["begun here", "begun by another graph"])
def test_what_is_read_by_its_old_name_after_the_wait_is_read_after_it(begin):
    """A kernel that reads the result under the collective's name comes after the wait, too."""

    def program(x, y):
        total = begin(x)
        wait(total)
        return total + 1, (y @ y).sin()

    _, plan = check(program, square(), square(), allow_extern=True)
    steps = [step for step in plan.steps if isinstance(step, Kernel | Extern)]
    waiting = order(plan).index("wait_tensor")
    (waited,) = reads(steps[waiting])
    reading = [at for at, step in enumerate(steps) if isinstance(step, Kernel) and waited in step.reads]
    assert len(reading) == 1
    assert reading[0] > waiting


def test_collectives_keep_their_order():
    """Collectives of several processes match by order; a chain of them is issued as soon as possible."""

    def program(x, y):
        last = begun((x @ x).relu())
        first = begun(y)
        second = begun(wait(first) @ y, "broadcast")
        return wait(second) + wait(last) + x @ y

    program, plan = check(program, square(), square(), allow_extern=True)
    given = [buffer.target._opname for buffer in program.buffers if collectives.is_collective(buffer)]
    assert [name for name in order(plan) if name in ("all_reduce", "broadcast")] == given
    assert order(plan)[-1] == "kernel"


def test_bytes_on_their_way_are_limited(monkeypatch):
    """Above the limit of bytes in flight, a wait comes before the next collective."""

    def program(x, y, z):
        return wait(begun(x)) @ x, wait(begun(y)) @ y, wait(begun(z)) @ z

    inputs = [square() for _ in range(3)]
    assert order(check(program, *inputs, allow_extern=True)[1])[:3] == ["all_reduce"] * 3
    monkeypatch.setattr(collectives, "MOST_BYTES_IN_FLIGHT", 2 * 8 * 8 * 4)
    assert order(check(program, *inputs, allow_extern=True)[1])[:4] == ["all_reduce", "all_reduce", "wait_tensor"] + [
        "all_reduce"
    ]


def test_a_collective_that_another_graph_waits_for_holds_its_memory():
    """If another graph waits for a collective, this graph neither reuses nor frees its memory."""

    def program(x, y):
        sent = x.sin()
        return begun(sent, "all_gather"), (y @ y).cos() @ y

    _, plan = programs(program, square(), square())
    (sent,) = next(step for step in plan.steps if isinstance(step, Kernel)).writes
    assert not [step for step in plan.steps if sent in (getattr(step, "memory_of", ""), getattr(step, "buffer", ""))][
        1:
    ]


def test_an_unused_collective_is_issued():
    """A collective with an unused result is issued: other processes take part in it."""

    def program(x):
        begun(x)
        return x + 1

    assert "all_reduce" in order(programs(program, square())[1])


def test_a_broadcast_has_its_real_strides():
    """The real result of a broadcast is contiguous, though its fake function has the argument's strides."""

    def program(x):
        return wait(begun(x.sin().t(), "broadcast")) * 2

    found, _ = check(program, torch.randn(4, 6), allow_extern=True, exact_strides=False)
    (result, _waited) = (buffer for buffer in found.buffers if type(buffer).__name__ == "ExternOutput")
    assert [int(stride) for stride in result.layout.stride] == [4, 1]


def test_without_collectives_nothing_is_reordered():
    """Without collectives the order of the units is unchanged."""
    found, _ = programs(lambda x: x.sin() @ x, square())
    assert collectives.waits_of(found, {}, []) == {}
    units: list = [object(), object()]
    assert collectives.overlapped(found, units) == units
