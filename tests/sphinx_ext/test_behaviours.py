"""The table of behaviours is generated from the tests."""

from __future__ import annotations

import pytest

from nbcompile.sphinx_ext import behaviours as module
from nbcompile.sphinx_ext.behaviours import Behaviours, behaviours
from tests.sphinx_ext import pages

TESTS = '''
"""2: Graph breaks.

More about them.
"""

@differs("another text")
def test_CB_6_graphs_of_a_branch():
    """A comparison
    is the last operator."""

@pytest.mark.parametrize("x", [1])
@pytest.mark.xfail(reason="not yet", strict=True)
def test_CB_7_and_8_both(x):
    """Both."""

class TestMore:
    def test_GB_1_and_CB_9_others(self): "Other prefixes."

def test_something_else():
    """No behaviour."""
'''


def test_a_row_is_what_a_test_says_of_itself(tmp_path):
    """A test's name has one or two ids, its docstring the text, and its decorators the outcome."""
    (tmp_path / "test_a.py").write_text(TESTS.lstrip())
    (tmp_path / "test_b.py").write_text("def test_FG_1_x(): pass\n")
    (tmp_path / "support.py").write_text("def test_FG_2_x(): pass\n")
    found = {each.ids: each for each in behaviours(tmp_path)}
    assert {ids: each.outcome for ids, each in found.items()} == {
        ("CB-6",): "differs: another text",
        ("CB-7", "CB-8"): "open: not yet",
        ("GB-1", "CB-9"): "holds",
        ("FG-1",): "holds",
    }
    assert found["CB-6",].says == "A comparison is the last operator."
    assert found["CB-6",].section == "2: Graph breaks" and found["FG-1",].section == "test_b"


@pytest.mark.parametrize("text", ["def test_CB_6(", "@differs(why)\ndef test_CB_6_x(): ..."])
def test_a_file_that_cannot_be_read_ends_the_build(tmp_path, text):
    """An unreadable file ends the build, because a table without rows would be wrong."""
    (tmp_path / "test_a.py").write_text(text)
    with pytest.raises((SyntaxError, ValueError)):
        list(behaviours(tmp_path))


def test_the_page_counts_what_it_shows(tmp_path, monkeypatch):
    """The page counts behaviours, tests and outcomes, in total and by section, and depends on the tests."""
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_a.py").write_text(TESTS.lstrip())
    monkeypatch.setattr(module, "TESTS", tests)
    monkeypatch.setattr(behaviours, "__defaults__", (tests,))
    document, depends = pages.read(tmp_path, ".. behaviours::", behaviours=Behaviours)
    assert document.astext().count("5 behaviours in 3 tests: 1 hold, 1 differ, 1 open.") == 2
    assert ["CB-7, CB-8", "Both.", "open: not yet"] in pages.cells(document)
    assert "test_a.py" in depends
