"""A separate shell for each test, as each notebook kernel has one."""

from __future__ import annotations

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output


@pytest.fixture
def shell(tmp_path, monkeypatch):
    """An IPython shell with the extension, without history."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance()
    shell.history_manager.enabled = False
    shell.colors = "nocolor"
    shell.run_line_magic("load_ext", "nbcompile")
    yield shell
    InteractiveShell.clear_instance()


class Ran:
    """The outcome of a cell."""

    def __init__(self, result, captured):
        self.value = result.result
        self.number = result.execution_count
        self.error = result.error_in_exec or result.error_before_exec
        self.out = captured.stdout
        self.err = captured.stderr
        self.outputs = captured.outputs
        self.pictures = [each.data for each in captured.outputs if "text/html" in each.data]


@pytest.fixture
def run(shell):
    """Run a cell, and return its output, value, error and pictures."""

    def run(cell: str) -> Ran:
        with capture_output() as captured:
            result = shell.run_cell(cell, store_history=True)
        return Ran(result, captured)

    return run
