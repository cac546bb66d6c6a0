"""The command line: commands, options, exit codes, streams."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time

import pytest

from nbcompile import config
from nbcompile.record import codec
from nbcompile.tools.commands import terminal
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


def refused(arguments: list[str], capsys) -> str:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert end.value.code == 2
    return capsys.readouterr().err


def test_every_command_has_help(capsys):
    """`--help` of the command line and of each command prints a usage line and ends with 0."""
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


def test_an_unknown_option_before_the_program_is_refused(program, capsys):
    """Neither run nor swallowed as the program's; `run` may be left out or not."""
    for first in ([], ["run"]):
        assert "--htlm" in refused([*first, "--htlm", program()], capsys)


def test_a_misspelt_option_behind_the_program_is_refused(program, capsys):
    """It would else be the program's, and no page would be written."""
    assert "did you mean --html?" in refused([program(), "--htlm", "out.html"], capsys)


def test_the_programs_own_options(program, capsys):
    """What follows the program's name and is not ours is the program's; after `--` everything is."""
    assert main([program(), "--size", "3", "-v"]) == 0
    assert capsys.readouterr().out.startswith("2.0 ['--size', '3', '-v']\n")
    assert main([program(), "--", "--html", "x", "--htlm"]) == 0
    assert capsys.readouterr().out.startswith("2.0 ['--html', 'x', '--htlm']\n")


def test_an_unknown_option_of_another_command_is_refused(capsys):
    """Also behind `--`."""
    assert "--html" in refused(["doctor", "--html"], capsys)
    assert "x" in refused(["doctor", "--", "x"], capsys)


def test_an_unknown_command_is_refused(capsys):
    """The nearest command is named; a word without a dot is not looked for as a file."""
    assert "did you mean 'doctor'?" in refused(["docter"], capsys)
    assert "there is no command 'frobnicate'" in refused(["frobnicate"], capsys)


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
    """The user is informed how often it did, and of --replace; with it, both functions are compiled here."""
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


def test_the_cache_is_shown_and_cleared(tmp_path, monkeypatch, capsys):
    """`clear` deletes entries of both stores, and no file that somebody else put there."""
    monkeypatch.setenv("NBCOMPILE_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("NBCOMPILE_FRAMES_DIR", raising=False)
    name = "9f2c" * 10
    entries = [tmp_path / "9f" / f"{name}.so", tmp_path / "frames" / name / f"{name[:20]}.json"]
    other = tmp_path / "9f" / "notes of mine.txt"
    for path in (*entries, other):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("1234")
    assert main(["cache", "--json"]) == 0
    assert {each["store"]: each["files"] for each in json.loads(capsys.readouterr().out)} == {
        "functions": 1,
        "kernels": 1,
    }
    with config.patch(kernel_store_megabytes=7):
        assert main(["cache"]) == 0
    assert "0.0 MiB of 7  " in capsys.readouterr().out
    assert main(["cache", "clear"]) == 0
    assert "removed 2 files" in capsys.readouterr().out
    assert [path.exists() for path in (*entries, other)] == [False, False, True]


def test_what_killed_processes_left_is_shown_and_cleared(tmp_path, monkeypatch, capsys):
    """`cache` counts it and says who removes it; `clear` removes it, but nothing that a process may be writing."""
    monkeypatch.setenv("NBCOMPILE_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("NBCOMPILE_FRAMES_DIR", raising=False)
    key = "9f2c" * 10
    left = (
        tmp_path / "9f" / "9f2c9f2c-0123456789abcdef" / "draft.so",
        tmp_path / "9f" / "9f2c9f2c-ab_d0123.draft",
        tmp_path / "frames" / key / "tmpab_d0123.draft",
        tmp_path / "frames" / key / f"{key[:20]}.page",
    )
    written = tmp_path / "9f" / "9f2c9f2c-fedcba9876543210" / "draft.so"
    for path in (*left, written):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 1000)
    assert main(["cache"]) == 0
    assert "left by" not in capsys.readouterr().out
    for path in (*left, left[0].parent):
        os.utime(path, (0, 0))
    assert main(["cache"]) == 0
    said = capsys.readouterr().out
    assert "left by processes that were killed: 4 of these (0.0 MiB)" in said
    assert "`cache clear` now" in said
    assert main(["cache", "--json"]) == 0
    shown = {each["store"]: each for each in json.loads(capsys.readouterr().out)}
    assert [shown[name]["unfinished"] for name in ("functions", "kernels")] == [2, 2]
    assert [shown[name]["bytes"] for name in ("functions", "kernels")] == [2000, 2000]
    assert main(["cache", "list"]) == 0
    assert str(left[0].parent) in capsys.readouterr().out
    assert main(["cache", "clear"]) == 0
    assert "removed 4 files" in capsys.readouterr().out
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [written]
    assert not (tmp_path / "frames" / key).exists()


def test_colours_on_a_terminal_only(monkeypatch):
    """A pipe gets plain text; so does a terminal whose user set NO_COLOR."""

    class Terminal:
        def isatty(self) -> bool:
            return True

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert terminal.paint("x", "red", Terminal()) == "\033[31mx\033[0m"
    monkeypatch.setenv("NO_COLOR", "1")
    assert terminal.paint("x", "red", Terminal()) == "x"
    monkeypatch.delenv("NO_COLOR")
    with open(os.devnull, "w") as pipe:
        assert terminal.paint("x", "red", pipe) == "x"


def test_a_progress_bar_after_a_second(monkeypatch, capsys):
    """On a terminal; the items are the same, drawn or not."""
    ticks = iter(range(10))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    assert list(terminal.progress("abc", "working", clock=lambda: next(ticks))) == ["a", "b", "c"]
    assert "working [" in capsys.readouterr().err


def test_the_time_of_what_has_no_parts(monkeypatch, capsys):
    """On a terminal it is told, and wiped away in the end; elsewhere there is no thread and no output."""
    before = threading.active_count()
    with terminal.waiting("compare", seconds=0.01):
        assert threading.active_count() == before
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with terminal.waiting("compare", seconds=0.01):
        time.sleep(0.2)
    assert re.fullmatch(r"(\rcompare: \d+ s)+\r\x1b\[K", capsys.readouterr().err)
