"""Batches of programs, and their members."""

import random

import pytest

import nbcompile
from nbcompile.tools.fuzz import batches, oracle, program, python, tensors


def test_a_batch_of_python_programs():
    """Programs without errors and breaks are called from one function; a member can run alone."""
    batch = python.batch("5", random.Random("5"), 4)
    assert batch.size == 4
    expected = oracle.play(batch, lambda function: function)
    assert expected.error is None
    assert len(expected.seen) == 3  # results, arguments, state, output
    (member,) = batches.members(batch, [2])
    assert oracle.play(member, lambda function: function).error is None
    assert oracle.examine(batch, lambda f: lambda inputs: f(inputs)[:2] + f(inputs)[2:]).difference


@pytest.mark.parametrize("seed", ["1", "2"])
def test_sets_of_values_of_a_tensor_program(seed, monkeypatch):
    """A program is called with several sets of values of equal dtypes, sizes and strides, without a recompile."""
    monkeypatch.setattr(tensors, "BATCH", 6)
    monkeypatch.setattr(tensors, "VALUE_SETS", 4)
    batch = tensors.generate(seed)
    assert batch.size < batch.value_sets <= 4 * batch.size
    frames = []

    def compiler(function):
        nbcompile.reset()
        return nbcompile.compile(function, backend=lambda graph, inputs: frames.append(graph) or graph, fullgraph=True)

    found = oracle.play(batch, compiler)
    assert found.error is None
    assert len(frames) == 1
    assert len(found.seen) == 5  # four sets, and the output


def test_a_difference_with_one_set_of_values_is_found():
    """A wrong result for the third set of values is the program's difference, alone and in its batch."""
    sets = [f"[({first},), ({first + 1},), ({first + 2},)]" for first in (0, 10)]
    functions = [("def p(a):\n    return a + 1\n", given) for given in sets]
    batch = program.Program("tensor", "test", batches.module(functions, ""), size=2)

    def compiler(function):
        return lambda inputs: [
            result + (given == (12,)) for result, given in zip(function(inputs), inputs, strict=True)
        ]

    outcome = oracle.examine(batch, compiler)
    assert outcome.members == (1,)
    (member,) = batches.members(batch, outcome.members)
    assert oracle.examine(member, compiler).difference is not None
