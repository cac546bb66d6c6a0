"""``open`` and ``draw``: an existing record, as text and as a page."""

from __future__ import annotations

import pytest

from nbcompile.__main__ import main
from nbcompile.record import codec
from tests.views import sample_records


@pytest.fixture
def kept(tmp_path):
    path = tmp_path / "seen.json"
    path.write_text(codec.to_json(sample_records.simple()))
    return path


def test_draw_as_text(kept, capsys):
    """A saved record is printed, whole or in part."""
    assert main(["draw", str(kept)]) == 0
    everything = capsys.readouterr().out
    assert main(["draw", str(kept), "--show", "guards"]) == 0
    guards = capsys.readouterr().out
    assert "guards" in guards
    assert len(guards) < len(everything)


def test_draw_as_a_page(kept, tmp_path, capsys):
    """With -o, one HTML file is written, and its path is printed."""
    assert main(["draw", str(kept), "-o", str(tmp_path / "it.html")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "it.html")
    assert (tmp_path / "it.html").read_text().startswith("<!")


@pytest.mark.parametrize(
    ("content", "says"),
    [("not json", "neither a record (JSON)"), ("{}", "no nbcompile record"), (None, "No such file")],
)
def test_what_is_no_record(tmp_path, capsys, content, says):
    """An invalid record file is reported in one line."""
    path = tmp_path / "it.json"
    if content is not None:
        path.write_text(content)
    assert main(["draw", str(path)]) == 2
    assert says in capsys.readouterr().err


def test_an_unknown_section(kept, capsys):
    """An unknown section is reported in one line."""
    assert main(["draw", str(kept), "--show", "gards"]) == 2
    assert "gards" in capsys.readouterr().err
