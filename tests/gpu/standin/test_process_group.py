"""Collectives on a separate stream: overlap, waits, and memory of collectives in flight.

A held stream runs a collective as late as the waits allow, another one as soon as it is issued: each program is run both
ways, and gives eager mode's results.
"""

from __future__ import annotations

import contextlib
import gc

import pytest
import torch
from torch import nn

import nbcompile
from nbcompile.gpu import capture_limits
from nbcompile.gpu.standin.process_group import StreamGroup, StreamWork
from nbcompile.record.recorder import Recorder
from nbcompile.scheduling import memory

pytestmark = pytest.mark.usefixtures("nothing_is_left")
COLLECTIVES = torch.ops._c10d_functional
BOTH = pytest.mark.parametrize("late", [False, True], ids=["early", "late"])


def summed(x, operator="all_reduce"):
    return getattr(COLLECTIVES, operator)(x, "sum", "0")


def wait(x):
    return COLLECTIVES.wait_tensor(x)


def beside(x, y):
    """A sum over the ranks, kernels that do not depend on it, and one that does."""
    total = wait(summed(x.sin()))
    rows = torch.softmax(y, -1)
    return rows.sum(0).exp() + total


def inputs(*sizes):
    torch.manual_seed(0)
    return [torch.randn(*size, device="cuda") for size in sizes or ((8, 64), (40, 64))]


