"""Graphs of programs with collectives, compared with torch's, on two ranks."""

import json
import subprocess
import sys
from pathlib import Path

from tests.distributed.test_ranks import pytestmark  # noqa: F401 - skipped without gloo

PROGRAM = Path(__file__).with_name("captured.py")


def test_collectives_are_in_the_graph_as_in_torchs(tmp_path):
    """Functional collectives, those that write a tensor, and questions about groups: eager's results, torch's graphs."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    ran = subprocess.run([*command, str(PROGRAM), str(tmp_path)], capture_output=True, text=True, timeout=400)
    assert ran.returncode == 0, ran.stderr[-4000:]
    for rank in range(2):
        found = json.loads((tmp_path / f"{rank}.json").read_text())
        assert len(found) > 30
        for name, (right, ours, theirs) in found.items():
            assert right, name
            assert ours == theirs, name
