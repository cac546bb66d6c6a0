"""Rungs of the ladder: the store, the simulator, flaky results, and times of a call or of a whole program."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch

import nbcompile
from nbcompile.codegen import triton as generator
from nbcompile.fast.disk_cache import storage
from nbcompile.tools.diagnose import ablate as module
from nbcompile.tools.diagnose.ablate import OURS, Ablation, Row, Rung, ablate, confirmed
from tests.tools.diagnose import faults

aten = torch.ops.aten
RUNG = Rung("rung", "inductor")


def test_a_rung_that_differs_is_tried_twice():
    """A rung that differs in both tries is a change; one that differs in one try is flaky.
    One try suffices for a rung that is right or hangs, and after a rung that is known to differ.
    """
    turns = iter(["differs", "differs"])
    assert confirmed(RUNG, lambda: (next(turns), 1.0)) == Row("rung", "differs", 1.0)
    turns = iter(["differs", ""])
    assert confirmed(RUNG, lambda: (next(turns), 1.0)).difference == "by chance: once differs, then as eager"
    turns = iter([""])
    assert confirmed(RUNG, lambda: (next(turns), 2.0)) == Row("rung", "", 2.0)
    turns = iter(["differs"])
    assert confirmed(RUNG, lambda: (next(turns), 1.0), [Row("before", "differs", 1.0)]).difference == "differs"
    turns = iter(["differs", "differs"])
    by_chance = Row("before", "by chance: once differs, then as eager", 1.0)
    assert confirmed(RUNG, lambda: (next(turns), 1.0), [by_chance]).difference == "differs"
    turns = iter(["did not end in time"])
    assert confirmed(RUNG, lambda: (next(turns), 1.0)).difference == "did not end in time"


def test_times_of_a_call_and_of_a_program():
    """A call is timed in microseconds, a program in seconds; a program is slower only beyond its compile time."""
    rows = (Row("eager", "", 2.0), Row("capture", "", 9.0), Row("everything", "", 90.0))
    call, program = Ablation(rows), Ablation(rows, whole_program=True)
    assert "us per call" in str(call)
    assert "9000000.0" in str(call)
    assert [row.rung for row in call.slower] == ["capture", "everything"]
    lines = str(program).splitlines()
    assert lines[0].endswith("seconds")
    assert lines[2].split()[-1] == "9.0"
    assert [row.rung for row in program.slower] == ["everything"]


def exponential(x):
    return x.sin().exp()


@pytest.mark.fast_path
def test_a_wrong_entry_of_the_store(monkeypatch):
    """The entry was stored under a fault that is fixed now: only rungs with the store are wrong."""
    x = torch.randn(4, 6)
    with pytest.MonkeyPatch.context() as patch:
        faults.swapped(aten.exp.default, aten.cos.default)(patch)
        nbcompile.compile(exponential)(x)
    found = ablate(exponential)(x)
    assert found.first_change.rung == "everything", str(found)
    by_name = {row.rung: row.difference for row in found.rows}
    assert by_name["store off"] == ""
    assert by_name["everything, again"].startswith("value 0")


@pytest.mark.fast_path
def test_an_entry_that_is_wrong_when_it_is_loaded(monkeypatch):
    """The compile is right and its stored entry is wrong: the rung that loads it is wrong."""
    original = storage.entries

    def others(key):
        for path, content in original(key):
            yield path, json.loads(json.dumps(content).replace("exp(sin(", "exp(exp("))

    monkeypatch.setattr(storage, "entries", others)
    found = ablate(exponential)(torch.randn(4, 6))
    assert found.first_change.rung == "everything, again", str(found)


def test_wrong_code_for_a_gpu(monkeypatch):
    """A fault of Triton's code changes only the rung with the simulator, which has no time."""
    pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
    original = generator.emit_kernel

    def emit(*arguments):
        emitted = original(*arguments)
        return dataclasses.replace(emitted, source=emitted.source.replace("tl.exp(", "tl.cos("))

    monkeypatch.setattr(generator, "emit_kernel", emit)
    found = ablate(exponential)(torch.randn(4, 6))
    assert found.first_change.rung == "Triton in the simulator", str(found)
    assert found.rows[-1].seconds == 0.0
    assert found.rows[-1] not in found.slower


def test_what_is_not_simulated(monkeypatch):
    """A call that is too long, tensors on other devices, and a missing Triton have a row that says so."""
    pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
    monkeypatch.setattr(module, "OURS", OURS[-1:])
    monkeypatch.setitem(module.ENGINES, "nbcompile", OURS[-1:])
    monkeypatch.setattr(module, "SIMULATION_SECONDS", 0.0)
    found = ablate(exponential)(torch.randn(4, 6))
    assert found.rows[-1].left_out == "left out: its simulation would take too long"
    assert found.first_change is None
    assert "too long" in str(found)
    elsewhere = ablate(lambda x: x + 1)(torch.ones(2, device="meta"))
    assert "tensors on meta" in elsewhere.rows[-1].left_out
    monkeypatch.setattr(module, "obstacle_to", lambda target: "it needs triton" if target else "")
    assert ablate(exponential)(torch.randn(4, 6)).rows[-1].left_out == "left out: it needs triton"
