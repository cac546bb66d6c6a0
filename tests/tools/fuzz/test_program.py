"""Programs of the fuzzer as files."""

from __future__ import annotations

from nbcompile.tools.fuzz import guards, networks, program
from tests.tools.fuzz.test_oracle import SMALL, made


def test_a_file_that_runs_alone(tmp_path):
    """A program's file reads back as the same program, and runs alone."""
    path = tmp_path / "found.py"
    for each in [made(SMALL), networks.generate("1"), guards.generate("2")]:
        path.write_text(each.text())
        read = program.Program.read(str(path))
        assert (read.kind, read.backend, read.approximate) == (each.kind, each.backend, each.approximate)
        assert read.source.strip() == each.source.strip()
