"""``re.sub`` with a function: the function is traced once for each match, and the text is eager mode's."""

from __future__ import annotations

import functools
import re
import string

import pytest
import torch

from tests.support.oracle import one_graph, require_same_rejection

X = torch.arange(3.0)
DIGITS = re.compile(r"\d+")


class Shout:
    """A callable object as the replacement."""

    def __call__(self, match):
        return match[0].upper()

    def method(self, match):
        return f"<{match.start()}>"


def next_number(match):
    return str(int(match.group()) + 1)


PROGRAMS = {
    "a lambda": lambda: re.sub("a", lambda match: "xx", "aab"),
    "a function": lambda: re.sub(r"\d+", next_number, "layer.9.weight.19"),
    "a pattern's method": lambda: DIGITS.sub(next_number, "layer.9.weight.19"),
    "a method as a function": lambda: re.Pattern.sub(DIGITS, next_number, "layer.9"),
    "a pattern in place of its text": lambda: re.sub(DIGITS, next_number, "a1"),
    "names": lambda: re.sub(pattern="A", repl=lambda match: match[0] * 2, string="aab", flags=re.IGNORECASE),
    "names of the method": lambda: DIGITS.sub(count=1, string="1 2", repl=next_number),
    "a count": lambda: re.sub("a", lambda match: "x", "aaa", count=2),
    "a negative count": lambda: re.sub("a", lambda match: "x", "aaa", count=-1),
    "how many": lambda: re.subn("a", lambda match: "x", "aaab"),
    "how many of the method": lambda: DIGITS.subn(next_number, "1 2 3", 2),
    "nothing found": lambda: DIGITS.subn(next_number, "none"),
    "an empty text": lambda: re.sub("a*", lambda match: "-", ""),
    "empty matches": lambda: re.sub("x*", lambda match: f"[{match[0]}]", "abxd"),
    "what stands around": lambda: re.sub(r"(?<=a)b|^a|\bc$", lambda match: "-", "ab abc c"),
    "bytes": lambda: re.sub(b"a", lambda match: match[0] + b"!", b"bab"),
    "None is nothing": lambda: re.sub("a", lambda match: None, "bab"),
    "an object": lambda: re.sub("[ab]", Shout(), "abc"),
    "a bound method": lambda: re.sub("[ab]", Shout().method, "cab"),
    "a partial": lambda: re.sub("a", functools.partial(lambda more, match: match[0] + more, "+"), "cab"),
    "groups": lambda: re.sub("(?P<key>a)|(b)", lambda match: f"{match['key']}{match.lastindex}{match.span()}", "cab"),
    "a template of the library": lambda: string.Template("$who likes ${what}, $$1").substitute(who="tim", what="tea"),
    "a lenient template": lambda: string.Template("$who likes $what").safe_substitute({"who": "tim"}),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_text_is_eagers(name):
    """The text equals eager mode's, in one graph."""
    program = PROGRAMS[name]
    assert one_graph(lambda x: (x + 1, program()), X)[1] == program()


def test_the_function_sees_tensors():
    """Tensor operations of the function are part of the graph, in the order of the matches."""

    def function(x):
        found = []

        def collect(match):
            found.append(x * int(match[0]))
            return "_"

        return re.sub(r"\d", collect, "1 2"), found

    wanted, got = function(X), one_graph(function, X)
    assert got[0] == wanted[0]
    assert all(torch.equal(*pair) for pair in zip(got[1], wanted[1], strict=True))


REJECTED = {
    "a number in place of text": lambda seen: re.sub("a", lambda match: 1, "bab"),
    "bytes in place of text": lambda seen: re.sub("a", lambda match: b"", "bab"),
    "text in place of bytes": lambda seen: re.sub(b"a", lambda match: "", b"bab"),
    "a pattern of text on bytes": lambda seen: re.sub("a", seen.append, b"bab"),
    "no text": lambda seen: re.sub("a", seen.append, 3),
    "a function that raises": lambda seen: re.sub("[ab]", lambda match: seen.append(match[0]) or 1 / 0, "ab"),
    "a count that is none": lambda seen: re.sub("a", seen.append, "a", count="b"),
    "a wrong pattern": lambda seen: re.sub("(", seen.append, "a"),
    "flags of a pattern": lambda seen: re.sub(DIGITS, seen.append, "a", flags=re.ASCII),
    "no such argument": lambda seen: DIGITS.sub(next_number, "1", maximum=1),
    "too few arguments": lambda seen: DIGITS.sub(next_number),
    "a name that the template misses": lambda seen: string.Template("$a").substitute(),
    "a wrong template": lambda seen: string.Template("a $").substitute(),
}


@pytest.mark.parametrize("rejected", REJECTED)
def test_rejections_are_pythons_own(rejected):
    """The class and the text of the exception, and earlier side effects, are Python's."""
    require_same_rejection(REJECTED[rejected], X)
