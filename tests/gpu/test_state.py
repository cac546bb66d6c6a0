"""The state of simulated blocks that copies and products work on."""

from __future__ import annotations

from nbcompile.gpu.blocks import Blocks
from nbcompile.gpu.state import State
from tests.support.protocols import missing_members


def test_blocks_have_all_of_the_state():
    """The simulator's blocks have each attribute and method that copies and matrix products use."""
    assert missing_members(State, Blocks) == []
