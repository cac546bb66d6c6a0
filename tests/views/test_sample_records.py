"""The sample records equal those of a compile of their programs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch

from nbcompile import config
from nbcompile.record import codec
from nbcompile.record.model import Record
from tests.views import sample_programs, sample_records

SAME_VERSIONS = sys.version_info[:2] == (3, 11) and torch.__version__.startswith("2.13.0")
"""Others have another bytecode, residual programs and texts: of their records the outline is compared."""


def outline(record: Record) -> list[tuple[object, ...]]:
    """Compiled frames with causes, graphs, breaks, failed guards and mutations."""
    return [
        (
            frame.id,
            frame.function,
            frame.status,
            frame.cause,
            frame.called_from,
            frame.resumes,
            [(node.name, node.op, node.target, node.arguments) for node in frame.graph.nodes] if frame.graph else None,
            [(found.kind, [line.line for line in found.stack]) for found in frame.breaks],
            [(failed.compile_id, failed.guard, failed.expected) for failed in frame.failed_guards],
            [(mutation.kind, mutation.target) for mutation in frame.mutations],
            [found.line for found in frame.resume_functions],
        )
        for frame in record.frames
    ]


@pytest.fixture(scope="module")
def now(tmp_path_factory):
    """A folder with the records of a new process."""
    folder = tmp_path_factory.mktemp("samples")
    subprocess.run([sys.executable, "-m", "tests.views.sample_programs", str(folder)], check=True)
    return folder


@pytest.mark.parametrize("program", sample_programs.PROGRAMS, ids=lambda program: program.__name__)
def test_a_sample_is_what_a_compile_makes(program, now, request):
    """Each field of the record is equal: frames, graphs, guards, breaks, programs, kernels, sentences."""
    name = f"{program.__name__}.json"
    made = (now / name).read_text()
    if request.config.getoption("--update"):
        (sample_records.SAMPLES / name).write_text(made)
    kept = (sample_records.SAMPLES / name).read_text()
    assert outline(codec.from_json(made)) == outline(codec.from_json(kept))
    if SAME_VERSIONS and not config.reference:  # which stores nothing, and calls torch's own functions
        assert json.loads(made) == json.loads(kept)


def test_samples_have_no_folder_of_this_machine():
    """The samples contain no folder of this machine."""
    texts = [path.read_text() for path in sorted(sample_records.SAMPLES.iterdir())]
    assert len(texts) == len(sample_programs.PROGRAMS)
    assert [text for text in texts if sys.prefix in text or torch.__file__ in text] == []
