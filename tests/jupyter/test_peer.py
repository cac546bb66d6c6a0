"""%%compile --peer: the cell again through the real torch.compile, in a process with a copy of the notebook."""

from __future__ import annotations

import pytest

from nbcompile.jupyter import peer
from nbcompile.record.comparison import EQUAL


def test_names_that_a_cell_reads():
    """Globals of the cell, and of functions and comprehensions in it; no attribute is missed, no local is taken."""
    code = compile("def f(x):\n    return [w * y for y in x.z]\nf(data)", "cell", "exec")
    assert {"f", "w", "data"} <= set(peer.names(code))
    assert "y" not in set(peer.names(code))


@pytest.mark.peer
@pytest.mark.timeout(600)
def test_both_see_the_cell(run, shell):
    """A function of the cell that reads a tensor of another cell is compiled by both; its value is shown once."""
    pytest.importorskip("cloudpickle", reason="`make setup` installs it: it is in the extra `compare`")
    run("import torch\nw = torch.full((3,), 2.0)\nclass Scale:\n    by = 3.0\nscale = Scale()")
    ran = run("%%compile --peer -o seen\ndef f(x):\n    return x * w + scale.by\nf(torch.ones(3))")
    assert ran.error is None, ran.out + ran.err
    assert ran.value.tolist() == [5.0] * 3
    data = shell.user_ns["seen"].comparison.data
    assert data.their_run.failure == ""
    (pair,) = data.frames
    assert pair.ours
    assert pair.theirs
    assert [line.ours.operators == line.theirs.operators for line in pair.lines] == [True, True]
    assert len([guard for guard in pair.guards if guard.status == EQUAL]) > 5
    assert len(ran.pictures) == 2


def test_what_cannot_be_sent_costs_no_value(run):
    """A lock that the cell reads: one line says so, and the cell runs and is shown as without --peer."""
    run("import threading, torch\nlock = threading.Lock()")
    ran = run("%%compile --peer\ndef f(x):\n    with lock:\n        return x + 1\nf(torch.ones(2))")
    assert ran.error is None, ran.out + ran.err
    assert ran.value.tolist() == [2.0, 2.0]
    assert "nbcompile: --peer: lock:" in ran.out
    assert len(ran.pictures) == 1


def test_a_target_is_refused(run):
    """--peer compares what runs on this machine."""
    ran = run("%%compile --peer --target sm_90\ndef f(x):\n    return x")
    assert "cannot be used with --target" in ran.err + str(ran.error)
