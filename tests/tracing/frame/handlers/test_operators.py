"""Operators, displays, unpacking and formatted strings."""

from __future__ import annotations

from tests.support.answers import check


class Thing:
    a = 1


def test_unpacking():
    """The number of values must equal the number of names, unless one name has a star."""
    check(
        "a, b = 1, 2, 3", "a, b = [1]", "a, *b = []", "a, *b = 1, 2\nreturn a, b", "a, *b, c = 'abcd'\nreturn a, b, c", "a, *b, c = 'a'",
        "a, b = 5", "a, b = 'ab'\nreturn a, b", "(a, b), c = (1, 2), 3\nreturn a, b, c", "[*5]", "[*[1], *'ab']", "{**{'a': 1}, 'a': 2}",
        "{**5}", "{*[1], *(1, 2)} == {1, 2}", "a, b = Thing()", "a, *b = Thing()", "for a, b in [Thing]: pass", "a, b = len", "a, b = None",
        Thing=Thing,
    )  # fmt: skip


def test_comparisons():
    """A chained comparison evaluates each operand once; values without an order raise errors."""
    check(
        "1 < 2 < 3, 1 < 2 > 5, 1 in [1] == True", "1 < 'a'", "None < None", "[1] < [1, 2] < [2]", "None is None, [] is [], () is ()",
        "not [], not 1, -True, +True, ~True", "1 if [] else 2, [] or 0 or 'a', [1] and 5", "1 in 5", "'a' in {'a': 1}", "[1] == (1,)",
        "not Thing()", "-'a'", "[] + 1", "1 @ 2", "2 ** -1, 7 // -2, 7 % -2, 1 << 3, 5 & 3, 5 ^ 3, 5 | 3", Thing=Thing,
    )  # fmt: skip


def test_comprehensions():
    """Comprehensions may have conditions and several loops, and their variables are local to them."""
    check(
        "[v for v in range(5) if v % 2]", "{v: v for v in 'ab'}", "list(v for v in (1, 2))", "[a + b for a in [1, 2] for b in [3]]",
        "v = 9\n[v for v in range(3)]\nreturn v", "[[w for w in range(v)] for v in range(3)]", "[v for v in 5]",
    )  # fmt: skip


def test_formatted_texts():
    """Conversions, computed format specifications, and those that do not fit the value."""
    check(
        "f\"{1:>5}{'a'!r}{3.14159:.2f}{[1]}{None}\"", "f\"{'a':d}\"", "f'{thing.a:{5}}'", "f'{1.5!s:>6}|'", "f'{True:d} {2:05b} {-0.0}'",
        "f\"{'é'!a}\"", "f'{1:z}'", thing=Thing(),
    )  # fmt: skip
