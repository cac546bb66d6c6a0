"""Limits on decisions: the first n of a subsystem are allowed, and all are logged."""

from __future__ import annotations

import pytest

from nbcompile.support import fuel


def test_without_a_limit_everything_is_allowed():
    """Without a limit each decision is allowed, and no log exists."""
    assert fuel.allows("fusion", "buf0, buf1")
    assert fuel._limits == []


def test_the_first_decisions_of_a_subsystem_are_allowed():
    """Decisions of other subsystems are not counted; a rejected one is in the log, too."""
    with fuel.limited("fusion", 1) as log:
        assert [fuel.allows("fusion", "a"), fuel.allows("pass", "p"), fuel.allows("fusion", "b")] == [True, True, False]
        assert log == ["a", "b"]
    assert fuel.allows("fusion", "c") and log == ["a", "b"]


def test_the_stricter_of_two_limits_decides():
    """Both limits log the decision."""
    with fuel.limited("graph", 1) as outer, fuel.limited("graph", 0) as inner:
        assert not fuel.allows("graph", "inference")
    assert outer == inner == ["inference"]


def test_a_process_can_be_limited_by_text(tmp_path):
    """``NBCOMPILE_FUEL`` writes each decision to the file at once, one per line."""
    file = tmp_path / "log"
    try:
        fuel.limit_process(f"pass:1:{file}")
        assert [fuel.allows("pass", "one\ntwo"), fuel.allows("pass", "three")] == [True, False]
        assert file.read_text() == "one two\nthree\n"
    finally:
        fuel._limits.clear()


@pytest.mark.parametrize("text", ["fusion", "fusion:some", "colour:3", "fusion:-1:file"])
def test_text_of_another_form_is_rejected(text):
    """The error describes the format."""
    with pytest.raises(ValueError, match="SUBSYSTEM:NUMBER:FILE"):
        fuel.limit_process(text)
    assert fuel._limits == []


def test_an_equal_limit_inside_of_another_one():
    """The end of an equal inner limit does not end the outer one, whose log continues."""
    with fuel.limited("pass", 5) as outer:
        with fuel.limited("pass", 5) as inner:
            pass
        fuel.allows("pass", "first")
    assert (outer, inner) == (["first"], [])
