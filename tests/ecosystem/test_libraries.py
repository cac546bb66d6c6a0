"""Programs of libraries are right, in as many graphs and recompilations as with torch.compile."""

import pytest

from tests.ecosystem import measure
from tests.ecosystem.library_programs import PROGRAMS
from tests.peer.harness import OURS, THEIRS


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_torch_compile(name):
    """A program of a library gives eager's results, in torch's number of graphs and of recompilations."""
    if not measure.is_installed(name):
        pytest.skip(f"{PROGRAMS[name][0]} is not installed: make ecosystem")
    ours, theirs = measure.captured(name, OURS), measure.captured(name, THEIRS)
    assert ours == theirs
    assert ours.right
