"""Artifacts of TORCH_LOGS: enabled ones are printed in torch's form; others are reported once."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import sys
import warnings

import pytest
import torch

import nbcompile
from nbcompile.observe import artifacts, torch_logs
from nbcompile.record import recorder
from nbcompile.support import log_names
from nbcompile.tools.commands.command_line import main
from tests.observe import programs
from tests.support.processes import command

FIRST_LINES = {
    "aot_graphs": r"TRACED GRAPH\n ===== Forward graph \d+/0 =====",
    "aot_joint_graph": r"TRACED GRAPH\n ===== Joint graph \d+/0 =====",
    "bytecode": r"ORIGINAL BYTECODE f .*test_artifact_logs.py line \d+ \n",
    "caching": r"f: ",
    "cudagraphs": r"skipping cudagraphs",
    "fusion": r"===== attempting fusion: \d+ nodes =====",
    "graph": r"TRACED GRAPH\n ===== __compiled_fn_\d+_0 =====\n opcode +name +target +args",
    "graph_code": r"TRACED GRAPH\n ===== __compiled_fn_\d+_0 =====\n class GraphModule",
    "graph_sizes": r"TRACED GRAPH TENSOR SIZES\n===== __compiled_fn_\d+_0 =====\nl_x_: \(4, 8\)",
    "guards": r"GUARDS:\n\nTREE_GUARD_MANAGER:\n\+- RootGuardManager",
    "ir_post_fusion": r"AFTER FUSION\n",
    "ir_pre_fusion": r"BEFORE FUSION\n",
    "kernel_code": r"Kernel forward.kernel0 \(cpp\):",
    "output_code": r"Output code: \n",
    "perf_hints": r"forward.extern0|aten.mm.default runs through ATen",
    "post_grad_graphs": r"TRACED GRAPH\n ===== AFTER POST GRAD forward =====",
    "pre_grad_graphs": r"TRACED GRAPH\n ===== BEFORE PRE GRAD =====",
    "schedule": r"Schedule:\n",
    "trace_bytecode": r"TRACE RESUME 0 \[\]",
    "trace_call": r"TRACE FX call matmul from .*test_artifact_logs.py:\d+ in f \(f\)\n    y = ",
    "trace_source": r"TRACE starts_line .*test_artifact_logs.py:\d+ in f \(f\)\n    ",
    "verbose_guards": r"GUARD: ",
}  # fmt: skip


def f(x, w):
    y = torch.relu(x @ w)
    return (y * 2).softmax(-1)


ARGUMENTS = (torch.ones(4, 8), torch.ones(8, 4, requires_grad=True))


@contextlib.contextmanager
def listening(**chosen):
    """The names and texts of all messages in the block."""
    torch._logging.set_logs(**chosen)
    try:
        with listening_without_choice() as said:
            yield said
    finally:
        torch._logging.set_logs()


@contextlib.contextmanager
def listening_without_choice():
    """The messages in the block, with the logs that are enabled."""
    said: list[tuple[str, str]] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append((record.name.rpartition("__")[2], record.getMessage()))
    ours = logging.getLogger("nbcompile")
    ours.handlers, prior = [handler], ours.handlers
    try:
        yield said
    finally:
        ours.handlers = prior


def run(function=f, *arguments, **options):
    nbcompile.reset()
    return nbcompile.compile(function, **options)(*(arguments or ARGUMENTS))


@pytest.mark.compiles
def test_each_artifact_is_printed_in_torchs_form():
    """With all logs enabled, each artifact has a message, with the first line that tools search for."""
    not_by_set_logs = ("recompiles_verbose", "verbose_guards", "caching")
    chosen = {name: True for name in FIRST_LINES if name not in not_by_set_logs}
    of_products_on_a_gpu = "autotuning"  # tests/gpu/test_templates.py
    assert {*chosen, *not_by_set_logs, of_products_on_a_gpu} == set(artifacts.ARTIFACTS)
    with listening(**chosen) as said:
        run()
    by_name: dict[str, str] = {}
    for name, text in said:
        by_name.setdefault(name, text)
    assert sorted(by_name) == sorted(chosen)
    wrong = {name: by_name[name][:200] for name in chosen if not re.match(FIRST_LINES[name], by_name[name])}
    assert wrong == {}


def test_every_name_of_torch_is_decided():
    """Each artifact of torch is printed here, by torch itself, or has a reason why not."""
    decided = {*artifacts.ARTIFACTS, *log_names.LIVE, *log_names.BY_TORCH, *log_names.NOT_HERE}
    assert set(torch._logging._internal.log_registry.artifact_names) - decided == set()
    assert not {*artifacts.ARTIFACTS, *log_names.LIVE, *log_names.BY_TORCH} & set(log_names.NOT_HERE)


def test_each_log_that_is_printed_is_described():
    """The list of logs has exactly the names of the printers."""
    assert set(log_names.PRINTED) == set(artifacts.ARTIFACTS)
    shown = log_names.help_text()
    assert all(f"  {name} " in shown for name in (*artifacts.ARTIFACTS, *log_names.LIVE, *log_names.NOT_HERE))


def test_help_is_asked_for_by_the_variable(tmp_path):
    """TORCH_LOGS=help prints our list and torch's, which ends the import."""
    (tmp_path / "program.py").write_text("import nbcompile")
    done = command(sys.executable, "program.py", folder=tmp_path, status=None, TORCH_LOGS="help")
    assert done.stderr.index("in nbcompile (also") < done.stderr.index("TORCH_LOGS Info")


