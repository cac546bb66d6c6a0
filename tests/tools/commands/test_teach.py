"""``teach``: exercises from the command line."""

from __future__ import annotations

import json

from nbcompile.teach.exercise_table import find
from nbcompile.tools.commands.command_line import main


def test_the_command_line(tmp_path, capsys):
    """list, show, check and export have exit code 0, 1 for a rejected answer, and 2 for wrong input."""
    assert main(["teach", "list", "--lecture", "5", "--json"]) == 0
    assert {entry["lecture"] for entry in json.loads(capsys.readouterr().out)} == {5}
    assert main(["teach", "show", "residual-1"]) == 0
    assert "graphs[1]" in capsys.readouterr().out
    assert main(["teach", "show", "residual-1", "--json"]) == 0
    assert "graphs[1]" in json.loads(capsys.readouterr().out)["task"]
    answer = tmp_path / "answer.py"
    answer.write_text(find("one-graph-1").solution)
    assert main(["teach", "check", "one-graph-1", str(answer)]) == 0
    answer.write_text(find("one-graph-1").starter)
    assert main(["teach", "check", "one-graph-1", str(answer), "--json"]) == 1
    assert not json.loads(capsys.readouterr().out.partition("\n{")[2].join(["{", ""]))["accepted"]
    answer.write_text("g = 3")
    assert main(["teach", "check", "one-graph-1", str(answer)]) == 2
    answer.write_text("f = 1 / 0")
    assert main(["teach", "check", "one-graph-1", str(answer)]) == 2
    assert main(["teach", "check", "no-such", str(answer)]) == 2
    said = capsys.readouterr().err
    assert "does not define `f`" in said and "ZeroDivisionError" in said and "no exercise 'no-such'" in said
    assert main(["teach", "export", "graph-1", "mini-1", "-o", str(tmp_path / "course")]) == 0
    assert len(capsys.readouterr().out.split()) == 2
    assert main(["teach", "export", "graph-1", "-o", str(tmp_path / "course"), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 2
