"""The style sheet and the script of a view, made small, as elements that need no other file.

    styles("steps")                 theme.css, and the parts that some sections need
    script("trees", "what_if")      view.js, and the parts that some sections need

Comments and spaces go, declarations in a row become one, and names that are declared in the script become one
letter or two; properties keep theirs, so ``{ value }`` becomes ``{value:a}``. Everything runs inside one function:
a page may hold it any number of times.

In torch: nothing. Read next: nbcompile/views/static/view.js
"""

from __future__ import annotations

import functools
import itertools
import re
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources

from markupsafe import Markup
from pygments.lexers import JavascriptLexer
from pygments.token import Comment, Name, Whitespace, _TokenType

from nbcompile.views.markup import tag

Token = tuple[_TokenType, str]
_WORD = re.compile(r"[\w$]")
_OPENING = ("(", "[", "{", "${")
_CLOSING = (")", "]", "}")


def styles(*parts: str) -> Markup:
    """theme.css as an element, before the parts that some sections need."""
    return tag("style", Markup(style_text(*parts)))


@functools.cache
def style_text(*parts: str) -> str:
    """What stands in it."""
    text = re.sub(r"/\*.*?\*/", "", "\n".join(_static(f"{name}.css") for name in ("theme", *parts)), flags=re.DOTALL)
    text = re.sub(r"\s+", " ", text)
    text = re.sub(r" ?([{};,>]) ?|(?<=[\w-]:) ", lambda found: found[1] or "", text)
    variables = dict(zip(dict.fromkeys(re.findall(r"--\w+", text)), string.ascii_letters, strict=False))
    text = re.sub(r"--\w+", lambda found: f"--{variables[found[0]]}", text)
    return text.replace(";}", "}").strip()


@functools.cache
def script(*parts: str) -> Markup:
    """view.js as an element, after the parts that some sections need."""
    return tag("script", Markup('(()=>{"use strict";' + _program(*parts, "view", end="setUpAll(document);") + "})()"))


@functools.cache
def module(*parts: str) -> str:
    """The same as a module of JavaScript, for widgets: nothing is set up before it is rendered."""
    return _program(*parts, "view", "widget")


def _program(*parts: str, end: str = "") -> str:
    # What stands behind `typeof module` is for the tests, which run the parts one by one.
    text = "\n".join(_static(f"{name}.js") for name in parts) + end
    return minified(re.sub(r'^(if \(typeof module.*|"use strict";)$', "", text, flags=re.MULTILINE)).strip()


def minified(program: str) -> str:
    """A program without comments, with few spaces, few words and short names."""
    tokens = [each for each in JavascriptLexer().get_tokens(program) if each[0] not in Comment]
    short = _short_names([each for each in tokens if each[0] not in Whitespace])
    tokens = list(_one_declaration(list(_renamed(tokens, short))))
    kept: list[str] = []
    for index, (kind, value) in enumerate(tokens):
        if kind not in Whitespace:
            while value in _NEEDLESS and kept and kept[-1] in _NEEDLESS[value]:
                kept.pop()
            kept.append(_SHORTER.get(value, value))
            continue
        before = kept[-1][-1:] if kept else "\n"
        after = tokens[index + 1][1][:1] if index + 1 < len(tokens) else ""
        if (_WORD.match(before) and _WORD.match(after)) or before + after in ("++", "--"):
            kept.append(" ")
    return "".join(kept)


_NEEDLESS = {"}": ("", ";", ","), ")": ("", ","), "]": ("", ",")}
"""What may be left out before these. All statements of ours end in ``;`` or ``}``, so no new line ends one."""
_SHORTER = {"const": "let", "true": "!0", "false": "!1"}


def _one_declaration(tokens: Sequence[Token]) -> Iterator[Token]:
    """``const a = 1; const b = 2;`` as ``const a = 1, b = 2;``."""
    declares = [False]
    """For each bracket that is open: whether its statement is a declaration."""
    begins, skips = True, False
    for index, (kind, value) in enumerate(tokens):
        if kind in Whitespace:
            if not skips:
                yield kind, value
            continue
        if skips:  # the word `const` itself, and the spaces around it
            skips = value != "const"
            continue
        if value in _OPENING:
            declares.append(False)
        elif value in _CLOSING:
            declares.pop()
        elif value == ";" and declares[-1] and _next(tokens, index) == "const":
            skips = True
            yield kind, ","
            continue
        if value == ";" or (begins and value not in _CLOSING):
            declares[-1] = value == "const"
        begins = value in (";", "{", "}")
        yield kind, value


