"""Regular expressions and matches, evaluated while tracing."""

from __future__ import annotations

import copy
import re

from tests.support.answers import check


class Text(str):
    __slots__ = ()


NAMES = {"PATTERN": re.compile(r"(?P<n>\d+)-(\w)"), "re": re, "Text": Text, "copy": copy}


def test_a_match_and_its_groups():
    """Groups by number and by name; a failed match is None."""
    check(
        "PATTERN.match('12-a').group('n'), PATTERN.match('12-a').groups()", "PATTERN.match('x')", "PATTERN.match('12-a')['n']",
        "PATTERN.match('12-a')[2]", "PATTERN.match('12-a')['zz']", "PATTERN.match('12-a')[5]", "PATTERN.fullmatch('12-a').end()",
        "PATTERN.search('  1-a').start()", "PATTERN.match('12-a').lastgroup", "PATTERN.match('12-a').expand(r'\\1')",
        "bool(PATTERN.match('12-a'))", **NAMES,
    )  # fmt: skip


def test_all_matches():
    """Matches as lists, and their replacement by a string or by the result of a function."""
    check(
        "PATTERN.findall('12-a 3-b')", "PATTERN.split('12-a')", "PATTERN.sub('z', '12-a 3-b')",
        "PATTERN.sub(lambda m: m['n'] * 2, '12-a 3-b')", "PATTERN.subn(lambda m: 'x', 'none')", "re.sub('a', r'\\1', 'a')", **NAMES,
    )  # fmt: skip


def test_what_a_pattern_says_and_rejects():
    """Attributes, copies, strings of a subclass, and arguments of another type."""
    check(
        "PATTERN.pattern, PATTERN.groups, PATTERN.flags, PATTERN.groupindex['n']", "PATTERN.nothing", "PATTERN.match(5)",
        "PATTERN.match()", "re.compile('(')", "PATTERN == re.compile(PATTERN.pattern)", "copy.copy(PATTERN) is PATTERN",
        "PATTERN.match(Text('12-a')).group()", **NAMES,
    )  # fmt: skip
