"""A structured trace as entries, read in bounded memory."""

from __future__ import annotations

import gzip
import json

import pytest

from nbcompile.observe import trace_file
from nbcompile.observe.trace_file import Problems

HEAD = "V1125 10:00:00.000000 1 torch/_logging/_internal.py:1] "


def line(name, value=1, rank="", **more):
    return f"{rank}{HEAD}{json.dumps({name: value, **more})}"


def read(tmp_path, *lines, wanted=frozenset({"graph"}), packed=False):
    """The entries of a file with these lines, and the errors."""
    path, problems = tmp_path / "trace.log", Problems()
    data = "".join(f"{each}\n" for each in lines).encode()
    path.write_bytes(gzip.compress(data) if packed else data)
    return list(trace_file.entries(path, wanted, problems)), problems


@pytest.mark.parametrize("packed", [False, True])
def test_a_payload_is_the_lines_that_begin_with_a_tab(tmp_path, packed):
    """A payload is the lines with a leading tab; payloads of unknown names are skipped."""
    found, problems = read(
        tmp_path, line("graph", frame_id=0, frame_compile_id=1), "\ta", "\tb", line("other"), "\tc", packed=packed
    )
    assert [(each.name, each.payload, each.compile_id) for each in found] == [
        ("graph", "a\nb", "0/1"),
        ("other", "", ""),
    ]
    assert problems.sentences() == []


def test_artifacts_have_names_of_their_own(tmp_path):
    """An artifact has its own name, and a compile id may have compiled autograd's form."""
    (entry,), _ = read(
        tmp_path, line("artifact", {"name": "guards"}, frame_id=2, frame_compile_id=0, compiled_autograd_id=1)
    )
    assert entry.name == "guards" and entry.compile_id == "!1/2/0"


def test_ranks_are_in_the_record_or_before_it(tmp_path):
    """``torchrun`` prefixes each line with the rank."""
    found, _ = read(tmp_path, line("graph", rank="[rank3]:"), line("graph", rank="[rank1]:"))
    assert found[0].rank == 3 and found[1].rank == 1


def test_what_is_no_record_is_counted(tmp_path):
    """Invalid lines are counted, because a file may have any content."""
    found, problems = read(tmp_path, "hello", HEAD + "{broken", line("graph"))
    assert len(found) == 1 and problems.unreadable_lines == 2
    assert "2 lines" in problems.sentences()[0]


def test_a_file_that_is_cut_off_is_read_up_to_there(tmp_path):
    """A truncated file is read up to its end, with a note."""
    path, problems = tmp_path / "cut.log", Problems()
    path.write_text(line("graph") + "\n\tab")
    (entry,) = trace_file.entries(path, frozenset({"graph"}), problems)
    assert entry.payload == "ab" and "ends early" in problems.sentences()[-1]


def test_payloads_have_a_limit(tmp_path, monkeypatch):
    """A payload beyond the limit is dropped, with a note."""
    monkeypatch.setattr(trace_file, "MOST_PAYLOAD", 4)
    (entry,), problems = read(tmp_path, line("graph"), "\tab", "\tcdefgh")
    assert entry.payload == "ab" and problems.cut_payloads == 1


def test_files_are_ordered_by_their_first_record(tmp_path):
    """Files are ordered by their first record; files without one come last."""
    first, other = tmp_path / "a.log", tmp_path / "b.log"
    first.write_text(line("graph") + "\n")
    other.write_text("nothing\n")
    assert trace_file.begins(first) == "1125 10:00:00.000000" < trace_file.begins(other)
