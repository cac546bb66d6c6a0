"""``compare``: a program under both compilers."""

from __future__ import annotations

import json

import pytest

from nbcompile.tools.commands.command_line import main

pytestmark = [pytest.mark.timeout(900), pytest.mark.rotates(2)]


@pytest.mark.peer
def test_a_script(tmp_path, capsys):
    """`compare script.py` runs a program that uses either compile with both compilers; the exit code is 0 or 1."""
    script = tmp_path / "program.py"
    script.write_text(
        "import sys, torch, nbcompile\n"
        "@torch.compile(backend='eager')\ndef f(x): return x.sin() + 1\n"
        "@nbcompile.compile(backend='eager')\ndef g(x): return x.cos()\n"
        "f(torch.ones(3)); g(torch.ones(3)); assert sys.argv[1:] == ['--epochs', '1']\n"
        "assert input() == 'from a file'\n"
    )
    (tmp_path / "given").write_text("from a file\n")
    code = main(["compare", str(script), "--stdin", str(tmp_path / "given"), "--json", "--", "--epochs", "1"])
    found = json.loads(capsys.readouterr().out)
    assert code == any(not each["known"] for each in found["differences"])
    assert [run["failure"] for run in (found["our_run"], found["their_run"])] == ["", ""]
    assert [(pair["function"], bool(pair["ours"]), bool(pair["theirs"])) for pair in found["frames"]] == [
        ("f", True, True),
        ("g", True, True),
    ]


def test_a_missing_script(capsys):
    """A missing program is wrong input: exit code 2, and one line."""
    assert main(["compare", "absent.py"]) == 2
    assert "there is no file absent.py" in capsys.readouterr().err
