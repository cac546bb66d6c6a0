"""The commands of docs/design/observability.md run as written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.observe.page_commands import BEFORE, COMMANDS, ROOT, ROWS, write_programs

PICTURES = ROOT / "docs" / "_static" / "observe"

SAYS = {
    "TORCH_LOGS=graph_breaks python program.py": "Graph break in user code at",
    "TORCH_LOGS=recompiles_verbose python program.py": "guard 0 failures:",
    "TORCH_LOGS=graph_code,guards,bytecode,aot_graphs,output_code python program.py": "Output code: ",
    "TORCH_LOGS=dynamo,aot,inductor python program.py": "AOTAutograd: inference graph of",
    "TORCH_LOGS=+dynamo python program.py": "TRACE FX call",
    "TORCH_LOGS=sym_node python program.py": "TORCH_LOGS=sym_node is printed by torch itself",
    "TORCH_LOGS=loop_ordering python program.py": "TORCH_LOGS=loop_ordering prints nothing of nbcompile",
    "python -m nbcompile logs": "recompiles_verbose",
    "TORCH_COMPILE_DEBUG=1 python program.py": "torch_compile_debug",
    "TORCH_TRACE=trace python program.py && tlparse trace/*.log -o pages --no-browser": "Stats { ok:",
    "python -m nbcompile open trace": "y = x + 1",
    "python -m nbcompile compare right.py": "torch.compile",
    "python -m nbcompile run --replace with_torch.py": "1 graph",
    "python -m nbcompile report program.py": "program.html",
    "python -m nbcompile explain NB0005": "NB0005",
    'NBCOMPILE_METRICS=1 python -c "import program, nbcompile; print(nbcompile.prometheus())"': (
        "nbcompile_graphs_total 4.0"
    ),
    "python -m nbcompile profile program.py --trace trace.json": "trace.json",
    "python -m nbcompile ablate wrong.py": "<- changes here",
    "python -m nbcompile bisect wrong.py": "look at: lowering",
    "python -m nbcompile bisect with_torch.py --engine torch": "no error to search for",
    "python -m nbcompile minify wrong.py": ".exp()",
    "python -m nbcompile report-issue right.py": "right_issue.md",
    "python -m nbcompile doctor": "torch",
}
"""A part of what each prints."""
IN_THE_GATE = (
    "TORCH_LOGS=graph_breaks python program.py",
    "TORCH_LOGS=loop_ordering python program.py",
    "python -m nbcompile logs",
    "python -m nbcompile open trace",
    "python -m nbcompile explain NB0005",
    "python -m nbcompile run --replace with_torch.py",
)
"""The others run in the sweep: most take ten seconds, and two run a program some fifteen times."""


def test_every_command_of_the_page_is_run():
    """The table has exactly the commands that run here, and each has a picture."""
    assert COMMANDS == list(SAYS)
    assert sorted(name for _, name in ROWS) == sorted(path.stem for path in (PICTURES / "rows").iterdir())


def marked(command: str) -> object:
    return pytest.param(command, marks=pytest.mark.slow) if command not in IN_THE_GATE else command


@pytest.mark.timeout(900)
@pytest.mark.rotates(3)
@pytest.mark.parametrize("command", [marked(command) for command in COMMANDS])
def test_a_command_of_the_page(command, tmp_path):
    """Each command succeeds (a comparison may report a difference), and prints what the table says."""
    write_programs(tmp_path)
    bin_folder = Path(sys.executable).parent
    variables = {"PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    for before in [text for end, text in BEFORE.items() if command.endswith(end)]:
        subprocess.run(
            before, shell=True, check=True, cwd=tmp_path, env={**os.environ, **variables}, capture_output=True
        )
    done = subprocess.run(
        command, shell=True, check=False, cwd=tmp_path, env={**os.environ, **variables}, capture_output=True, text=True
    )
    expected = (0, 1) if "compare" in command else (int("wrong.py" in command),)
    assert done.returncode in expected, done.stderr[-2000:]
    assert SAYS[command] in done.stdout + done.stderr
