"""Lists are sorted as in Python: by constants, by traced keys, and by comparisons of the program."""

from __future__ import annotations

import pytest
import torch

import nbcompile
from tests.support.answers import check
from tests.support.oracle import require_same_answer


class Backwards:
    def __init__(self, number):
        self.number = number

    def __lt__(self, other):
        return self.number > other.number


def test_sorting():
    """Sorting is stable in both directions, and accepts keys, tuples of constants and objects with ``__lt__``."""
    check(
        "return sorted([(2, 'b'), (1, 'z'), (2, 'a')]), sorted('bca', reverse=True)",
        "return sorted([3, -1, 2, -3, 1], key=abs), sorted([3, -1, 2, -3, 1], key=abs, reverse=True)",
        "return [each.number for each in sorted([Backwards(1), Backwards(3), Backwards(2)])]",
        "xs = [2, 1]\nreturn xs.sort(), xs, sorted(xs, key=None)",
        "return sorted([1, 'a'])",
        "return sorted([1], reverse='no')",
        Backwards=Backwards,
    )  # fmt: skip


def test_a_list_is_empty_while_it_is_sorted():
    """A key that changes the list causes an error; a key that raises an error leaves the list unchanged."""
    check(
        "xs = [3, 1, 2]\ndef key(x):\n  seen.append(len(xs))\n  return x\nseen = []\nxs.sort(key=key)\nreturn xs, seen",
        "xs = [3, 1, 2]\ndef key(x):\n  xs.append(x)\n  return x\ntry: xs.sort(key=key)\nexcept ValueError as e: return xs, str(e)",
        "xs = [3, 1, 2]\ntry: xs.sort(key=lambda x: 1 // (x - 1))\nexcept ZeroDivisionError: return xs",
    )  # fmt: skip


def test_what_a_comparison_that_fails_leaves():
    """The list is partly sorted after an error, as in Python."""
    check(
        "xs = [2, 1, 3, 0, 'a']\ntry: xs.sort()\nexcept TypeError: return xs",
        "xs = [2, 1, 3, 0, 'a']\ntry: xs.sort(reverse=True)\nexcept TypeError: return xs",
        "xs = [2, 1, 3, 0, 'a']\ntry: return sorted(xs)\nexcept TypeError: return xs",
    )


@pytest.mark.parametrize(
    "act", ["clear()", "reverse()", "extend([])", "sort()", "__imul__(2)", "append(1) or xs.pop()"]
)
def test_acts_on_a_list_while_it_is_sorted(act):
    """An operation on the list causes an error only if it adds items, as in CPython."""
    program = compile(
        f"def f(x):\n xs = [3, 1, 2]\n xs.sort(key=lambda v: (xs.{act}, v)[1])\n return x + 1, xs", "f", "exec"
    )
    names: dict = {}
    exec(program, names)
    require_same_answer(lambda: names["f"](torch.ones(1))[1])


class Plain:
    pass


@pytest.mark.parametrize("expression", [
    "[name for name, value in sorted({'b': x, 'a': x + 1}.items())]",
    "[name for name, value in sorted({'b': x, 'a': P()}.items(), reverse=True)]",
    "[name for name, value in sorted([('b', x), ('a', P()), ('c', None)])]",
    "[second for first, second, value in sorted([(1, 'b', x), (1, 'a', x), (0, 'c', P())])]",
    "min([(2, x), (1, x)])[0]", "max({'b': x, 'a': x}.items())[0]",
])  # fmt: skip
def test_tuples_are_sorted_by_the_constants_with_which_they_begin(expression):
    """What is behind constants that decide each comparison is never compared: tensors, objects of any class."""
    function = eval(f"lambda x: (x + 1, {expression})", {"P": Plain})
    x = torch.ones(3)
    result, answer = nbcompile.compile(function, fullgraph=True)(x)
    assert torch.equal(result, x + 1)
    assert answer == function(x)[1]


def test_tuples_that_constants_do_not_tell_apart_are_compared_further():
    """Two tuples that begin with equal constants compare what follows, as in eager mode."""

    def function(x):
        return x + 1, [name for name, _ in sorted([("a", x), ("a", x - 1)])]

    with pytest.raises(RuntimeError, match="Boolean value of Tensor"):
        function(torch.ones(3))
    with pytest.raises(RuntimeError, match="Boolean value of Tensor"):
        nbcompile.compile(function)(torch.ones(3))
