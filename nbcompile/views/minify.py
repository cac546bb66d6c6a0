"""JavaScript minifier: no comments, few spaces, merged declarations, names of a letter or two.

    const wide = one => one + 1; const high = 2;      let a=a=>a+1,b=2;

Only names that the script declares are renamed, each in its scope; properties keep their names, so ``{ value }``
becomes ``{value:a}``. It supports the subset of JavaScript that our scripts use: ``const``, ``let``, arrow functions,
blocks, templates
and destructuring; no ``function``, ``var``, ``class`` or labels, and every statement ends in ``;`` or ``}``.

In torch: nothing. Read next: nbcompile/views/static/view.js
"""

from __future__ import annotations

import itertools
import re
import string
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pygments.lexers import JavascriptLexer
from pygments.token import Comment, Name, String, Whitespace

_WORD = re.compile(r"[\w$]")
_OPENING = ("(", "[", "{", "${")
_CLOSING = (")", "]", "}")


@dataclass(slots=True)
class Word:
    """A token of the minified program."""

    text: str
    mark: str
    """The text if it is syntax; empty in a literal, whose brackets and commas are no syntax."""
    is_name: bool
    """True for the name of a variable, and not of a property."""
    is_key: bool = False
    """True for a name that is a property, too: ``{ value }``."""


def minified(program: str) -> str:
    """Minify a program."""
    #     const twice = (value) => ({ value: 2 * value });
    #     let a=(a)=>({value:2*a});        an inner scope may reuse a name if the outer variable is not used in it
    words = _words(program)
    _mark_keys(words)
    _rename(words)
    return _text_of(_one_declaration(words))


def _words(program: str) -> list[Word]:
    words: list[Word] = []
    for kind, text in JavascriptLexer().get_tokens(program):
        if kind not in Comment and kind not in Whitespace:
            mark = "" if kind in String and kind not in String.Interpol else text
            is_property = bool(words) and words[-1].mark in (".", "?.")
            words.append(Word(text, mark, kind in Name and not is_property))
    return words


_BEFORE_BLOCKS = (";", "{", "}", ")", "=>", "else", "try", "catch", "")


def _mark_keys(words: list[Word]) -> None:
    """Mark the keys of object literals: before a colon it is not a variable; without one, it is both."""
    # `{` begins an object where an expression is expected, and a block after a statement, an arrow or a keyword.
    brackets: list[str] = []
    before = ""
    for word, after in itertools.pairwise(words):
        if word.mark in _OPENING:
            brackets.append("block" if word.mark == "{" and before in _BEFORE_BLOCKS else word.mark)
        elif word.mark in _CLOSING:
            brackets.pop()
        elif word.is_name and brackets[-1:] == ["{"] and before in ("{", ","):
            word.is_name = after.mark != ":"
            word.is_key = after.mark in (",", "}", "=")
        before = word.mark


# --- names ----------------------------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Scope:
    """A block, an arrow function or a loop, where names are declared."""

    end: int
    around: Scope | None = None
    names: dict[str, list[int]] = field(default_factory=dict)
    """Declared names, with the indices of their uses."""
    used_names: set[str] = field(default_factory=set)
    """New names of the variables that are declared here."""
    passing: set[str] = field(default_factory=set)
    """New names that are used here, or in inner scopes."""

    def declare(self, names: Iterable[str]) -> None:
        self.names.update((each, []) for each in names)


def _rename(words: list[Word]) -> None:
    """Rename variables to short names; two that are never visible together may share one."""
    scopes = _scopes(words, _pairs(words))
    free = _resolve(words, scopes)
    declared = [
        (positions, scope) for scope in dict.fromkeys(scopes) for positions in scope.names.values() if positions
    ]
    # The names with the most uses get the shortest names. A new name must not be (1) a global's, (2) one that a use
    # in this scope needs from further out, or (3) one that a scope between the declaration and a use declares itself,
    # since that one would hide it.
    for positions, scope in sorted(declared, key=lambda pair: (-len(pair[0]), pair[0])):
        crossed = {each for position in positions for each in _outwards(scopes[position], scope)}
        used = free.union(scope.passing, *(each.used_names for each in crossed))
        short = next(each for each in _candidates() if each not in used)
        scope.used_names.add(short)
        for scope_between in crossed:
            scope_between.passing.add(short)
        for position in positions:
            words[position].text = f"{words[position].text}:{short}" if words[position].is_key else short


def _pairs(words: list[Word]) -> dict[int, int]:
    """Index of the closing bracket for each opening one."""
    pairs: dict[int, int] = {}
    opened: list[int] = []
    for index, word in enumerate(words):
        if word.mark in _OPENING:
            opened.append(index)
        elif word.mark in _CLOSING:
            pairs[opened.pop()] = index
    return pairs


