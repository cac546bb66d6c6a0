"""Programs in a separate process, for tests of a new process.

    python("import torch; print(torch.ones(2).sum())")            "tensor(2.)"
    python(path, "argument", folder=tmp_path, NBCOMPILE_WARM_START="1")
    command(sys.executable, "-m", "nbcompile", "logs").stdout

A process that ends otherwise than it should is an error that shows what it wrote.

In torch: torch/testing/_internal/common_utils.py (run_process_no_exception). Read next: tests/support/stores.py
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def command(
    *words: str | Path, folder: Path | None = None, given: str | None = None, status: int | None = 0, seconds: float = 580,
    **variables: str | Path | None,
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """Run a command that ends with ``status`` (None: with any), and can import the tested package.

    Variables are set for it besides those of this process, or removed if they are None.
    """
    changed = {"PYTHONPATH": ROOT, **variables}
    environment = {**os.environ, **{name: str(value) for name, value in changed.items() if value is not None}}
    for name in (name for name, value in changed.items() if value is None):
        environment.pop(name, None)
    ran = subprocess.run(
        list(map(str, words)), cwd=folder, input=given, env=environment, timeout=seconds, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert status is None or ran.returncode == status, (
        f"it ended with {ran.returncode}\n{ran.stdout[-2000:]}\n{ran.stderr[-4000:]}"
    )
    return ran


def python(program: str | Path, *arguments: str | Path, **how: object) -> str:
    """The output of a program, which is given as text or as a file."""
    words = [program] if isinstance(program, Path) else ["-c", program]
    return command(sys.executable, *words, *arguments, **how).stdout
