"""``sum`` has CPython's total, to the last bit: from 3.12 on it makes up for what additions of floats round away."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
import torch

import nbcompile

PROGRAMS: dict[str, Any] = {
    "floats": lambda x, a: sum([0.1] * 10),
    "floats behind a float": lambda x, a: sum([0.1] * 9, start=0.1),
    "floats of a generator": lambda x, a: sum(0.1 for _ in range(10)),
    "what cancels": lambda x, a: sum([1e100, 1.0, -1e100]),
    "ints between floats": lambda x, a: sum([1, 0.1, 0.2, 2, 0.3, True]),
    "an int behind two floats": lambda x, a: sum([1e16, 1.0, -(10**16)]),
    "infinities": lambda x, a: (
        sum([1e308, 1e308, -1e308]),
        sum([math.inf, 0.1, 0.2]),
        sum([math.inf, -math.inf, 1.0]),
    ),
    "negative zeros": lambda x, a: (sum([-0.0, -0.0, -0.0]), sum([-0.0, -0.0, -0.0], start=-0.0)),
    "a start that is a bool": lambda x, a: sum([0.1, 0.2, 0.3, 0.3], start=True),
    "an int of more than 64 bits": lambda x, a: (sum([2**63, 0.1, 0.2, 0.3]), sum([0.1, 0.2, 2**70, 0.3, 0.4])),
    "a fraction behind floats": lambda x, a: sum([0.1, 0.2, 0.3, Fraction(1, 3), 0.1, 0.2]),
    "a tensor behind floats": lambda x, a: sum([1e16, 1.0, 1.0, x]).tolist(),
    "a tensor before floats": lambda x, a: sum([x, 0.1, 0.2, 0.3]).tolist(),
    "a tensor as the start": lambda x, a: sum([x, x, a], start=x).tolist(),
    "lists": lambda x, a: sum([[a], [1]], []),
    "floats of an argument": lambda x, a: sum([a * 0.1] * 10),
    "floats of a size": lambda x, a: sum([x.shape[0] * 0.1] * 10),
    "floats of sizes and ints": lambda x, a: sum([x.shape[0] * 1e16, 1.0, x.shape[0], 0.5]),
    "floats of a size in the graph": lambda x, a: (x * sum([x.shape[0] * 0.1, 0.2, 0.3, 0.7])).tolist(),
    "nothing": lambda x, a: (sum([]), sum([], 0.5), sum([0.1]), sum([0.1, 0.2])),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_totals_are_pythons(name):
    """Floats, and what stands between them, have the total that eager mode has, for each size."""
    program = PROGRAMS[name]
    compiled = nbcompile.compile(program, backend="eager")
    for size in (3, 4, 7):
        x = torch.arange(size, dtype=torch.float64)
        assert repr(compiled(x, size)) == repr(program(x, size))


@pytest.mark.parametrize(
    "program",
    [lambda x: sum(["a"], ""), lambda x: sum(["a"]), lambda x: sum(5)],
    ids=["texts", "a text", "no iterable"],
)
def test_errors_are_pythons(program):
    """Values that cannot be added or iterated over raise CPython's exception."""
    with pytest.raises(TypeError) as expected:
        program(torch.ones(1))
    with pytest.raises(TypeError) as got:
        nbcompile.compile(program, backend="eager")(torch.ones(1))
    assert str(got.value) == str(expected.value)


def test_a_total_of_two_floats_stays_in_the_graph():
    """The total of sizes, and of two floats, needs no compensation: one graph for all sizes."""
    program = lambda x: x * sum([x.shape[0], x.shape[0] * 0.5]) + sum([x.shape[0] * 0.5, 0.1])
    compiled = nbcompile.compile(program, backend="eager", dynamic=True, fullgraph=True)
    assert compiled(torch.ones(3)).tolist() == program(torch.ones(3)).tolist()
    with nbcompile.set_stance("fail_on_recompile"):
        assert compiled(torch.ones(4)).tolist() == program(torch.ones(4)).tolist()
