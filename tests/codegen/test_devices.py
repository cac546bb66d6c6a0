"""Schedules whose kernels are for the CPU, for GPUs, or for both."""

from dataclasses import replace

import pytest
import torch

from nbcompile.codegen import cpp, devices
from nbcompile.codegen.triton_values import NoTriton
from nbcompile.ir.kernel import Kernel
from tests.support.schedules import pointwise

X = torch.randn(4, 8)
BODIES = {"first": lambda x: x + x, "second": lambda x: x * x}


def moved(schedule, *names):
    """The schedule with some kernels on a GPU."""
    gpu = torch.device("cuda")
    steps = (replace(s, device=gpu) if isinstance(s, Kernel) and s.name in names else s for s in schedule.steps)
    return replace(schedule, steps=tuple(steps))


def test_a_schedule_for_the_cpu_is_what_the_cpu_alone_gets():
    """For a CPU schedule, kernels, C++ and wrapper equal those of the C++ generator."""
    schedule = pointwise([X], BODIES)
    emitted, alone = devices.emit(schedule), cpp.emit(schedule)
    assert [kernel.language for kernel in emitted.kernels] == ["cpp", "cpp"]
    assert (emitted.source, emitted.wrapper) == (alone.source, alone.wrapper)


def test_each_kernel_is_in_the_language_of_its_device():
    """The GPU kernel is Triton and not in the C++ unit; the wrapper launches both kernels."""
    pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
    emitted = devices.emit(moved(pointwise([X], BODIES), "kernel_second"))
    assert [kernel.language for kernel in emitted.kernels] == ["cpp", "triton"]
    assert "kernel_first" in emitted.source and "kernel_second" not in emitted.source
    assert "kernel_first" in emitted.wrapper and "kernel_second" in emitted.wrapper


def test_every_rejection_is_named(monkeypatch):
    """Two kernels without a Triton form raise one error, with the nodes and reasons of both."""

    def reject(kernel, schedule, capability):
        error = NoTriton("no form")
        error.unsupported = {kernel.name: (f"no form of {kernel.name}", (kernel.name,))}
        raise error

    monkeypatch.setattr(devices.triton, "emit_kernel", reject)
    with pytest.raises(NoTriton) as caught:
        devices.emit(moved(pointwise([X], BODIES), "kernel_first", "kernel_second"))
    assert str(caught.value) == "no form of kernel_first; no form of kernel_second"
    assert caught.value.unsupported.keys() == {"kernel_first", "kernel_second"}
