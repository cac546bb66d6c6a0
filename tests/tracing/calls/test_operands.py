"""Which operand answers an operator: the left one's class, the right one's, or neither.

    x + I(1)        the tensor takes any int: I.__radd__ is not called
    2.5 + I(1)      so does a float
    x @ I(1)        a tensor takes no number: I.__rmatmul__ is called

In torch: test/dynamo/test_functions.py. Read next: tests/tracing/calls/test_numbers.py
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tests.support.oracle import Compiler, disagreement, tried

BINARY = ("+", "-", "*", "/", "//", "%", "**", "@", "<<", ">>", "&", "|", "^")
NAMES = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "lshift", "rshift", "and", "or", "xor")
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


def own_operators(*bases: type) -> type:
    """A class that defines every reflected method and every comparison itself."""

    def answer(name: str) -> Any:
        return lambda self, other: (type(self).__name__, name, type(other).__name__)

    names = [f"__r{name}__" for name in NAMES] + [f"__{name}__" for name in ("lt", "le", "gt", "ge", "eq", "ne")]
    members: dict[str, Any] = {name: answer(name) for name in names}
    return type("Own" + "".join(base.__name__ for base in bases), bases, {**members, "__hash__": object.__hash__})


class Asked:
    """A class with ``__torch_function__``."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> object:
        return func.__name__


VALUES: dict[str, Any] = {
    "int": own_operators(int)(2),
    "float": own_operators(float)(2.5),
    "complex": own_operators(complex)(1 + 2j),
    "str": own_operators(str)("a"),
    "tuple": own_operators(tuple)((1,)),
    "object": own_operators()(),
    "plain int": type("PlainInt", (int,), {})(2),
    "plain float": type("PlainFloat", (float,), {})(2.5),
    "plain complex": type("PlainComplex", (complex,), {})(1 + 2j),
    "asked": Asked(),
}
LEFT: dict[str, Any] = {
    "tensor": torch.tensor([1, 2, 3]),
    "float tensor": torch.tensor([1.0, 2.0, 3.0]),
    "int": 3,
    "float": 1.5,
    "complex": 1j,
    "plain int": type("PlainInt", (int,), {})(3),
}


def answers(compiled: Compiler, source: str, left: object, right: object) -> Iterator[object]:
    names: dict[str, Any] = {}
    exec(source, names)
    found = tried(compiled(names["f"]), torch.ones(2), left, right)
    rejected = isinstance(found, tuple) and isinstance(found[0], type)
    yield "rejected" if rejected else found  # in other words, where a fake tensor rejects before the kernel does


@pytest.mark.parametrize("right", VALUES)
@pytest.mark.parametrize("left", LEFT)
def test_the_operand_that_answers(left: str, right: str) -> None:
    """The operand that answers in eager mode answers here, too, for all binary operators, both orders, and in place."""
    if "complex" in left + right and left.endswith("tensor"):
        symbols: tuple[str, ...] = ("+", "*", "@", "==", "!=")
    else:
        symbols = (*BINARY, *COMPARISONS)

    def scenario(compiled: Compiler) -> Iterator[object]:
        for first, second in (("a", "b"), ("b", "a")):
            for symbol in symbols:
                source = f"def f(x, a, b): return x * 2, {first} {symbol} {second}"
                yield from answers(compiled, source, LEFT[left], VALUES[right])
                if symbol in BINARY and first == "a":
                    source = f"def f(x, a, b):\n a = a + 0\n a {symbol}= b\n return x * 2, a"
                    yield from answers(compiled, source, LEFT[left], VALUES[right])

    found = disagreement(scenario)
    assert not found, found
