"""A record with its views, and its parts as data."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nbcompile.record import codec
from nbcompile.record.model import Timing
from nbcompile.views import html
from nbcompile.views.explanation import Explanation
from tests.views import sample_records

EMPTY = Explanation(sample_records.empty())


def test_a_picture_that_fails_is_a_sentence(monkeypatch):
    """If a picture fails, the cell has its result, and both forms name the function and the reason."""

    def fails(*arguments, **keywords):
        raise KeyError("no such node")

    monkeypatch.setattr(html, "render", fails)
    shown = Explanation(sample_records.simple())._repr_mimebundle_()
    assert shown["text/html"] == "nbcompile: f cannot be drawn: KeyError: 'no such node'"
    assert "cannot be drawn" not in shown["text/plain"]


def test_sections_are_chosen_by_name():
    """Several sections may be chosen; an unknown one is rejected, and the explanation does not change."""
    explanation = Explanation(sample_records.simple())
    assert explanation.show("guards,graph").sections == explanation.show("guards", "graph").sections
    assert explanation.show("guards").show().sections is None and explanation.sections is None
    with pytest.raises(ValueError, match="nothing"):
        explanation.show("nothing")


def test_a_result_is_returned_or_raised():
    """``result`` returns the value or raises the error, when it is read."""
    assert Explanation(EMPTY.record, returned=3).result == 3
    failed = Explanation(EMPTY.record, exception=ValueError("no"))
    assert repr(failed)
    with pytest.raises(ValueError, match="no"):
        _ = failed.result


def test_parts_of_a_record():
    """A break that ended several frames is one break; skipped frames have no graph."""
    nested = Explanation(sample_records.nested())
    (cause, times), *others = nested.breaks
    assert not others and times == sum(len(frame.breaks) for frame in nested.record.frames) and cause.title
    assert nested.graph_break_count == 1 and nested.graph_count == len(nested.graphs) == len(nested.operators)
    again = Explanation(sample_records.recompiled())
    assert 0 < len(again.recompiles) < len(again.record.frames)
    assert (EMPTY.graphs, EMPTY.guards, EMPTY.breaks, EMPTY.kernels, EMPTY.recompiles, EMPTY.operators) == ((),) * 6
    assert Explanation(sample_records.skipped()).graph_count == 0


def test_times_of_a_stage_are_added_up():
    """The times of a stage are added over all frames."""
    timings = (Timing("0/0", "tracing", 0.5), Timing("1/0", "tracing", 0.25), Timing("0/0", "guards", 1.0))
    assert Explanation(replace(EMPTY.record, timings=timings)).seconds == {"tracing": 0.75, "guards": 1.0}


def test_files(tmp_path):
    """The JSON file reads back as the same record; a reproducer needs an existing frame with a graph."""
    explanation = Explanation(sample_records.simple())
    assert codec.from_json(explanation.save(tmp_path / "f.json").read_text()) == explanation.record
    compile(explanation.reproducer(tmp_path / "f.py").read_text(), "f.py", "exec")
    assert "<h1>nbcompile: f</h1>" in explanation.report(tmp_path / "f.html").read_text()
    assert explanation.trace(tmp_path / "f.trace").exists()
    with pytest.raises(ValueError, match="no frame of the record has a graph"):
        EMPTY.reproducer(tmp_path / "g.py")
    with pytest.raises(ValueError, match="there is no frame '9/9'"):
        explanation.reproducer(tmp_path / "g.py", "9/9")
    assert not (tmp_path / "g.py").exists()
