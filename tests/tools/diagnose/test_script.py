"""ablate and bisect for whole programs, each run in a separate process."""

from __future__ import annotations

import contextlib
import json

import pytest

from nbcompile.record import codec
from nbcompile.tools.child_process import HUNG
from nbcompile.tools.commands import terminal
from nbcompile.tools.commands.command_line import main
from nbcompile.tools.diagnose import ablate, issue, script, script_graphs
from nbcompile.tools.diagnose.script import EAGER, Script, Way

pytestmark = [pytest.mark.timeout(900), pytest.mark.rotates(3)]  # each test runs a program some ten times
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
FLAKY = (
    "import itertools\nturn = itertools.count()\nexp = LOWERINGS[aten.exp.default]\n"
    "LOWERINGS[aten.exp.default] = lambda build, x: ("
    "exp if next(turn) else LOWERINGS[aten.cos.default])(build, x)"
)
CHECKS = "assert torch.allclose(out, ((x.sin() + 1).relu() * 2).exp().sum(-1), rtol=1e-3)"


@pytest.fixture
def program(tmp_path):
    def write(fault: str = "", after: str = "") -> str:
        path = tmp_path / "program.py"
        path.write_text(PROGRAM.format(fault=fault, after=after))
        return str(path)

    return write


def test_a_program_whose_assertion_fails(program, capsys):
    """Bisection names the operator, and the exit code says that something was found."""
    assert main(["bisect", program(WRONG, CHECKS), "--subsystem", "lowering"]) == 1
    told = capsys.readouterr().out
    assert "exit code 1: AssertionError" in told
    assert "exp (aten.exp.default)" in told.splitlines()[-1]


