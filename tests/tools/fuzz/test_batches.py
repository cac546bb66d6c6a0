"""Batches of programs, and the way back to single ones."""

import random

from nbcompile.tools.fuzz import batches, oracle, python


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
