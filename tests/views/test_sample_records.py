"""The records that views are tested on are what a compile makes of their programs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch

from tests.views import sample_programs, sample_records


@pytest.fixture(scope="module")
def now(tmp_path_factory):
    """Folder of the records that a process makes now."""
    folder = tmp_path_factory.mktemp("samples")
    subprocess.run([sys.executable, "-m", "tests.views.sample_programs", str(folder)], check=True)
    return folder


@pytest.mark.parametrize("program", sample_programs.PROGRAMS, ids=lambda program: program.__name__)
def test_a_sample_is_what_a_compile_makes(program, now, request):
    """Every field of the record: frames, graphs, guards, breaks, programs, kernels, and the sentences about them."""
    name = f"{program.__name__}.json"
    made = (now / name).read_text()
    if request.config.getoption("--update"):
        (sample_records.SAMPLES / name).write_text(made)
    assert json.loads(made) == json.loads((sample_records.SAMPLES / name).read_text())


def test_samples_have_no_folder_of_this_machine():
    """Another machine compares with the same text."""
    texts = [path.read_text() for path in sorted(sample_records.SAMPLES.iterdir())]
    assert len(texts) == len(sample_programs.PROGRAMS)
    assert [text for text in texts if sys.prefix in text or torch.__file__ in text] == []
