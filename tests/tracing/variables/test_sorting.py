"""Lists are sorted as Python sorts them: by constants, by traced keys, by comparisons of the program's own."""

from __future__ import annotations

from tests.support.answers import check


class Backwards:
    def __init__(self, number):
        self.number = number

    def __lt__(self, other):
        return self.number > other.number


def test_sorting():
    """Sorting is stable, forwards and backwards, and takes keys, tuples of constants and objects with a ``__lt__``."""
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
    """What a key or a comparison does to it is undone, and is an error; one that fails leaves the list as it was."""
    check(
        "xs = [3, 1, 2]\ndef key(x):\n  seen.append(len(xs))\n  return x\nseen = []\nxs.sort(key=key)\nreturn xs, seen",
        "xs = [3, 1, 2]\ndef key(x):\n  xs.append(x)\n  return x\ntry: xs.sort(key=key)\nexcept ValueError as e: return xs, str(e)",
        "xs = [3, 1, 2]\ntry: xs.sort(key=lambda x: 1 // (x - 1))\nexcept ZeroDivisionError: return xs",
    )  # fmt: skip
