"""Ctrl-C at any moment leaves a process that compiles and computes as before."""

import gc
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import nbcompile

PROGRAM = Path(__file__).with_name("interrupt.py")


def points(how: str, number: int, seed: int, seconds: int) -> Counter[str]:
    """How many interrupts met which stage; what one of them left behind is an error."""
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", "NBCOMPILE_WARM_START": "1"}
    environment.pop("NBCOMPILE_FRAMES_DIR", None)
    command = [sys.executable, str(PROGRAM), how, str(number), str(seed)]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=seconds, check=False)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-6000:]
    met = Counter(json.loads(ran.stdout.splitlines()[-1])["points"])
    del met[""]
    return met


@pytest.mark.timeout(300)
@pytest.mark.parametrize("how", ["timer", "lines"])
def test_interrupts_at_a_sample_of_moments(how):
    """No hook, mode, lock or compiler process is left, nothing half-written is used, and the next call is right."""
    assert points(how, 15, 0, 290).total() == 15


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("how", ["timer", "lines"])
def test_interrupts_at_two_thousand_moments(how):
    """The same, until each stage was interrupted."""
    met = points(how, 2000, 1, 7100)
    assert met.total() == 2000
    stages = {
        "tracing",
        "guards and residual program",
        "lowering",
        "building",
        "store",
        "record",
        "fast calls",
        "dispatch",
        "running",
    }
    assert not stages - met.keys(), met


@pytest.mark.parametrize("holder, name", [(TorchDispatchMode, "__enter__"), (gc, "disable")])
def test_an_interrupt_between_a_change_and_its_block(monkeypatch, holder, name):
    """A mode that was turned on before ``with`` began, a collector that was turned off: as they were after Ctrl-C."""
    change = getattr(holder, name)

    def interrupted(*arguments):
        change(*arguments)
        raise KeyboardInterrupt

    nbcompile.reset()
    f = nbcompile.compile(lambda x: x.sin() + 1, backend="eager")
    monkeypatch.setattr(nbcompile.config, "warm_start", False)  # what is loaded is not traced
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(holder, name, interrupted)
        f(torch.ones(3))
    assert not torch._C._len_torch_dispatch_stack()
    assert gc.isenabled()
    torch.testing.assert_close(f(torch.ones(3)), torch.ones(3).sin() + 1)
