"""Batches of programs, and the way back to single ones."""

import random

from nbcompile.tools.fuzz import batches, networks, oracle, python


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
