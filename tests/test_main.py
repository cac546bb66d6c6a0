"""python -m nbcompile."""

from __future__ import annotations

import re
import sys

import pytest

from nbcompile.__main__ import main
from nbcompile.record import codec
from nbcompile.tools import doctor
from tests.views import sample_records


@pytest.fixture
def kept(tmp_path):
    path = tmp_path / "seen.json"
    path.write_text(codec.to_json(sample_records.simple()))
    return path


def test_draw_as_text(kept, capsys):
    """A kept record is printed, whole or in part."""
    assert main(["draw", str(kept)]) == 0
    everything = capsys.readouterr().out
    assert main(["draw", str(kept), "--show", "guards"]) == 0
    guards = capsys.readouterr().out
    assert "guards" in guards
    assert len(guards) < len(everything)


def test_draw_as_a_page(kept, tmp_path, capsys):
    """With -o, one HTML file is written, and its path printed."""
    assert main(["draw", str(kept), "-o", str(tmp_path / "it.html")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "it.html")
    assert (tmp_path / "it.html").read_text().startswith("<!")


def test_a_kind_of_break_is_explained(capsys):
    """`explain NB0005` prints its page, as lines of text; what is no kind is an error of one line."""
    assert main(["explain", "NB0005"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("NB0005: Data-dependent branching\n====")
    assert "The condition is computed in line 2, `if x.sum() > 0:`" in " ".join(text.split())
    assert main(["explain", "NB5"]) == 2
    assert "'NB5' is no kind of graph break." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "says"),
    [("not json", "neither a record (JSON)"), ("{}", "no nbcompile record"), (None, "No such file")],
)
def test_what_is_no_record(tmp_path, capsys, content, says):
    """A file that is no record is told in one line."""
    path = tmp_path / "it.json"
    if content is not None:
        path.write_text(content)
    assert main(["draw", str(path)]) == 2
    assert says in capsys.readouterr().err


def test_an_unknown_section(kept, capsys):
    """A section that does not exist is told in one line."""
    assert main(["draw", str(kept), "--show", "gards"]) == 2
    assert "gards" in capsys.readouterr().err


def test_the_tour_without_its_extra(monkeypatch, capsys):
    """Without the extra `notebook`, the tour says what to install before anything is run."""
    monkeypatch.setitem(sys.modules, "jupytext", None)
    monkeypatch.delitem(sys.modules, "nbcompile.tools.tour", raising=False)
    assert main(["tour"]) == 2
    assert 'the tour needs jupytext: pip install "nbcompile[notebook]"' in capsys.readouterr().err


def test_a_program_that_raises(tmp_path, capsys):
    """The page begins with what it raised and where; so does the text, and the exit status is a program's that raised."""
    script = tmp_path / "script.py"
    script.write_text(
        "import torch, nbcompile\n@nbcompile.compile(backend='eager')\ndef f(x):\n"
        "    return torch.relu(x) @ torch.ones(3, 3)\nf(torch.ones(2, 5))\n"
    )
    page, data = tmp_path / "out.html", tmp_path / "out.json"
    assert main([str(script), "--html", str(page), "--json", str(data)]) == 1
    assert "TorchRuntimeError" in capsys.readouterr().err
    assert codec.from_json(data.read_text()).raised.stack[-1].line == 5, "the call; f did not run"
    said = re.sub(r"<[^>]*>", "", page.read_text())
    assert "f raises RuntimeError at line 4: a and b must have same reduction dim" in said
    assert main([str(script)]) == 1
    assert "f raises RuntimeError at line 4" in " ".join(capsys.readouterr().out.split())


def test_a_program_that_raises_has_one_traceback(tmp_path, capsys):
    """It ends in the user's line: what torch raised below it, in 50 frames of its own, is one line of the message."""
    script = tmp_path / "script.py"
    script.write_text(
        "import torch, nbcompile\nnet = nbcompile.compile(torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(8, 4)))\n"
        "def predict(x):\n    return net(x)\npredict(torch.ones(2, 8))\n"
    )
    assert main([str(script)]) == 1
    shown = capsys.readouterr().err
    assert shown.count("Traceback (most recent call last)") == 1
    assert "nbcompile/eval_frame" not in shown
    assert "fake_tensor.py" not in shown
    assert "linear: RuntimeError: a and b must have same reduction dim" in shown


def test_a_data_dependent_branch_is_said_once(tmp_path, capsys):
    """Both sides of the branch are given `z`: the text says so once."""
    script = tmp_path / "script.py"
    script.write_text(
        "import torch, nbcompile\n@nbcompile.compile(backend='eager')\ndef f(x):\n    z = x.sin()\n"
        "    if z.sum() > 0:\n        return z * 2\n    return z - 1\nf(torch.ones(2))\n"
    )
    assert main([str(script)]) == 0
    assert capsys.readouterr().out.count("carries z = ") == 1


def test_doctor(capsys):
    """The doctor finds this Python and this torch good, and names everything that it looked for."""
    assert main(["doctor"]) == 0
    told = capsys.readouterr().out
    for what in (
        "Python",
        "torch",
        "C++ compiler",
        "Graphviz",
        "Triton",
        "CUDA device",
        "kernel store",
        "function store",
    ):
        assert what in told


def test_doctor_without_tools(monkeypatch):
    """What is missing is named with its consequence, and harms nothing."""
    monkeypatch.setattr(doctor.toolchain, "find", lambda: doctor.toolchain.NoCompiler("no C++ compiler: none"))
    monkeypatch.setattr(doctor.dot, "arrange", lambda shown: None)
    found = {finding.what: finding for finding in doctor.examine()}
    assert not found["C++ compiler"].there
    assert "through ATen" in found["C++ compiler"].words
    assert "as tables" in found["Graphviz"].words
    assert not any(finding.needed and not finding.there for finding in found.values())