def _scopes(words: list[Word], pairs: dict[int, int]) -> list[Scope]:
    """The innermost scope of each word, with the names that are declared in it."""
    opens = {close: start for start, close in pairs.items()}
    ends = {start: close for start, close in pairs.items() if words[start].mark == "{"}
    for index, word in enumerate(words):
        if word.mark == "=>":
            ends.pop(index + 1, None)  # the block of a function is in the scope of its parameters
            ends[opens.get(index - 1, index - 1)] = _end_of_body(words, pairs, index + 1)
        elif word.mark == "for":
            ends[index] = _end_of_statement(words, pairs, pairs[index + 1] + 1)
    scope = Scope(len(words))
    found = []
    for index in range(len(words)):
        # Scopes nest, so that one pass over the words with the current scope finds the innermost scope of each.
        while index > scope.end and scope.around:
            scope = scope.around
        if index in ends:
            scope = Scope(ends[index], scope)
        found.append(scope)
    for index, word in enumerate(words):
        if word.mark in ("const", "let"):
            found[index].declare(_targets(words, index + 1))
        elif word.mark == "=>":
            start = opens.get(index - 1, index - 1)
            found[start].declare(_targets(words, start + (start < index - 1)))
    return found


def _end_of_body(words: list[Word], pairs: dict[int, int], index: int) -> int:
    """The last word of an arrow function's body."""
    if words[index].mark == "{":
        return pairs[index]
    choices = 0
    while index < len(words):
        mark = words[index].mark
        # x : b`` the colon belongs to the choice around the function, and ends its body. => In ``a ? x => x : b`` the
        # colon belongs to the conditional around the function, and ends its body. => x : b`` the colon belongs to the
        # choice around the function, and ends its body.
        choices += (mark == "?" and words[index + 1].mark != ".") - (mark == ":")
        if mark in (*_CLOSING, ",", ";") or choices < 0:
            return index - 1
        index = pairs.get(index, index) + 1
    return index - 1


def _end_of_statement(words: list[Word], pairs: dict[int, int], index: int) -> int:
    """The last word of the statement that begins here."""
    while True:
        is_block = words[index].mark == "{" and words[index - 1].mark in (")", "else")
        ends = is_block or words[index].mark == ";"
        index = pairs.get(index, index) + 1
        if ends and (index == len(words) or words[index].mark != "else"):
            return index - 1


def _targets(words: list[Word], index: int) -> Iterator[str]:
    """The names that the patterns from here on declare: no keys, and no default values after ``=``."""
    depth, given = 0, -1
    for word in words[index:]:
        depth += (word.mark in _OPENING) - (word.mark in _CLOSING)
        if depth < 0 or (depth == 0 and (word.mark == ";" or (given < 0 and word.mark in ("of", "in", "=>")))):
            return
        # From ``=`` to the comma at the same depth, or to the bracket that closes, names are uses: ``[a = b, c]``.
        if given > depth or (given == depth and word.mark == ","):
            given = -1
        elif given < 0 and word.mark == "=":
            given = depth
        elif given < 0 and word.is_name:
            yield word.text


def _resolve(words: list[Word], scopes: list[Scope]) -> set[str]:
    """Add each use of a name to the scope that declares it; return the names without a declaration."""
    free = set()
    for index, word in enumerate(words):
        if not word.is_name:
            continue
        owner = next((each for each in _outwards(scopes[index]) if word.text in each.names), None)
        if owner:
            owner.names[word.text].append(index)
        else:
            free.add(word.text)
    return free


def _outwards(scope: Scope | None, last: Scope | None = None) -> Iterator[Scope]:
    """A scope and its outer scopes, up to ``last`` if it is given."""
    while scope:
        yield scope
        scope = None if scope is last else scope.around


def _candidates() -> Iterator[str]:
    letters = string.ascii_letters + "_$"
    names = ("".join(each) for size in (1, 2) for each in itertools.product(letters, repeat=size))
    return (name for name in names if name not in ("do", "if", "in", "of", "as"))


# --- declarations and spaces ----------------------------------------------------------------------

_DECLARES = ("const", "let")


def _one_declaration(words: list[Word]) -> Iterator[Word]:
    """``const a = 1; const b = 2;`` as ``const a = 1, b = 2;``."""
    declares = [False]
    """Flags of the open brackets: True if the statement is a declaration."""
    before = ";"
    for index, word in enumerate(words):
        if word.mark in _OPENING:
            declares.append(False)
        elif word.mark in _CLOSING:
            declares.pop()
        elif word.mark in _DECLARES and before in (";", "{", "}"):
            if declares[-1]:
                continue  # a comma precedes it
            declares[-1] = True
        elif word.mark == ";" and declares[-1]:
            declares[-1] = index + 1 < len(words) and words[index + 1].mark in _DECLARES
            yield Word(",", ",", is_name=False) if declares[-1] else word
            before = ";"
            continue
        before = word.mark
        yield word


_SHORTER = {"const": "let", "true": "!0", "false": "!1", "undefined": "void 0"}
_NEEDLESS = {"}": (";", ","), ")": (",",), "]": (",",)}
"""Tokens that may be omitted before these."""


def _text_of(words: Iterable[Word]) -> str:
    written: list[str] = []
    last = ""
    for word in words:
        while last and last in _NEEDLESS.get(word.mark, ()):
            last = ""
            written.pop()
        seam = last[-1:] + word.mark[:1]
        # ``a + +b`` would be ``a++b``, and ``return a`` one word.
        if seam in ("++", "--") or (len(seam) == 2 and all(map(_WORD.match, seam))):
            written.append(" ")
        last = word.mark and word.text
        written.append(
            _SHORTER.get(word.mark, word.text.removeprefix("0") if word.mark.startswith("0.") else word.text)
        )
    return "".join(written)
