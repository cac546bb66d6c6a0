"""Tests for nbcompile.tracing.calls.conversions: conversions give Python's results; that of a tensor is a node."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch

import nbcompile
from tests.support.graphs import Graphs


class Money:
    def __init__(self, cents: int) -> None:
        self.cents = cents

    def __int__(self) -> int:
        return self.cents // 100

    def __index__(self) -> int:
        return self.cents

    def __float__(self) -> float:
        return self.cents / 100

    def __str__(self) -> str:
        return f"${self.cents / 100:.2f}"


PROGRAMS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "texts of numbers": (lambda x, s: x * int(s) + float(s), ("12",)),
    "a base": (lambda x, s: x * int(s, base=16), ("ff",)),
    "bytes": (lambda x, n: x + len(bytes(n)), (3,)),
    "complex of two numbers": (lambda x, a: (x * complex(a, 2).real, str(complex(a, 2))), (1.5,)),
    "an object's methods": (lambda x, m: (x * int(m) + float(m), str(m)), (Money(250),)),
    "an object's __index__": (lambda x, m: x[int(m.__index__() > 3) :], (Money(250),)),
    "text of containers": (lambda x, a: (x, str([1, (a, {"k": a})]), repr({a})), (2,)),
    "round with digits": (lambda x, a: x * round(a, 2), (1.005,)),
    "abs of an object of the library": (lambda x, a: x * float(abs(a)), (Fraction(-1, 3),)),
    "truth": (lambda x, a: x + bool(a) + bool([]) + bool(), ("",)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_conversions_give_what_python_gives(name):
    """A conversion of a value that is known while tracing gives Python's result."""
    function, arguments = PROGRAMS[name]
    x = torch.arange(4.0)
    expected, got = function(x, *arguments), nbcompile.compile(function, backend="eager")(x, *arguments)
    torch.testing.assert_close(got, expected, rtol=0, atol=0) if isinstance(got, torch.Tensor) else None
    assert repr(got) == repr(expected)


@pytest.mark.parametrize("text", ["1.5", "x", "", "0x1f"])
def test_a_conversion_that_fails_raises_pythons_error(text):
    """A string that cannot be converted raises eager mode's ValueError, with the same text."""

    def converts(x: torch.Tensor, text: str) -> torch.Tensor:
        return x * int(text)

    with pytest.raises(ValueError) as expected:
        converts(torch.ones(2), text)
    with pytest.raises(ValueError) as got:
        nbcompile.compile(converts, backend="eager")(torch.ones(2), text)
    assert str(got.value) == str(expected.value)


@pytest.mark.parametrize("convert", [int, float])
def test_a_tensor_converted_is_a_node_without_a_guard_on_its_value(convert):
    """``int(x)`` of a tensor is one graph for all values: no guard checks the value."""
    with nbcompile.config.patch(capture_scalar_outputs=True):
        function = nbcompile.compile(lambda x: x.new_ones(2) * convert(x), backend="eager", fullgraph=True)
        with nbcompile.set_stance("default"):
            assert function(torch.tensor(3.0)).tolist() == [3.0] * 2
        with nbcompile.set_stance("fail_on_recompile"):
            for value in (4.5, -2.0):
                assert function(torch.tensor(value)).tolist() == [convert(value)] * 2


@pytest.mark.parametrize("expression", [
    "int(np.ceil(x.shape[0] / 3))", "int(np.ceil(4 / 3))", "float(np.sqrt(4.0))", "int(np.log2(x.shape[0]))",
    "round(float(np.round(2.6)))", "float(np.sin(np.pi / 2))", "float(np.float32(1.5))", "complex(np.sqrt(4.0))",
    "len(range(int(np.ceil(2.5))))", "int(np.floor(x.shape[0] / 2))", "float(np.exp(0.0)) + int(np.trunc(2.7))",
])  # fmt: skip
def test_a_numpy_number_of_constants_is_converted_in_the_graph(expression):
    """``int`` and ``float`` of what NumPy calculates of constants are constants: the graph does not end there."""
    function = eval(f"lambda x: x + ({expression})", {"np": np})
    x = torch.ones(4, 6)
    graphs = Graphs()
    result = nbcompile.compile(function, backend=graphs, fullgraph=True)(x)
    assert torch.equal(result, function(x))
    assert len(graphs) == 1
