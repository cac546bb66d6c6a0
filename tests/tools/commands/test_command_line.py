"""The command line: commands, options, exit codes, streams."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from nbcompile.record import codec
from nbcompile.tools.commands import command_line
from nbcompile.tools.commands.command_line import build_parser, main
from tests.support.processes import command

PROGRAM = """
import sys, torch, nbcompile
@nbcompile.compile(backend="eager")
def f(x): return x.sin() + 1
print(float(f(torch.zeros(2)).sum()), sys.argv[1:])
"""
WITH_TORCH_COMPILE = """
import torch
@torch.compile(backend="eager")
def f(x): return x.sin() + 1
class M(torch.nn.Module):
    def forward(self, x): return x * 2
m = M(); m.compile(backend="eager")
print(float(f(torch.zeros(2)).sum()), float(m(torch.ones(1))))
"""


@pytest.fixture
def program(tmp_path):
    def write(text: str = PROGRAM) -> str:
        (tmp_path / "program.py").write_text(text)
        return str(tmp_path / "program.py")

    return write


def rejected(arguments: list[str], capsys) -> str:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    return capsys.readouterr().err


def test_every_command_has_help(capsys):
    """`--help` of each command prints a usage line, with exit code 0."""
    for name in ("", *build_parser()[1]):
        with pytest.raises(SystemExit) as end:
            main([*([name] if name else []), "--help"])
        assert end.value.code == 0
        assert "usage: python -m nbcompile" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["--help"])
    out = capsys.readouterr().out
    assert "examples:" in out
    assert "exit codes:" in out


def test_an_unknown_option_before_the_program_is_rejected(program, capsys):
    """An unknown option before the program's name is rejected, with or without `run`."""
    for first in ([], ["run"]):
        assert "--htlm" in rejected([*first, "--htlm", program()], capsys)


def test_a_misspelt_option_behind_the_program_is_rejected(program, capsys):
    """A misspelt option after the program's name is rejected: the program would get it, and no page be written."""
    assert "did you mean --html?" in rejected([program(), "--htlm", "out.html"], capsys)


def test_the_programs_own_options(program, capsys):
    """Options after the program's name that are not ours are the program's; after `--` all are."""
    assert main([program(), "--size", "3", "-v"]) == 0
    assert capsys.readouterr().out.startswith("2.0 ['--size', '3', '-v']\n")
    assert main([program(), "--", "--html", "x", "--htlm"]) == 0
    assert capsys.readouterr().out.startswith("2.0 ['--html', 'x', '--htlm']\n")


def test_an_unknown_option_of_another_command_is_rejected(capsys):
    """An unknown option of another command is rejected, after `--`, too."""
    assert "--html" in rejected(["doctor", "--html"], capsys)
    assert "x" in rejected(["doctor", "--", "x"], capsys)


@pytest.mark.parametrize("command", command_line.WITH_ARGUMENTS)
def test_a_programs_option_without_the_mark_leads_to_it(command, program, capsys):
    """The error about a program's option says how the program gets it."""
    expected = "unrecognized arguments: --epochs 3; the program's own options follow `--`"
    assert expected in rejected([command, program(), "--epochs", "3"], capsys)


def test_an_unknown_command_is_rejected(capsys):
    """The error suggests the nearest command; a word without a dot is not taken for a file."""
    assert "did you mean 'doctor'?" in rejected(["docter"], capsys)
    assert "there is no command 'frobnicate'" in rejected(["frobnicate"], capsys)


def test_a_report_is_named_after_its_program(program, tmp_path, monkeypatch, capsys):
    """`report program.py` writes program.html in the working directory."""
    monkeypatch.chdir(tmp_path)
    assert main(["report", program()]) == 0
    assert (tmp_path / "program.html").read_text().startswith("<!")
    assert "program.html" in capsys.readouterr().err


def test_a_record_on_standard_output(program, capsys):
    """`--json -` prints the record after the program's own output."""
    assert main(["run", "--json", "-", program()]) == 0
    record = codec.from_json(capsys.readouterr().out.partition("\n")[2])
    assert [frame.function for frame in record.frames] == ["f"]


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return command(sys.executable, "-m", "nbcompile", "run", *arguments, program, status=None)


def test_a_program_that_calls_torch_compile(program):
    """The output counts calls of torch.compile and mentions --replace; with it, both functions are compiled here."""
    plain = run(program(WITH_TORCH_COMPILE))
    assert plain.returncode == 0
    assert plain.stdout.startswith("2.0 2.0\n")
    assert "called torch.compile 2 times" in plain.stderr
    assert "--replace" in plain.stderr
    replaced = run(program(WITH_TORCH_COMPILE), "--replace")
    assert replaced.stdout.startswith("2.0 2.0\n")
    assert "2 graphs" in replaced.stdout
    assert "torch.compile" not in replaced.stderr


def test_commands_print_json(capsys):
    """doctor, explain and cache print one JSON document each."""
    for arguments in (["doctor"], ["explain", "NB0005"], ["cache"], ["cache", "list"]):
        assert main([*arguments, "--json"]) == 0
        assert isinstance(json.loads(capsys.readouterr().out), list)
