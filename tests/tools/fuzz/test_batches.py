"""Batches of programs, and the way back to single ones."""

import random

from nbcompile.tools.fuzz import batches, guards, networks, oracle, python


def test_a_batch_of_python_programs():
    """Small programs that neither raise nor break are called from one function; a member can be played alone."""
    batch = python.batch("5", random.Random("5"), 4)
    assert batch.size == 4
    expected = oracle.play(batch, lambda function: function)
    assert expected.error is None
    assert len(expected.seen) == 3  # results and arguments, the state, what is printed
    (member,) = batches.members(batch, [2])
    assert oracle.play(member, lambda function: function).error is None
    assert oracle.examine(batch, lambda f: lambda inputs: f(inputs)[:2] + f(inputs)[2:]).members


def test_a_group_of_guard_programs():
    """Each program is compiled by itself and answers for its own guards; a member is found and played alone."""
    group = guards.group("3", random.Random("3"), 6)
    assert group.size > 3
    verdict = oracle.examine(group)
    assert not verdict.refused and verdict.difference is None

    def missing_guard(function):
        held = {}
        if not function.__name__.startswith("p2"):
            return function
        return lambda *arguments: held.setdefault("result", function(*arguments))  # never looks again

    assert oracle.examine(group, missing_guard).members == (2,)
    (member,) = batches.members(group, (2,))
    assert member.size == 1
    assert "p1(" not in member.source
    assert oracle.examine(member, lambda f: lambda *a: None).difference is not None


def test_a_batch_of_networks():
    """Networks that are trained in one step; what is wrong in one is found there, also if it is a gradient."""
    batch = networks.batch("4", random.Random("4"), 3)
    assert batch.size == 3
    verdict = oracle.examine(batch)
    assert not verdict.refused and verdict.difference is None

    def wrong(function):
        def step(inputs):
            result = function(inputs)
            inputs[1][0].x.add_(1)
            return result

        return step

    assert oracle.examine(batch, wrong).members == (1,)
    (member,) = batches.members(batch, (1,))
    assert member.size == 1
    assert not oracle.examine(member).refused
