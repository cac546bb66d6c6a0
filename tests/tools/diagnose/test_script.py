"""ablate and bisect of whole programs, each run in a process of its own."""

from __future__ import annotations

import json

import pytest

from nbcompile.tools.commands.command_line import main
from nbcompile.tools.diagnose import script
from nbcompile.tools.diagnose.script import EAGER, HUNG, Script, Way

pytestmark = pytest.mark.timeout(900)  # each test runs a program some ten times
PROGRAM = """
import os, sys, torch, nbcompile
from nbcompile.lowering.registry import LOWERINGS
aten = torch.ops.aten
{fault}

@nbcompile.compile
def f(x):
    return ((x.sin() + 1).relu() * 2).exp().sum(-1)

x = torch.randn(4, 8, generator=torch.Generator().manual_seed(1))
out = f(x)
{after}
"""
WRONG = "LOWERINGS[aten.exp.default] = lambda build, x: LOWERINGS[aten.cos.default](build, x)"
CRASHES = "def crash(build, x): os.kill(os.getpid(), 11)\nLOWERINGS[aten.exp.default] = crash"
CHECKS = "assert torch.allclose(out, ((x.sin() + 1).relu() * 2).exp().sum(-1), rtol=1e-3)"


@pytest.fixture
def program(tmp_path):
    def write(fault: str = "", after: str = "") -> str:
        path = tmp_path / "program.py"
        path.write_text(PROGRAM.format(fault=fault, after=after))
        return str(path)

    return write


def test_a_program_whose_assertion_fails(program, capsys):
    """Bisection names the operator; the exit code says that something was found."""
    assert main(["bisect", program(WRONG, CHECKS), "--subsystem", "lowering"]) == 1
    told = capsys.readouterr().out
    assert "exit code 1: AssertionError" in told
    assert "exp (aten.exp.default)" in told.splitlines()[-1]


def test_a_program_that_crashes(program, capsys):
    """The decision at which the process is killed is the last in its log."""
    assert main(["bisect", program(CRASHES), "--json", "--subsystem", "lowering"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert "killed by signal 11" in found["difference"]
    assert "exp" in {each["subsystem"]: each["decision"] for each in found["findings"]}["lowering"]


def test_a_program_that_prints_otherwise(program, capsys):
    """Only with --output."""
    path = program(WRONG, "print(round(float(out.sum())))")
    assert main(["ablate", path, "--output"]) == 1
    told = capsys.readouterr().out
    assert "other output than in eager mode" in next(line for line in told.splitlines() if "changes here" in line)
    assert "no fusion" in next(line for line in told.splitlines() if "changes here" in line)


def test_a_program_that_is_right(program, capsys):
    """Nothing is found: exit code 0."""
    assert main(["bisect", program(after=CHECKS)]) == 0
    assert "nothing to look for" in capsys.readouterr().out


def test_a_program_that_hangs_reads_or_exits(tmp_path):
    """It is ended in time; it reads an empty input; its arguments and its exit code are its own."""
    path = tmp_path / "program.py"
    path.write_text("import sys, time\nif sys.argv[1:] == ['x']: time.sleep(99)\nsys.exit(len(sys.stdin.read()) + 7)")
    assert script.run(Script(path, ("x",), seconds=30), Way(backend=EAGER)).code == HUNG
    done = script.run(Script(path), Way())
    assert (done.code, done.ending) == (7, "exit code 7")


def test_no_such_program(capsys):
    """One line, exit code 2."""
    assert main(["bisect", "none.py"]) == 2
    assert "there is no file none.py" in capsys.readouterr().err
