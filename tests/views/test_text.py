"""The plain text of records: complete, stable, readable in a terminal."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from nbcompile.record.model import Record, Timing
from nbcompile.views import text
from tests.views import sample_records as sample

SNAPSHOTS = Path(__file__).parent / "snapshots"


@pytest.mark.parametrize("name", sample.ALL)
def test_the_text_is_as_it_was_read_and_agreed(name):
    """The text equals the snapshot; UPDATE_SNAPSHOTS=1 writes it."""
    path, shown = SNAPSHOTS / f"{name}.txt", text.render(sample.ALL[name]())
    if os.environ.get("UPDATE_SNAPSHOTS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(shown)
    assert shown == path.read_text()


@pytest.mark.parametrize("name", sample.ALL)
def test_equal_records_give_equal_text(name):
    """Equal records have equal text, without times and colours."""
    record = sample.ALL[name]()
    later = replace(record, timings=(Timing("0/0", "trace", 9.0),))
    assert text.render(record) == text.render(later)
    assert "\x1b" not in text.render(record)


def test_times_are_shown_when_asked_for():
    """Only ``show="timings"`` shows times in text."""
    assert "build" in text.render(sample.simple(), "timings")
    assert "221.00 ms" in text.render(sample.simple(), "timings")


def test_prose_stays_below_80_columns():
    """Prose has at most 80 columns, except the user's code and conditions."""
    record = sample.save_break()
    frame = record.frames[0]
    long = replace(frame.breaks[0], explanation="word " * 100, hints=("hint " * 60,), title="title " * 30)
    shown = text.render(replace(record, frames=(replace(frame, breaks=(long,)),)), ["summary", "breaks", "tree"])
    assert shown.count("word") == 100
    assert shown.count("hint") == 60
    assert max(map(len, shown.splitlines())) < 80


def test_one_section_alone():
    """Only the requested section is shown, under its frame."""
    shown = text.render(sample.simple(), "residual")
    assert "graph_out = __compiled_fn" in shown
    assert "TENSOR_MATCH" not in shown
    assert re.search(r"^\[0/0\] f ", shown, re.MULTILINE)


def test_an_empty_record_says_so():
    """An empty record has a sentence that says so."""
    assert "Nothing was compiled" in text.render(Record("f"))