def test_the_command_lists_the_logs(capsys):
    """The command lists the logs as text and as JSON."""
    assert main(["logs"]) == 0
    assert "recompiles_verbose" in capsys.readouterr().out
    assert main(["logs", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["not_here"]["overlap"] == log_names.NOT_HERE["overlap"]


@pytest.mark.compiles
def test_a_name_without_a_meaning_is_reported_once():
    """An unsupported name is reported in one line, at the first compile."""
    torch_logs._warned.clear()
    with listening(benchmarking=True) as said:
        run()
        run()
    assert [text for _, text in said] == [
        "TORCH_LOGS=benchmarking prints nothing of nbcompile: it does not time kernels while it compiles"
    ]


@pytest.mark.compiles
def test_torch_prints_the_assertions_about_sizes():
    """graph_code_verbose is torch's own pass: its graph is printed, and a line says so."""
    torch_logs._warned.clear()
    told: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: told.append(record.getMessage())
    with listening(graph_code_verbose=True) as said:
        passes = logging.getLogger("torch.fx.passes.runtime_assert.__graph_code_verbose")
        passes.addHandler(handler)
        run(lambda x: x.sin() * x.shape[0], torch.ones(5), dynamic=True, backend="eager")
        passes.removeHandler(handler)
    assert any("insert_deferred_runtime_asserts" in text for text in told)
    ((_, line),) = said
    assert line.startswith("TORCH_LOGS=graph_code_verbose is printed by torch itself, when it happens: ")


@pytest.mark.compiles
def test_a_whole_component():
    """+dynamo prints the front end's artifacts, and none of the backend's."""
    with listening(dynamo=logging.DEBUG) as said:
        run()
    names = {name for name, _ in said}
    assert {"bytecode", "graph_code", "guards", "trace_source"} <= names
    assert "output_code" not in names


@pytest.mark.compiles
@pytest.mark.parametrize("name", sorted(log_names.BY_TORCH))
def test_a_name_that_torch_prints(name, monkeypatch):
    """For a log that torch prints, one line says so once; without such an event, nothing else is printed."""
    torch_logs._warned.clear()
    monkeypatch.setattr(torch._logging._internal.log_state, "artifact_names", {name})
    with listening_without_choice() as said:
        run(lambda x: x + 1, torch.ones(2), backend="eager")
        run(lambda x: x + 2, torch.ones(2), backend="eager")
    assert [text for _, text in said] == [
        f"TORCH_LOGS={name} is printed by torch itself, when it happens: {log_names.BY_TORCH[name]}"
    ]


def test_every_failing_guard_of_a_recompilation():
    """recompiles_verbose lists all failed guards, entry by entry."""
    with listening(recompiles_verbose=True) as said:
        nbcompile.reset()
        compiled = nbcompile.compile(lambda x, y: x + y, backend="eager", dynamic=False)
        compiled(torch.ones(2), torch.ones(2))
        compiled(torch.ones(3), torch.ones(3))
    ((name, text),) = said
    assert name == "recompiles_verbose"
    assert "guard 0 failures:" in text
    failures = re.findall(r"^    - \d+/0: (.*)$", text, re.MULTILINE)
    assert [name in failure for name, failure in zip("xy", failures, strict=True)] == [True, True]


@pytest.mark.compiles
def test_a_frame_that_breaks_and_one_that_is_rejected():
    """A frame with a break and a rejected frame are printed with their compile ids; no log ends a compile."""

    def broken(x):
        x = x + 1
        print(end="")
        return x * 2

    with listening(graph_code=True, guards=True, output_code=True) as said:
        run(broken, torch.ones(2))
    assert [name for name, _ in said].count("graph_code") == 2
    with listening(graph_code=True) as said, warnings.catch_warnings(action="ignore"):
        nbcompile.reset()
        compiled = nbcompile.compile(lambda x: x + 1, backend="eager", dynamic=False, recompile_limit=1)
        compiled(torch.ones(2))
        compiled(torch.ones(3))
    assert [name for name, _ in said] == ["graph_code"]


def test_nothing_is_recorded_while_no_log_is_on(monkeypatch):
    """Without a recorder and a log, no page is created."""
    begun = []
    monkeypatch.setattr(recorder, "FrameDraft", lambda *names: begun.append(names))
    run(f, backend="eager")
    assert begun == []


PROGRAM = "import torch, nbcompile\n@nbcompile.compile\ndef f(x): return x.sin() + 1\nf(torch.ones(4))\n"


def test_the_variables_from_outside(tmp_path):
    """TORCH_LOGS prints compile id and name in each line; TORCH_COMPILE_DEBUG writes a folder, and prints it."""
    told = programs.run(tmp_path, PROGRAM, TORCH_LOGS="output_code,graph_sizes", TORCH_COMPILE_DEBUG="1").stderr
    lines = told.splitlines()
    assert any(re.search(r"\] \[0/0\] \[__output_code\] Output code:", line) for line in lines)
    assert any(re.search(r"\] \[0/0\] \[__graph_sizes\] sin: \(4,\)", line) for line in lines)
    (folder,) = (tmp_path / "torch_compile_debug").glob("run_*/nbcompile/f_0_0")
    assert str(folder.parent) in told
    written = {path.name for path in folder.iterdir()}
    assert {"fx_graph_readable.py", "output_code.py", "ir_pre_fusion.txt", "guards.txt", "record.json"} <= written
    assert "sin" in (folder / "fx_graph_readable.py").read_text()


def test_a_disk_that_cannot_be_written(tmp_path):
    """A debug folder that cannot be created is reported in one line, and the program continues."""
    (tmp_path / "taken").write_text("")
    told = programs.run(
        tmp_path, PROGRAM, TORCH_COMPILE_DEBUG="1", TORCH_COMPILE_DEBUG_DIR=str(tmp_path / "taken")
    ).stderr
    assert told.count("TORCH_COMPILE_DEBUG: nothing is written") == 1


def test_a_users_mistake_prints_no_log_of_torchs(tmp_path):
    """Sizes that do not match raise our error, without a log of torch's."""
    text = PROGRAM.replace("x.sin() + 1", "x.view(2, 2) @ torch.ones(3, 3)").replace(
        "f(torch.ones(4))", "try: f(torch.ones(4))\nexcept Exception as e: print(type(e).__name__)"
    )
    done = programs.run(tmp_path, text)
    assert done.stdout == "TorchRuntimeError\n"
    assert done.stderr == ""
