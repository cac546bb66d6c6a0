"""Programs for the tests of traces, each in a separate process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.processes import command

ROOT = Path(__file__).parents[2]
PROGRAM = """
import torch
{imports}
@{compile}
def f(x, w):
    y = torch.relu(x @ w)
    print("half")
    return (y * 2).sum(-1)

w = torch.randn(8, 4, requires_grad=True)
f(torch.randn(4, 8), w).sum().backward()
f(torch.randn(5, 8), w).sum().backward()
"""
OURS = PROGRAM.format(imports="import nbcompile", compile="nbcompile.compile")
TORCHS = PROGRAM.format(imports="", compile="torch.compile(backend='aot_eager')")


def run(folder: Path, text: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a folder; it must succeed."""
    (folder / "program.py").write_text(text)
    return command(sys.executable, "program.py", folder=folder, **environment)


def traced(folder: Path, text: str) -> Path:
    """The trace of a program."""
    run(folder, text, TORCH_TRACE=str(folder / "trace"))
    (path,) = (folder / "trace").glob("*.log")
    return path
