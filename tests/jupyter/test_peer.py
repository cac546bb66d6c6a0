"""%%compile --peer: the cell runs with the real torch.compile in another process, with a copy of the notebook."""

from __future__ import annotations

import json

import pytest

from nbcompile.jupyter import peer
from nbcompile.record.comparison import EQUAL


def test_names_that_a_cell_reads():
    """The globals of the cell, and of its functions and comprehensions, are found, without locals and attributes."""
    code = compile("def f(x):\n    return [w * y for y in x.z]\nf(data)", "cell", "exec")
    assert {"f", "w", "data"} <= set(peer.names(code))
    assert "y" not in set(peer.names(code))


@pytest.mark.peer
@pytest.mark.timeout(600)
def test_both_see_the_cell(run, shell):
    """Both compile a function that reads another cell's tensor; its value is shown once."""
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
    """If the cell reads a lock, a line says so, and the cell runs as without --peer."""
    run("import threading, torch\nlock = threading.Lock()")
    ran = run("%%compile --peer\ndef f(x):\n    with lock:\n        return x + 1\nf(torch.ones(2))")
    assert ran.error is None, ran.out + ran.err
    assert ran.value.tolist() == [2.0, 2.0]
    assert "nbcompile: --peer: lock:" in ran.out
    assert len(ran.pictures) == 1


def test_a_target_is_rejected(run):
    """--peer with a target is rejected: it compares what runs on this machine."""
    ran = run("%%compile --peer --target sm_90\ndef f(x):\n    return x")
    assert "cannot be used with --target" in ran.err + str(ran.error)


@pytest.mark.peer
@pytest.mark.rotates(4)
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("end", "failure"),
    [
        ("os.kill(os.getpid(), 11)", "killed by signal 11"),
        ("os._exit(0)", "ended before it was finished, with exit code 0"),
        ("os._exit(7)", "exit code 7"),
        ("time.sleep(999)", "did not end within 60 seconds"),
        ("while True: print('x' * 10**6)", "did not end within 60 seconds"),
    ],
)
def test_a_peer_that_does_not_come_to_its_end(run, shell, end, failure):
    """If the other process fails, the cell has its value and picture; the comparison has the exit reason."""
    pytest.importorskip("cloudpickle", reason="`make setup` installs it: it is in the extra `compare`")
    cell = (
        "import os, time, torch\ndef f(x):\n    return x + 1\nvalue = f(torch.ones(2))\n"
        f"if os.environ.get('TORCH_TRACE'):\n    {end}\nvalue"
    )
    seconds = 60 if "60" in failure else 400  # a busy machine takes long to import torch
    ran = run(f"%%compile --peer --seconds {seconds} --backend eager -o seen\n{cell}")
    assert ran.error is None, ran.out + ran.err
    assert ran.value.tolist() == [2.0, 2.0]
    comparison = shell.user_ns["seen"].comparison
    assert comparison.data.their_run.failure.startswith(failure)
    assert json.loads(comparison.to_json())["their_run"]["failure"].startswith(failure)
    assert failure in str(comparison)
    assert len(ran.pictures) == 2
