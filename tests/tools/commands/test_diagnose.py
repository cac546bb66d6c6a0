"""``ablate``, ``bisect``, ``minify`` and ``report-issue``: their options, and the program that runs."""

from __future__ import annotations

import argparse

import pytest

from nbcompile.tools.commands import diagnose


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    diagnose.add(parser.add_subparsers())
    return parser.parse_args(words)


def test_a_program_is_given_its_input(tmp_path):
    """A program has its path, a time limit, and its input."""
    program, given = tmp_path / "p.py", tmp_path / "given"
    program.write_text("")
    given.write_bytes(b"abc")
    options = parsed("bisect", str(program), "--seconds", "3", "--stdin", str(given))
    options.rest = ["--epochs", "1"]
    script = diagnose._script(options)
    assert (script.path, script.arguments, script.seconds, script.given) == (program, ("--epochs", "1"), 3.0, b"abc")


def test_a_program_that_is_not_there_is_an_error(tmp_path):
    """The error names the missing program."""
    options = parsed("ablate", str(tmp_path / "absent.py"))
    with pytest.raises(FileNotFoundError, match=r"absent\.py"):
        diagnose._script(options)


def test_only_some_commands_write_a_file(capsys):
    """Only ``minify`` and ``report-issue`` write a file; ``bisect`` searches subsystems."""
    assert str(parsed("minify", "p.py", "-o", "out.py").file) == "out.py"
    assert parsed("bisect", "p.py", "--subsystem", "lowering").subsystem == ["lowering"]
    with pytest.raises(SystemExit):
        parsed("bisect", "p.py", "-o", "out.py")
    assert "unrecognized arguments: -o" in capsys.readouterr().err
