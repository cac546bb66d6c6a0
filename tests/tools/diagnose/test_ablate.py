"""Rows of the ladder: what differs by chance, and times of a call or of a whole program."""

from __future__ import annotations

from nbcompile.tools.diagnose.ablate import Ablation, Row, confirmed


def test_a_rung_that_differs_is_tried_twice():
    """One that differs each time is a change; one that does so once is said to do it by chance; one that is right runs once."""
    turns = iter(["differs", "differs"])
    assert confirmed("rung", lambda: (next(turns), 1.0)) == Row("rung", "differs", 1.0)
    turns = iter(["differs", ""])
    assert confirmed("rung", lambda: (next(turns), 1.0)).difference == "by chance: once differs, then as eager"
    turns = iter([""])
    assert confirmed("rung", lambda: (next(turns), 2.0)) == Row("rung", "", 2.0)


def test_times_of_a_call_and_of_a_program():
    """A call in microseconds; a program in seconds, and slower only where more than compilation can explain is added."""
    rows = (Row("eager", "", 2.0), Row("capture", "", 9.0), Row("everything", "", 90.0))
    call, program = Ablation(rows), Ablation(rows, whole_program=True)
    assert "us per call" in str(call)
    assert "9000000.0" in str(call)
    assert [row.rung for row in call.slower] == ["capture", "everything"]
    lines = str(program).splitlines()
    assert lines[0].endswith("seconds")
    assert lines[2].split()[-1] == "9.0"
    assert [row.rung for row in program.slower] == ["everything"]
