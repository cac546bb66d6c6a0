"""Numbers, also symbolic ones, where Python expects an index, a count or a length."""

import collections
import itertools
import operator
from typing import Any

import pytest
import torch

import nbcompile
from tests.support.oracle import outcome

EXPRESSIONS = """
[1, 2][n]
(1, 2)[n]
[1, 2][n:]
range(5)[n]
range(5).index(n)
range(5).count(n)
n in range(5)
[1, 2] * n
list(itertools.islice([1, 2, 3], n))
list(itertools.islice([1, 2, 3], 0, n))
list(itertools.islice([1, 2, 3], 0, 2, n - 1))
list(itertools.islice([1], 1, 2, 3, 4))
list(itertools.repeat(1, n))
list(itertools.repeat(object=n, times=2))
list(itertools.combinations([1, 2], n))
list(itertools.permutations([1, 2], -n))
list(itertools.combinations_with_replacement([1, 2], n))
list(itertools.product([1, 2], repeat=n))
next(itertools.count(n))
next(itertools.count("a"))
list(enumerate("ab", n))
list(enumerate("ab", start=n))
collections.deque([1, 2], n)
collections.deque([1, 2], -n)
collections.deque([1, 2], maxlen=n).maxlen
collections.deque([1, 2, 3]).rotate(n)
operator.index(n)
complex(n, n)
complex(real=1, imag=n)
complex(x.sum(), n)
complex(n)
int(n, 10)
int("10", n)
bytes(n)
bytes([n])
x.size(n)
x.size(dim=-n)
x.stride(n)
x.sum().size(n)
max(1, n, default=3)
max([], default=n)
sum([[n]], [])
sum("ab", "")
list(reversed({n}))
list(reversed({n: 1}))
list(reversed(iter([n])))
""".strip().splitlines()


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("text", EXPRESSIONS)
def test_numbers_as_indices(text: str, dynamic: bool | None) -> None:
    """Each expression gives eager mode's value, or an error with the same text; never an internal error."""
    scope: dict[str, Any] = {"torch": torch, "collections": collections, "itertools": itertools, "operator": operator}
    exec(f"def f(x, n):\n    y = x + 1\n    return y, {text}", scope)  # noqa: S102  # the expressions of the table
    for numbers in ((1, 2), (1.0, 2.0), (True, 2.5)):
        nbcompile.reset()
        compiled = nbcompile.compile(scope["f"], backend="eager", dynamic=dynamic)
        for number in numbers:
            assert outcome(compiled, torch.ones(2), number) == outcome(scope["f"], torch.ones(2), number), number
