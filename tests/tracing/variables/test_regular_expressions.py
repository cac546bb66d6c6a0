"""Patterns and matches are computed while tracing."""

from __future__ import annotations

import copy
import re

from tests.support.answers import check


class Text(str):
    __slots__ = ()


NAMES = {"PATTERN": re.compile(r"(?P<n>\d+)-(\w)"), "re": re, "Text": Text, "copy": copy}


def test_a_match_and_its_groups():
    """By number and by name; none where nothing matches."""
    check(
        "PATTERN.match('12-a').group('n'), PATTERN.match('12-a').groups()", "PATTERN.match('x')", "PATTERN.match('12-a')['n']",
        "PATTERN.match('12-a')[2]", "PATTERN.match('12-a')['zz']", "PATTERN.match('12-a')[5]", "PATTERN.fullmatch('12-a').end()",
        "PATTERN.search('  1-a').start()", "PATTERN.match('12-a').lastgroup", "PATTERN.match('12-a').expand(r'\\1')",
        "bool(PATTERN.match('12-a'))", **NAMES,
    )  # fmt: skip


def test_all_matches():
    """As lists, and replaced by a text or by what a function says of each."""
    check(
        "PATTERN.findall('12-a 3-b')", "PATTERN.split('12-a')", "PATTERN.sub('z', '12-a 3-b')",
        "PATTERN.sub(lambda m: m['n'] * 2, '12-a 3-b')", "PATTERN.subn(lambda m: 'x', 'none')", "re.sub('a', r'\\1', 'a')", **NAMES,
    )  # fmt: skip


def test_what_a_pattern_says_and_refuses():
    """Attributes, copies, texts of a subclass; arguments of another type."""
    check(
        "PATTERN.pattern, PATTERN.groups, PATTERN.flags, PATTERN.groupindex['n']", "PATTERN.nothing", "PATTERN.match(5)",
        "PATTERN.match()", "re.compile('(')", "PATTERN == re.compile(PATTERN.pattern)", "copy.copy(PATTERN) is PATTERN",
        "PATTERN.match(Text('12-a')).group()", **NAMES,
    )  # fmt: skip