def _next(tokens: Sequence[Token], index: int) -> str:
    return next((value for kind, value in tokens[index + 1 :] if kind not in Whitespace), "")


def _renamed(tokens: Sequence[Token], short: Mapping[str, str]) -> Iterator[Token]:
    """The same with short names; not for properties: ``x.name``, ``{name: ...}`` and ``name`` in ``{name, ...}``."""
    brackets: list[str] = []
    before = ""
    for index, (kind, value) in enumerate(tokens):
        if kind in Whitespace:
            yield kind, value
            continue
        after = _next(tokens, index)
        in_braces = brackets[-1:] == ["{"] and before in ("{", ",")
        if kind not in Name or value not in short or before in (".", "?.") or (in_braces and after == ":"):
            yield kind, value
        elif in_braces and after in (",", "}"):
            yield kind, f"{value}:{short[value]}"
        else:
            yield kind, short[value]
        if value in _OPENING:
            brackets.append(value)
        elif value in _CLOSING and brackets:
            brackets.pop()
        before = value


def _short_names(tokens: list[Token]) -> dict[str, str]:
    """New names for what the program declares; names that are never in reach of one another may share one."""
    regions = _regions(tokens)
    declared = {name for name in _declared(tokens) if name in regions}
    taken = {name for name in regions if name not in declared}
    counts = Counter(value for _, value in tokens)
    result: dict[str, str] = {}
    for name in sorted(declared, key=lambda name: (-counts[name], name)):
        near = {short for other, short in result.items() if _within_reach(regions[name], regions[other])}
        result[name] = next(each for each in _candidates() if each not in near and each not in taken)
    return result


def _candidates() -> Iterator[str]:
    letters = string.ascii_letters + "_$"
    names = ("".join(each) for size in (1, 2) for each in itertools.product(letters, repeat=size))
    return (name for name in names if name not in ("do", "if", "in", "of", "as"))


Region = tuple[int, ...]
"""A pair of brackets, as the path to it: the positions of the opening ones around."""


def _regions(tokens: list[Token]) -> dict[str, Region]:
    """For each name that is no property: the smallest pair of brackets around all its occurrences."""
    regions: dict[str, Region] = {}
    around: list[int] = []
    for index, (kind, value) in enumerate(tokens):
        if value in _OPENING:
            around.append(index)
        elif value in _CLOSING:
            around.pop()
        elif kind in Name and tokens[index - 1][1] not in (".", "?."):
            shared = zip(regions.get(value, around), around, strict=False)
            regions[value] = tuple(a for a, b in itertools.takewhile(lambda pair: pair[0] == pair[1], shared))
    return regions


def _within_reach(one: Region, other: Region) -> bool:
    """Whether one is inside the other."""
    return all(a == b for a, b in zip(one, other, strict=False))


def _declared(tokens: list[Token]) -> Iterator[str]:
    """Names after ``const`` and ``let``, and the parameters of arrow functions."""
    for index, (_, value) in enumerate(tokens):
        if value in ("const", "let"):
            yield from _names(_targets(tokens[index + 1 :]))
        elif value == "=>":
            yield from _names(tokens[_start_of(tokens, index - 1) : index])


def _targets(tokens: list[Token]) -> Iterator[Token]:
    """Of a declaration that begins here, what stands before each ``=``."""
    depth, is_target = 0, True
    for token in tokens:
        depth += (token[1] in _OPENING) - (token[1] in _CLOSING)
        if depth < 0 or (depth == 0 and token[1] in (";", "of")):
            return
        if depth == 0 and token[1] in ("=", ","):
            is_target = token[1] == ","
        elif is_target:
            yield token


def _names(tokens: Iterable[Token]) -> Iterator[str]:
    return (value for kind, value in tokens if kind in Name)


def _start_of(tokens: list[Token], end: int) -> int:
    """Where the bracket that closes here was opened; the place itself if none closes here."""
    depth = 0
    for index in range(end, -1, -1):
        depth += (tokens[index][1] in _CLOSING) - (tokens[index][1] in _OPENING)
        if depth == 0:
            return index
    return end


def _static(name: str) -> str:
    return resources.files("nbcompile.views").joinpath("static", name).read_text(encoding="utf-8")
