"""Keys that are equal are one key: the first of them stays, and the last value."""

from __future__ import annotations

from tests.tracing.answers import check


def test_the_first_of_equal_keys_stays():
    """In a display, an update, a comprehension and a set."""
    check(
        "{1: 'a', True: 'b', 1.0: 'c'}", "d = {1: 'a'}\nd[True] = 'b'\nreturn d", "dict([(1, 2), (1.0, 3)])",
        "{key: 1 for key in (0, False, -0.0)}", "{1: 'a'} | {True: 'b'}", "{1, True, 1.0}", "dict.fromkeys([True, 1])",
        "d = {1.0: 'a'}\nd.update({1: 'b'})\nreturn d", "{**{1: 2}, True: 3}", "s = {1}\ns.add(True)\nreturn s",
        "{1.0} | {1}", "{1} & {True}", "d = {True: 1}\nd.setdefault(1, 2)\nreturn d",
    )  # fmt: skip
