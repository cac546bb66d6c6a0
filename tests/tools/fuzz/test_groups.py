"""Groups of programs, each compiled separately."""

import random

from nbcompile.tools.fuzz import batches, guards, oracle


def test_a_group_of_guard_programs():
    """Each program has its own guards; a member with a difference is found, and can run alone."""
    group = guards.group("3", random.Random("3"), 6)
    assert group.size > 3
    verdict = oracle.examine(group)
    assert not verdict.eager_error and verdict.difference is None

    def missing_guard(function):
        held = {}
        if not function.__name__.startswith("p2"):
            return function
        return lambda *arguments: held.setdefault("result", function(*arguments))  # checks no guard again

    assert oracle.examine(group, missing_guard).members == (2,)
    (member,) = batches.members(group, (2,))
    assert member.size == 1
    assert "p1(" not in member.source
    assert oracle.examine(member, lambda f: lambda *a: None).difference is not None
