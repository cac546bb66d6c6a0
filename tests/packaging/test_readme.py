"""README's snippets run unchanged, in order, in one IPython."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.support.processes import python

ROOT = Path(__file__).parents[2]

IN_IPYTHON = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
for snippet in json.loads(sys.argv[1]):
    result = shell.run_cell(snippet)
    result.raise_error()
print("all of them ran:", len(shell.user_ns["r"].record.frames), shell.user_ns["explained"].result.shape)
"""


def snippets() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), flags=re.DOTALL | re.MULTILINE)


def test_snippets_run_in_order(tmp_path):
    """Each snippet needs only those above it."""
    assert len(snippets()) >= 4
    printed = python(IN_IPYTHON, json.dumps(snippets()), folder=tmp_path, IPYTHONDIR=tmp_path)
    assert "all of them ran: " in printed
