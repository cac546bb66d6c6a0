"""The differences on a page are those of the tests."""

from __future__ import annotations

import pytest

from nbcompile.sphinx_ext.differences import Difference, differences, programs


def test_differences_of_a_subject_are_those_of_the_tests():
    """Each program of a file is counted, and each known difference has its reason."""
    names = programs(["random_draws"])
    assert len(names) > 10 and "draws_of_the_module" in names
    found = {each.program: each for each in differences(names)}
    assert set(found) < set(names)
    assert found["draws_of_the_module"].aspects == ("details",) and "drawn number" in found["draws_of_the_module"].why
    with pytest.raises(FileNotFoundError):
        programs(["no_such_file"])


def test_programs_are_the_functions_that_are_marked(tmp_path):
    """Programs are the marked functions, in the order of the requested files."""
    folder = tmp_path / "programs"
    folder.mkdir()
    (folder / "a.py").write_text("@program()\ndef one(): ...\n@other()\ndef no(): ...\n@program\ndef bare(): ...\n")
    (folder / "b.py").write_text("@case(1)\n@other()\ndef two(): ...\ndef helper():\n @program()\n def inner(): ...\n")
    assert programs(["b", "a"], tmp_path) == ["two", "one"]


def test_a_reason_is_said_once(tmp_path):
    """A reason appears once for all aspects that it explains; programs without a difference are omitted."""
    known = {("one", "graphs"): "r.", ("one", "details"): "r.", ("one", "reasons"): "s.", ("other", "graphs"): "t."}
    (tmp_path / "known.py").write_text(f"KNOWN = {known}")
    assert differences(["two", "one"], tmp_path) == [Difference("one", ("graphs", "details", "reasons"), "r. s.")]
