"""Programs in separate processes, and work in threads."""

import os
import sys

import pytest

from tests.support.processes import ROOT, command, python
from tests.support.threads import in_threads


def test_what_a_program_prints(tmp_path):
    """A program may be text or a file, with arguments, in a folder."""
    (tmp_path / "program.py").write_text("import os, sys; print(os.getcwd(), *sys.argv[1:])")
    assert python(tmp_path / "program.py", "a", "b", folder=tmp_path) == f"{tmp_path.resolve()} a b\n"
    assert python("import sys; print(sys.argv[1:])", "a") == "['a']\n"


def test_variables_are_set_and_removed(monkeypatch):
    """Only the named variables change, and the tested package can be imported."""
    monkeypatch.setenv("NBCOMPILE_ONE", "1")
    monkeypatch.setenv("NBCOMPILE_TWO", "2")
    text = "import os; print(*(os.environ.get(n) for n in ('NBCOMPILE_ONE', 'NBCOMPILE_TWO', 'NBCOMPILE_THREE', 'PYTHONPATH')))"
    assert python(text, NBCOMPILE_ONE=None, NBCOMPILE_THREE=3).split() == ["None", "2", "3", str(ROOT)]
    assert os.environ["NBCOMPILE_ONE"] == "1"


def test_another_end_is_an_error_that_shows_what_was_written():
    """An unexpected exit status is an error with the status and stderr; an expected one, or any, is not."""
    text = "import sys; sys.stderr.write('why'); sys.exit(3)"
    with pytest.raises(AssertionError, match="(?s)ended with 3.*why"):
        python(text)
    assert command(sys.executable, "-c", text, status=3).stderr == "why"
    assert command(sys.executable, "-c", text, status=None).returncode == 3


def test_what_is_given_is_read():
    """The given text is read on standard input."""
    assert python("print(input() * 2)", given="ab\n") == "abab\n"


def test_threads_begin_together_and_raise():
    """No thread finishes before the last one starts; results are in order, and an exception is raised."""
    began = []
    assert in_threads(lambda number: (began.append(number), number * 2)[1], 3) == [0, 2, 4]
    assert sorted(began) == [0, 1, 2]
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda number: 1 // number, 2)