def same(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def lines(here, *starts):
    return [line for line in here.driver.log() if line.startswith(starts)]


def notes_of(function, given, calls=3):
    """The notes of some calls with a recorded graph; each result is eager mode's."""
    recorder = Recorder("f")
    with recorder.listening():
        compiled = nbcompile.compile(function, mode="reduce-overhead")
        for _ in range(calls):
            same(compiled(*given), function(*given))
    return [note for frame in recorder.frames if frame.compiled_graph for note in frame.compiled_graph.notes]


@BOTH
@pytest.mark.parametrize("stream", [0, 40], ids=["default stream", "another stream"])
def test_kernels_run_beside_a_collective(here, late, stream):
    """The collective is issued first, on its stream; the current stream waits after the kernels, and the CPU never."""
    x, y = inputs()
    with StreamGroup(here, late=late).installed() as group, here.stream(stream):
        compiled = nbcompile.compile(beside)
        same(compiled(x, y), beside(x, y))
        here.driver.clear_log()
        compiled(x, y)
    own = group.stream.stream_id
    log = [line for line in here.driver.log() if not line.startswith(("allocate", "free"))]
    kinds = [" ".join(line.split()[:2]) if line.startswith("launch") else line for line in log]
    at = kinds.index(f"wait stream {own} for stream {stream}")
    assert log[at + 1].startswith("function") and log[at + 1].endswith(f"stream {own}")
    joined = kinds.index(f"wait stream {stream} for stream {own}")
    between = log[at + 2 : joined]
    assert [line.split()[0] for line in between] == ["record", "launch", "launch"]
    assert all("softmax" in line and f"stream {stream} " in line for line in between[1:])
    assert kinds[0].startswith("launch triton_sin") and log[-1].startswith("launch") and joined < len(log) - 1
    assert not any(line.startswith("synchronize") for line in log)


@BOTH
def test_several_on_their_way(here, late):
    """Several collectives in flight keep their order; each wait comes before the first use of its result."""

    def program(x, y, z):
        first, second = summed(x.sin()), COLLECTIVES.all_gather_into_tensor(y.cos(), 2, "0")
        third = COLLECTIVES.reduce_scatter_tensor(z.exp(), "sum", 2, "0")
        alone = torch.softmax(x, -1)
        return wait(third) + 1, wait(first) * alone, wait(second).sum(0)

    given = inputs((8, 64), (4, 16), (6, 10))
    x, y, z = given
    with StreamGroup(here, late=late).installed() as group:
        compiled = nbcompile.compile(program)
        expected = program(*given)
        for found in (compiled(*given), compiled(*given)):
            same(found, expected)
        same(expected[1], 2 * x.sin() * torch.softmax(x, -1))
        same(expected[0], 2 * z.exp()[:3] + 1)
        here.driver.clear_log()
        compiled(*given)
        own = group.stream.stream_id
        assert len(lines(here, f"wait stream {own}")) == len(lines(here, f"wait stream 0 for stream {own}")) == 3
        order = [line.split()[0] for line in lines(here, "function", f"wait stream 0 for stream {own}")]
        assert order == ["function"] * 3 + ["wait"] * 3


@BOTH
def test_memory_on_its_way_is_kept_by_the_plan(here, late):
    """The plan neither frees nor reuses a collective's memory before the wait, and the group keeps nothing."""

    def program(x, y):
        gathered = COLLECTIVES.all_gather_into_tensor(x.sin(), 2, "0")
        for _ in range(4):
            y = torch.softmax(y @ y, -1)
        return wait(gathered).sum(0) + y.sum()

    x, y = inputs((16, 16), (16, 16))
    with StreamGroup(here, late=late).installed():
        expected = program(x, y)  # eager mode relies on the group
    with StreamGroup(here, late=late, keep=False).installed():
        for _ in range(2):
            same(nbcompile.compile(program)(x, y), expected)


def test_memory_that_is_used_too_early_would_be_seen(here, monkeypatch):
    """Without the plan's rule the collective reads freed memory, and the test above would fail."""

    def program(x, y):
        gathered = COLLECTIVES.all_gather_into_tensor(x.sin(), 2, "0")
        for _ in range(3):
            y = torch.softmax(y, -1).cos()
        return wait(gathered).sum(0) + y.sum()

    x, y = inputs((16, 16), (16, 16))
    with StreamGroup(here).installed():
        expected = program(x, y)
    with StreamGroup(here, keep=False).installed():
        monkeypatch.setattr(memory, "read_until_waits", lambda program: {})
        # Other values are there, or no memory: an illegal access.
        with contextlib.suppress(torch.AcceleratorError):
            assert not torch.allclose(nbcompile.compile(program)(x, y), expected)
        here.driver.recover()
    here.calls.reasons.clear()


def test_a_wait_that_is_missing_would_be_seen(here, monkeypatch):
    """Without its wait, a held stream has not run the collective."""
    x, y = inputs()
    with StreamGroup(here).installed():
        expected = beside(x, y)
        compiled = nbcompile.compile(beside)
        compiled(x, y)
        monkeypatch.setattr(StreamWork, "wait", lambda work, timeout=None: True)
        assert not torch.allclose(compiled(x, y), expected)
        # The work without a wait ends here, when its memory is freed.
    here.calls.reasons.clear()


class Averaged(torch.autograd.Function):
    """A parameter whose gradient is summed over the ranks."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return wait(summed(gradient))


@BOTH
def test_gradients_are_summed_while_earlier_layers_are_differentiated(here, late):
    """The last layer's gradient is summed first, while earlier layers are differentiated, as in DDP."""

    def loss(x, first, second):
        hidden = torch.tanh(torch.nn.functional.layer_norm(x * Averaged.apply(first), (64,)))
        return (torch.softmax(hidden * Averaged.apply(second), -1) ** 2).sum()

    x, first, second = inputs((32, 64), (64,), (64,))
    parameters = first.requires_grad_(), second.requires_grad_()
    plain = torch.autograd.grad(
        (torch.softmax(torch.tanh(torch.nn.functional.layer_norm(x * first, (64,))) * second, -1) ** 2).sum(),
        parameters,
    )
    with StreamGroup(here, late=late).installed() as group:
        compiled = nbcompile.compile(loss)
        for _ in range(2):
            here.driver.clear_log()
            found = torch.autograd.grad(compiled(x, *parameters), parameters)
            for mine, alone in zip(found, plain, strict=True):
                torch.testing.assert_close(mine, 2 * alone, rtol=1e-4, atol=1e-5)
        events = [
            line.split()[0]
            for line in lines(here, "function", "launch", f"wait stream 0 for stream {group.stream.stream_id}")
        ]
        issued = [at for at, kind in enumerate(events) if kind == "function"]
        waited = [at for at, kind in enumerate(events) if kind == "wait"]
        assert len(issued) == len(waited) == 2 and issued[-1] < waited[0]
        assert "launch" in events[issued[0] : issued[1]]


@BOTH
def test_small_ones_that_are_joined(here, late):
    """Small sums are merged into one call, each with a separate wait."""

    def program(x, y):
        first, second = wait(summed(x.sin())), wait(summed(y.cos()))
        return first + 1, second * 2

    x, y = inputs((8, 8), (5,))
    with StreamGroup(here, late=late).installed():
        compiled = nbcompile.compile(program, options={"bucket_collectives": True})
        same(compiled(x, y), program(x, y))
        here.driver.clear_log()
        compiled(x, y)
        assert len(lines(here, "function")) == 1


def test_the_record_says_what_runs_beside_it(here):
    """The collective's reason names the overlapping calls and the wait; the wait's reason names who waits."""
    x, y = inputs()
    with StreamGroup(here).installed():
        compiled = nbcompile.explain(beside)(x, y).record.frames[0].compiled_graph
    reasons = {kernel.name.split(".")[1]: kernel.reason for kernel in compiled.kernels if kernel.language == "aten"}
    beside_it = ", ".join(kernel.name for kernel in compiled.kernels if "softmax" in kernel.name)
    assert reasons["all_reduce"] == f"between processes: meanwhile {beside_it}; extern1 (wait_tensor) waits for it"
    assert reasons["wait_tensor"] == (
        "between processes: the current stream waits for extern0 (all_reduce), the CPU continues"
    )
    assert f"# extern0: _c10d_functional.all_reduce.default; {reasons['all_reduce']}" in compiled.wrapper


# -- recorded graphs ---------------------------------------------------------------------


@BOTH
def test_a_recorded_graph_has_the_collective_on_its_stream(here, late):
    """The group's stream is part of the capture from the collective to the wait, and of each replay."""
    x, y = inputs()
    with StreamGroup(here, late=late).installed() as group:
        assert not any("skipping" in note for note in notes_of(beside, (x, y), calls=4))
        log = here.driver.log()
        first = next(at for at, line in enumerate(log) if line.startswith("begin capture"))
        last = next(at for at, line in enumerate(log) if line.startswith("end capture"))
        captured = [line for line in log[first:last] if line.startswith(("captured", "wait"))]
        own = group.stream.stream_id
        begun = next(at for at, line in enumerate(captured) if line.startswith(f"wait stream {own} for"))
        joined = next(at for at, line in enumerate(captured) if line.endswith(f"for stream {own}") and at > begun)
        assert any("softmax" in line for line in captured[begun:joined])
        assert lines(here, "replay")


def unfinished(x, y):
    total = summed(x.sin())
    return torch.softmax(y, -1).sum(0).exp(), total


def begun_elsewhere(x, y):
    return wait(x) + 1, torch.softmax(y, -1).sum(0).exp()


def test_a_collective_that_leaves_the_graph_is_not_recorded(here):
    """A collective without a wait in the graph would leave its stream in the capture (904), so it is not recorded."""
    x, y = inputs()

    with StreamGroup(here).installed() as group:
        recorder = Recorder("f")
        with recorder.listening():
            compiled = nbcompile.compile(unfinished, mode="reduce-overhead")
            for _ in range(3):
                rows, total = compiled(x, y)
                same(wait(total), 2 * x.sin())
                same(rows, torch.softmax(y, -1).sum(0).exp())
    (notes,) = [frame.compiled_graph.notes for frame in recorder.frames if frame.compiled_graph]
    assert notes[0].startswith(
        "skipping cudagraphs due to a collective that is not waited for within the graph (all_reduce)"
    )
    assert are_launched(here, group)


def are_launched(here, group):
    """Return whether no collective is part of a capture: its stream waits for the default stream only."""
    own = group.stream.stream_id
    return set(lines(here, f"wait stream {own}")) == {f"wait stream {own} for stream 0"}


def test_a_capture_that_ends_before_the_wait_leads_to_plain_launches(here, monkeypatch):
    """If the driver rejects the capture, kernels are launched, with right results."""
    monkeypatch.setattr(capture_limits, "_collective_reason", lambda graph_module: "")
    x, y = inputs()
    with StreamGroup(here).installed():
        compiled = nbcompile.compile(unfinished, mode="reduce-overhead")
        for _ in range(3):
            same(wait(compiled(x, y)[1]), 2 * x.sin())
    assert len(lines(here, "begin capture")) == 1
    assert lines(here, "replay") == []


def test_a_wait_for_what_was_begun_elsewhere_is_not_recorded(here):
    """A wait for a collective of another graph is not recorded: a capture must not depend on earlier work (907)."""
    x, y = inputs()
    with StreamGroup(here).installed():
        recorder = Recorder("f")
        with recorder.listening():
            compiled = nbcompile.compile(begun_elsewhere, mode="reduce-overhead")
            for _ in range(3):
                same(compiled(summed(x), y)[0], 2 * x + 1)
    notes = [note for frame in recorder.frames if frame.compiled_graph for note in frame.compiled_graph.notes]
    assert notes[0].startswith("skipping cudagraphs due to a wait for a collective that was begun outside of the graph")


def test_a_backend_that_the_cpu_takes_part_in_is_not_recorded(here, monkeypatch):
    """A gloo collective is not recorded, because a replay would not run its work on the CPU."""
    monkeypatch.setattr(StreamGroup, "getBackendName", lambda group: "gloo")
    x, y = inputs()
    with StreamGroup(here).installed() as group:
        notes = notes_of(beside, (x, y))
    assert "whose backend is gloo (all_reduce)" in notes[0]
    assert are_launched(here, group)


@BOTH
def test_a_graph_that_is_divided_keeps_what_is_on_its_way(here, late):
    """A collective and its wait may be in different parts of a divided graph; the part between them is recorded."""

    def program(x, y):
        gathered = COLLECTIVES.all_gather_into_tensor(x.sin(), 2, "0")
        rows = torch.softmax(y, -1).sum(0).exp()
        chosen = torch.multinomial((y[0] == y[0, 3]).float(), 1)  # one candidate: it cannot be recorded
        more = torch.softmax(rows.cos() + y, -1).sum(0)
        return wait(gathered).sum(0) + more.sum(), chosen

    x, y = inputs((16, 16), (40, 16))
    with StreamGroup(here, late=late).installed():
        expected = program(x, y)
    with StreamGroup(here, late=late, keep=False).installed():
        recorder = Recorder("f")
        with recorder.listening():
            compiled = nbcompile.compile(program, mode="reduce-overhead", fullgraph=True)
            for _ in range(4):
                same(compiled(x, y), expected)
    notes = [note for frame in recorder.frames if frame.compiled_graph for note in frame.compiled_graph.notes]
    assert any(note.startswith("divided for CUDA graphs") for note in notes), notes


# -- faults ------------------------------------------------------------------------------

FAULTS = [
    ("cuEventCreate", 0, 1), ("cuEventCreate", 1, 400), ("cuEventRecord", 0, 400), ("cuEventRecord", 1, 700),
    ("cuStreamWaitEvent", 0, 400), ("cuStreamWaitEvent", 1, 719),
]  # fmt: skip


@pytest.mark.parametrize(("function", "after", "result"), FAULTS)
def test_a_call_of_the_driver_that_fails(here, function, after, result):
    """The error is eager mode's, inputs are unchanged, and the next call succeeds."""
    x, y = inputs()
    before = x.clone(), y.clone()
    with StreamGroup(here, late=False).installed():
        expected = beside(x, y)
        compiled = nbcompile.compile(beside)
        compiled(x, y)
        for call in (beside, compiled):
            here.driver.fail(function, result, after)
            with pytest.raises(torch.AcceleratorError, match="CUDA error"):
                call(x, y)
            here.driver.recover()
        same((x, y), before)
        same(compiled(x, y), expected)
        gc.collect()


@pytest.mark.parametrize(("function", "after", "result"), FAULTS)
def test_a_call_of_the_driver_that_fails_in_a_capture(here, function, after, result):
    """Later calls launch kernels; if the device is lost, eager mode's error is raised."""
    x, y = inputs()
    with StreamGroup(here, late=False).installed():
        expected = beside(x, y)
        compiled = nbcompile.compile(beside, mode="reduce-overhead")
        compiled(x, y)
        here.driver.fail(function, result, after)
        if result >= 700:
            with pytest.raises(torch.AcceleratorError):
                compiled(x, y)
        else:
            same(compiled(x, y), expected)
        here.driver.recover()
        same(compiled(x, y), expected)
        nbcompile.reset()


# -- the group itself --------------------------------------------------------------------


def test_a_held_collective_is_done_when_it_is_waited_for(here):
    """A held collective runs at its wait; before, neither its event nor its stream is done."""
    (x,) = inputs((8,))
    given = x.clone()
    with StreamGroup(here).installed() as group:
        work = group.allreduce([x])
        assert not work.is_completed() and not group.stream.query()
        same(x, given)
        work.wait()
        assert work.is_completed() and group.stream.query()
        same(x, 2 * given)


def test_a_call_that_does_not_return_before_is_on_the_current_stream(here):
    """A synchronous collective, as with ``async_op=False``, is on the current stream; compiled graphs are async."""
    (x,) = inputs((8,))
    given = x.clone()
    options = torch.distributed.AllreduceOptions()
    assert options.asyncOp
    options.asyncOp = False
    with StreamGroup(here).installed() as group:
        here.driver.clear_log()
        assert group.allreduce([x], options).is_completed()
        same(x, 2 * given)
        assert lines(here, "function")[0].endswith(" stream 0")
        compiled = nbcompile.compile(lambda x: wait(summed(x.sin())) + 1)
        compiled(x)
        assert lines(here, "function")[-1].endswith(f" stream {group.stream.stream_id}")


@BOTH
@pytest.mark.parametrize(("operation", "factor"), [("sum", 2), ("avg", 1), ("max", 1), ("min", 1), ("product", None)])
def test_each_reduction_is_that_of_equal_tensors(here, operation, factor, late):
    """The reduction of two equal tensors is twice the tensor, the tensor, or its square, compiled as in eager mode."""

    def program(x):
        return wait(COLLECTIVES.all_reduce(x + 1, operation, "0")), wait(
            COLLECTIVES.reduce_scatter_tensor(x + 1, operation, 2, "0")
        )

    (x,) = inputs((4, 8))
    one = x + 1
    expected = one * factor if factor else one.square()
    with StreamGroup(here, late=late).installed():
        for function in (program, nbcompile.compile(program)):
            same(function(x), (expected, expected[:2]))


def test_an_unknown_reduction_is_an_error(here):
    """An unknown reduction raises an error."""
    (x,) = inputs((4, 8))
    with StreamGroup(here).installed(), pytest.raises(NotImplementedError, match="no reduction 'bxor'"):
        COLLECTIVES.reduce_scatter_tensor(x, "bxor", 2, "0")


def test_a_synchronisation_ends_all_that_was_asked_for(here):
    """A synchronisation of the event, the stream or the device waits for all issued collectives."""
    (x,) = inputs((8,))
    with StreamGroup(here).installed() as group:
        for synchronise in (
            lambda work: work.done.synchronize(),
            lambda work: group.stream.synchronize(),
            lambda work: torch.cuda.synchronize(),
        ):
            work = group.broadcast([x])
            assert not work.is_completed()
            synchronise(work)
            assert work.is_completed()


def test_a_module_with_a_layer_on_its_way(here):
    """Both modes train a layer whose gradient is summed, as in eager mode."""
    torch.manual_seed(0)
    layers = [nn.Linear(16, 8).to("cuda") for _ in range(2)]
    layers[1].load_state_dict(layers[0].state_dict())
    (x,) = inputs((4, 16))
    with StreamGroup(here).installed():
        for layer, call in zip(
            layers, (lambda f: f, lambda f: nbcompile.compile(f, mode="reduce-overhead")), strict=True
        ):
            step = call(
                lambda x, layer=layer: torch.tanh(torch.nn.functional.linear(x, Averaged.apply(layer.weight))).sum()
            )
            for _ in range(4):
                step(x).backward()
                with torch.no_grad():
                    layer.weight -= 0.1 * layer.weight.grad
                layer.weight.grad = None
    torch.testing.assert_close(layers[0].weight, layers[1].weight, rtol=1e-4, atol=1e-5)
