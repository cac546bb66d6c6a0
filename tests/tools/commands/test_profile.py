"""``profile``: lines and kernels of a program, from the command line."""

from __future__ import annotations

import sys

from tests.support.processes import command

PROGRAM = """
import torch, nbcompile

@nbcompile.compile
def f(x):
    return (x.sin() * 2).sum()

for _ in range(4):
    f(torch.ones(100))
"""


def test_command(tmp_path):
    """`profile program.py` prints lines and kernels, writes a page and a trace; the exit code is the program's."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    done = command(sys.executable, "-m", "nbcompile", "profile", program, "--trace", tmp_path / "t.json")
    assert "return (x.sin() * 2).sum()" in done.stdout
    assert "inference.kernel0" in done.stdout
    assert (tmp_path / "t.json").stat().st_size > 0
