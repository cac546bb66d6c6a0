"""Launches on the stand-in driver: checks of a launch, error numbers of faults, and shared memory with the CPU."""

from __future__ import annotations

import types

import pytest
import torch

import nbcompile
from nbcompile.gpu import ptx, simulator
from nbcompile.gpu.memory import Fault, GlobalMemory
from nbcompile.gpu.ptx import UnsupportedInstruction
from nbcompile.gpu.standin import execution
from nbcompile.gpu.standin.execution import Executor, HostMemory


def executor(monkeypatch, outcome=None):
    """An executor of a kernel with 32 threads, whose simulation has this outcome, and its list of simulations."""
    runs = []

    def run(function, programs, given, memory, shared, width, height):
        runs.append((programs, given, memory, shared, width, height))
        if outcome is not None:
            raise outcome

    monkeypatch.setattr(simulator, "run", run)
    monkeypatch.setattr(execution, "parsed", lambda text: text)
    made = Executor(types.SimpleNamespace(blocks=lambda: []))
    image = types.SimpleNamespace(threads=32, shared=64, entry="kernel", parameters=2)
    made.modules[7] = types.SimpleNamespace(image=image, ptx="text")
    return made, runs


def launch(made, *, threads=32, shared=64, name=b"kernel", grid=(2, 3, 4)):
    how = types.SimpleNamespace(grid=grid, block=(threads, 1, 1), shared=shared)
    return made._launch_in_order(7, name, how, [11, 22, 33])


def test_all_programs_run_with_the_arguments_of_the_image(monkeypatch):
    """All programs of the grid run; hidden arguments that the image does not have are not read."""
    made, runs = executor(monkeypatch)
    assert launch(made) == 0 and made.reasons == []
    ((programs, given, _, shared, width, height),) = runs
    assert (programs, given, shared, width, height) == (24, [11, 22], 64, 2, 3)
    assert made._count(7, b"kernel") == 2


@pytest.mark.parametrize("wrong", [{"threads": 64}, {"shared": 0}, {"name": b"other"}])
def test_a_launch_that_is_not_the_images_is_a_mistake(monkeypatch, wrong):
    """A launch that does not fit the image runs nothing, and its reason is recorded."""
    made, runs = executor(monkeypatch)
    assert launch(made, **wrong) == 1
    assert runs == [] and "was launched with" in made.reasons[0]


@pytest.mark.parametrize(("outcome", "result"), [
    (Fault("1 thread outside of every tensor"), execution.ILLEGAL_ACCESS),
    (Fault("an address that is no multiple of 16"), execution.MISALIGNED),
    (Fault("a check fails: index out of bounds"), execution.ASSERT),
    (UnsupportedInstruction("wgmma"), execution.NOT_SUPPORTED),
])  # fmt: skip
def test_a_fault_is_the_error_of_a_gpu(monkeypatch, outcome, result):
    """A fault has the error number of a GPU, and the simulator's text is recorded."""
    made, _ = executor(monkeypatch, outcome)
    assert launch(made) == result and made.reasons == [str(outcome)]


def test_the_device_computes_in_its_own_memory():
    """A kernel stores directly into the tensor: nothing is copied."""
    values = torch.arange(4, dtype=torch.float32)
    memory = HostMemory(check_races=False)
    assert isinstance(memory, GlobalMemory)
    memory.add(values.data_ptr(), 16)
    assert memory.starts == [values.data_ptr()] and memory.ends == [values.data_ptr() + 16]
    memory.contents[0].content[4:8] = 0
    assert values.tolist() == [0.0, 0.0, 2.0, 3.0]


def test_a_kernel_of_a_graph_runs_on_the_device(here):
    """A graph is compiled and launched, and all launches use loaded images."""
    x = torch.randn(100, device="cuda")
    torch.testing.assert_close(nbcompile.compile(lambda x: x.sin() + 1)(x).cpu(), x.cpu().sin() + 1)
    assert here.executor.reasons == [] and here.executor.modules


def test_text_is_parsed_once():
    """The text of equal kernels is parsed once."""
    text = next(iter(execution.cubins.loaded.values())).ptx if execution.cubins.loaded else None
    if text is None:
        compiled = nbcompile.compile(torch.cos)
        compiled(torch.randn(8, device="cuda"))
        text = next(iter(execution.cubins.loaded.values())).ptx
    assert execution.parsed(text) is execution.parsed(text) and isinstance(execution.parsed(text), ptx.Function)


def test_threads_take_turns(monkeypatch):
    """A thread holds the lock from the begin to the end of its turn."""
    made, _ = executor(monkeypatch)
    made._order_replay(1)
    made._order_replay(1)
    made._order_replay(0)
    made._order_replay(0)
    assert made.order.acquire(blocking=False)
    made.order.release()
