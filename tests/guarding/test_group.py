"""The protocol of a group of guards."""

from __future__ import annotations

from nbcompile.fast import guard_groups
from nbcompile.guarding.group import GuardGroup
from tests.support.protocols import missing_members


def test_cached_groups_have_all_that_the_tree_asks_for():
    """A module group has each attribute and method of the protocol."""
    assert missing_members(GuardGroup, guard_groups.ModuleGroup) == []