def test_a_program_that_crashes(program, capsys):
    """The last decision in the log of a killed process is the culprit."""
    assert main(["bisect", program(CRASHES), "--json", "--subsystem", "lowering"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert "killed by signal 11" in found["difference"]
    assert "exp" in {each["subsystem"]: each["decision"] for each in found["findings"]}["lowering"]


def test_a_program_that_prints_otherwise(program, capsys):
    """A difference in the output counts only with --output."""
    path = program(WRONG, "print(round(float(out.sum())))")
    assert main(["ablate", path, "--output"]) == 1
    told = capsys.readouterr().out
    assert "other output than in eager mode" in next(line for line in told.splitlines() if "changes here" in line)
    assert "no fusion" in next(line for line in told.splitlines() if "changes here" in line)
    for rung in ("store off", "everything, again", "Triton in the simulator"):
        assert "other output than in eager mode" in next(line for line in told.splitlines() if line.startswith(rung))


def test_a_program_for_a_gpu():
    """Our own backend gets the target in addition to its options; another backend is unchanged."""
    asked = []
    changed = script._compile_with("", "sm_90", lambda model, **keywords: asked.append(keywords))
    changed(len, dynamic=True, mode="max-autotune")
    changed(options={"debug": True}, backend="nbcompile")(len)
    changed(len, backend="aot_eager")
    target = {"target": "sm_90", "simulation_seconds": ablate.SIMULATION_SECONDS}
    assert asked == [
        {"dynamic": True, "backend": "inductor", "options": target},
        {"backend": "inductor", "options": {"debug": True, **target}},
        {"backend": "aot_eager"},
    ]


def test_with_and_without_the_store(monkeypatch):
    """A whole program runs with the store on, unless the user has switched it off."""
    monkeypatch.delenv("NBCOMPILE_WARM_START", raising=False)
    assert script.environment()["NBCOMPILE_WARM_START"] == "0"
    assert "NBCOMPILE_WARM_START" not in script.environment(stored=True)


def test_a_program_that_is_right(program, capsys):
    """A right program has exit code 0."""
    assert main(["bisect", program(after=CHECKS)]) == 0
    assert "no error to search for" in capsys.readouterr().out


def test_a_program_that_hangs_reads_or_exits(tmp_path):
    """A program is stopped at the limit, reads empty input, and has its own arguments and exit code."""
    path = tmp_path / "program.py"
    path.write_text("import sys, time\nif sys.argv[1:] == ['x']: time.sleep(99)\nsys.exit(len(sys.stdin.read()) + 7)")
    assert script.run(Script(path, ("x",), seconds=30), Way(backend=EAGER)).code == HUNG
    done = script.run(Script(path), Way())
    assert (done.code, done.ending) == (7, "exit code 7")


def test_no_such_program(capsys):
    """A missing program is one line, with exit code 2."""
    assert main(["bisect", "none.py"]) == 2
    assert "there is no file none.py" in capsys.readouterr().err


def test_minify_writes_the_smallest_graph(program, tmp_path, capsys):
    """With a wrong lowering, one operator is left, as a program; without a fault there is no file."""
    small = tmp_path / "small.py"
    assert main(["minify", program(WRONG), "--json", "-o", str(small)]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["nodes"] == [5, 1] or found["nodes"][1] == 1
    assert "exp" in found["script"]
    assert small.read_text() == found["script"]
    compile(found["script"], "small.py", "exec")
    assert main(["minify", program()]) == 0
    assert "wrong by itself" in capsys.readouterr().err


def test_minify_of_a_graph_that_ends_the_process(program, capsys):
    """A graph that crashes the compiler is reduced, too: each candidate is tried in a fork."""
    assert main(["minify", program(CRASHES), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["difference"] == "killed by signal 11"
    assert found["nodes"] == [6, 1]
    assert "exp" in found["script"]


def test_minify_of_a_flaky_program(program, capsys):
    """A lowering that is wrong only once is reported as flaky, without a smallest graph."""
    assert main(["minify", program(FLAKY)]) == 2
    assert "wrong once and right once" in capsys.readouterr().err


def test_a_program_that_never_ends_in_eager_mode(tmp_path, capsys):
    """A program that hangs in eager mode is reported by each tool after one run."""
    path = tmp_path / "program.py"
    path.write_text("import time\ntime.sleep(999)\n")
    assert main(["ablate", str(path), "--seconds", "15"]) == 2
    assert "does not end within 15 seconds in eager mode, either" in capsys.readouterr().err


READS = """
import torch, nbcompile
f = nbcompile.compile(lambda x: x + 1, backend="eager")
print(f(torch.ones(2)) * float(input()))
"""


def test_a_program_that_reads(tmp_path, capsys):
    """A program that ends for lack of input ends in eager mode, too; a hint names --stdin."""
    path, given = tmp_path / "program.py", tmp_path / "given"
    path.write_text(READS)
    given.write_text("2\n")
    assert main(["bisect", str(path)]) == 0
    told = capsys.readouterr()
    assert "in eager mode the program ends with exit code 1: EOFError" in told.err
    assert "--stdin FILE" in told.err
    assert main(["bisect", str(path), "--stdin", str(given)]) == 0
    assert "in eager mode" not in capsys.readouterr().err


def test_the_exception_at_the_end():
    """The exception's line is found, also with a message of several lines, or warnings after it."""
    traceback = 'Traceback (most recent call last):\n  File "f.py", line 1, in f\n    g()\n    ^^^\n'
    assert script.last_error(f"{traceback}ValueError: one\ntwo\nthree\n") == "ValueError: one"
    assert script.last_error(f"{traceback}KeyError: 1\n\nDuring ...:\n\n{traceback}E: 2\nwarning\n") == "E: 2"
    assert script.last_error("a warning\nstopped\n") == "stopped"
    assert script.last_error("") == ""


def test_a_program_that_prints_something_else_each_time(tmp_path, capsys):
    """With --output, a program with changing output is rejected in one line; without, it does not matter."""
    path = tmp_path / "program.py"
    path.write_text("import os\nprint(os.getpid())\n")
    assert main(["bisect", str(path), "--output"]) == 2
    assert "prints something else in each run in eager mode" in capsys.readouterr().err
    assert main(["bisect", str(path)]) == 0


def test_numbers_of_a_message_do_not_matter(tmp_path, capsys):
    """Numbers in the message do not distinguish failures."""
    path = tmp_path / "program.py"
    path.write_text("import os, sys\nsys.exit(f'{os.getpid()} at {hex(id(os))}')\n")
    assert main(["bisect", str(path)]) == 0
    assert "no error to search for" in capsys.readouterr().out


@pytest.fixture
def fails_with_exp(monkeypatch):
    """Fake runs of a program: one with ``exp`` fails when it is compiled, with changing numbers."""

    def run(program: Script, way: Way, **_: str) -> script.Run:
        text = program.path.read_text()
        failed = "exp()" in text and way.backend != EAGER
        return script.Run(int(failed), "", 0.1, f"AssertionError: {len(text)} elements" if failed else "")

    monkeypatch.setattr(script, "run", run)


def test_minify_reduces_the_program(program, fails_with_exp, tmp_path, capsys):
    """With --source, unnecessary statements are removed; no temporary file is left."""
    path = program("", "unused = [1, 2, 3]\nprint(len(unused))\n" + CHECKS)
    assert main(["minify", path, "--source", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert "AssertionError" in found["ending"]
    assert "exp()" in found["script"]
    assert found["lines"][1] <= 3 < found["lines"][0]
    assert found["trials"] > 5
    assert [file.name for file in tmp_path.iterdir()] == ["program.py"]


def test_minify_of_a_program_that_ends_well(program, fails_with_exp, tmp_path, capsys):
    """A program that succeeds has exit code 0, and a line that says so."""
    path = tmp_path / "program.py"
    path.write_text("print(1)\n")
    assert main(["minify", str(path), "--source"]) == 0
    assert "ends as in eager mode" in capsys.readouterr().err


def test_report_issue_is_one_file_without_paths(program, fails_with_exp, tmp_path, monkeypatch):
    """The file has program, environment, attempts, smallest program and record, without the user's folders."""
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / "issue.md"
    waited: list[str] = []
    monkeypatch.setattr(terminal, "waiting", lambda title: contextlib.nullcontext(waited.append(title)))
    assert main(["report-issue", program(WRONG, CHECKS), "-o", str(path)]) == 0
    assert waited == ["in eager mode", "compiled", "environment", "minify", "record"], "each step shows that it goes on"
    text = path.read_text()
    for title in (
        "What happens",
        "Program",
        "Environment",
        "Tried: ablate",
        "Tried: bisect",
        "Tried: minify",
        "Record",
    ):
        assert f"## {title}" in text
    assert "AssertionError" in text
    assert "nbcompile.compile(graph" in text
    assert str(tmp_path) not in text


COMPILED_OTHERWISE = """
import torch

@torch.compile
def f(x):
    return x + 1 if torch.compiler.is_compiling() else x - 1

assert f(torch.ones(2)).sum() == 0
"""
WRONG_LOWERING = """
import torch
from torch._inductor import lowering
aten = torch.ops.aten
lowering.lowerings[aten.exp.default] = lowering.lowerings[aten.cos.default]

@torch.compile
def f(x):
    return (x.sin() + 1).exp()

x = torch.ones(4)
assert torch.allclose(f(x), (x.sin() + 1).exp())
"""


@pytest.mark.peer
def test_bisect_the_real_torch_compile(tmp_path, capsys):
    """With --engine torch, a function that behaves differently under the tracer is wrong with backend "eager"."""
    path = tmp_path / "program.py"
    path.write_text(COMPILED_OTHERWISE)
    assert main(["bisect", str(path), "--engine", "torch", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert "AssertionError" in found["difference"]
    assert [(each["subsystem"], each["decision"]) for each in found["findings"]] == [("backend", "eager")]
    assert main(["bisect", str(path), "--engine", "torch", "--subsystem", "fusion"]) == 2
    assert "--subsystem names a part of nbcompile" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.peer
@pytest.mark.timeout(2400)  # some twenty runs of Inductor
def test_bisect_names_the_lowering_of_inductor(tmp_path, capsys):
    """A planted lowering of Inductor is found: backend, subsystem and operator, with separate processes."""
    path = tmp_path / "program.py"
    path.write_text(WRONG_LOWERING)
    assert main(["bisect", str(path), "--engine", "torch", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [each["subsystem"] for each in found["findings"]] == ["backend", "lowerings"]
    assert "exp" in found["findings"][1]["decision"]


@pytest.mark.peer
def test_report_an_issue_of_the_real_torch_compile(program, fails_with_exp, tmp_path, monkeypatch):
    """With --engine torch, each tool tries torch.compile."""
    engines = []
    smallest = script_graphs.MinifiedScript("", "the smallest", (1, 1), 1)
    monkeypatch.setattr(script_graphs, "smallest", lambda _, engine, **__: engines.append(engine) or smallest)
    assert main(["report-issue", program(), "--engine", "torch", "-o", str(tmp_path / "issue.md")]) == 0
    text = (tmp_path / "issue.md").read_text()
    assert "torch.compile, capture" in text
    assert "backend    1 of 1   eager" in text
    assert engines == ["torch"]


@pytest.mark.peer
def test_the_record_in_an_issue_of_torch_compile(tmp_path):
    """The record is that of the trace of one more run; a program that compiles nothing has none."""
    path = tmp_path / "program.py"
    path.write_text(COMPILED_OTHERWISE.replace("@torch.compile", "@torch.compile(backend='eager')"))
    (frame,) = codec.from_json(issue.record_of_torch(Script(path))).frames
    assert (frame.function, [node.target for node in frame.graph.nodes][1:2]) == ("f", ["operator.add"])
    path.write_text("print(1)")
    assert "holds no" in issue.record_of_torch(Script(path))


@pytest.mark.peer
def test_ablate_the_real_torch_compile(program, capsys):
    """With --engine torch, the rungs are those of torch.compile, which our fault does not change."""
    assert main(["ablate", program(WRONG, CHECKS), "--engine", "torch", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["rung"] for row in rows][-1] == "torch.compile, Inductor"
    assert not any(row["difference"] for row in rows)
