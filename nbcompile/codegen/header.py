"""The part of nbvec.h that a translation unit uses.

    kernel0 calls load, store, tanh    ->  these, and the functions that they call: exp_tail, copysign, fma, ...

Most of a small kernel's compile time is spent on the header. The header is split into
its declarations, and those that the kernels do not reach are left out (dead code
elimination). A declaration without a name (operator, macro, condition) is always included.

In torch: a precompiled header (torch/_inductor/codecache.py). Read next:
nbcompile/codegen/cpp.py
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from pathlib import Path

HEADER = Path(__file__).with_name("nbvec.h").read_text()
BEGIN, END = "namespace nb {\n", "}  // namespace nb\n"
WORD = re.compile(r"[A-Za-z_]\w*")
DECLARED = re.compile(
    r"(?:INLINE|COLD|NOINLINE|static double|^constexpr)\b[^=({;]*?\b(\w+)\(|\bstruct (\w+)|NB_LANEWISE2?\((\w+)"
    r"|constexpr \w+ (\w+)(?:<[^>]*>)? =",
    re.MULTILINE,
)
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Declaration:
    """Smallest piece of the header that is included or left out."""

    text: str
    declares: frozenset[str]
    """Empty: it is always included."""
    mentions: frozenset[str]


def header_for(functions: str) -> str:
    """Header with the declarations that ``functions`` reach: the transitive closure of the names they mention."""
    # Mark and sweep: start from the names that the kernels mention, follow mentions until nothing new is reached.
    before, pieces, after = declarations()
    referenced = set(WORD.findall(functions))
    included: set[int] = set()
    while True:
        # A piece may declare several names, and a name may have several pieces (overloads): all are included.
        found = {at for at, piece in enumerate(pieces) if not piece.declares or piece.declares & referenced} - included
        if not found:
            break
        included |= found
        referenced.update(*(pieces[at].mentions for at in found))
    # In the order of the header, in which a declaration comes before its first use.
    return before + "".join(pieces[at].text for at in sorted(included)) + after


@functools.cache
def declarations() -> tuple[str, tuple[Declaration, ...], str]:
    """Text before the namespace, its declarations in order, and the text after it."""
    before, _, rest = HEADER.partition(BEGIN)
    inside, _, after = rest.partition(END)
    pieces, lines = [], list[str]()
    for line in COMMENT.sub("", inside).splitlines(keepends=True):
        if line.strip():
            lines.append(line)
        if lines and _is_whole("".join(lines)):
            pieces.append(_declaration("".join(lines)))
            lines = []
    assert not lines, lines
    return COMMENT.sub("", before) + BEGIN, tuple(pieces), END + after


def _is_whole(text: str) -> bool:
    """Return whether a declaration is complete: brackets and conditions closed, no continuation line."""
    conditions = len(re.findall(r"^#if", text, re.MULTILINE)) - len(re.findall(r"^#endif", text, re.MULTILINE))
    balanced = text.count("{") == text.count("}") and text.count("(") == text.count(")")
    return balanced and not conditions and not text.endswith("\\\n") and text.rstrip()[-1] in ";})0123456789op"


def _declaration(text: str) -> Declaration:
    macro = text.startswith("#") and "template" not in text
    names = {name for found in DECLARED.findall(text) for name in found if name}
    always = macro or text.startswith("#define") or "operator" in text or not names
    return Declaration(text, frozenset() if always else frozenset(names), frozenset(WORD.findall(text)))
