"""Guards of both compilers, matched one to one.

    ours      NOT_PRESENT_IN_GENERIC_DICT   not ___dict_contains('forward', L['self'].__dict__)
    theirs    DICT_CONTAINS                 not ___dict_contains('forward', L['self'].__dict__)      equal

Conditions are normalised: one spelling of globals and builtins, no addresses, conjunctions split, tensor checks
without dispatch keys. Then equal conditions are paired, and the remaining ones by the value that they check.

In torch: torch/_dynamo/guards.py. Read next: nbcompile/tools/compare/known.py
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from nbcompile.record.comparison import DIFFERENT, EQUAL, ONLY_OURS, ONLY_THEIRS, GuardPair
from nbcompile.record.model import Guard
from nbcompile.tools.compare import known

IMPORTED = re.compile(r"G\['__import_(\w+)'\]")
BUILTINS = re.compile(r"G\['__builtins_dict___\d+'\]")
CLASS_ATTRIBUTE = re.compile(r"dict\(type\(([^()]*)\)\.__dict__\)\['(\w+)'\]")
ADDRESS = re.compile(r", (?:\d{6,}|\.\.)(?=\))")
TYPE_COMMENT = re.compile(r", type=<.*>$")
DISPATCH_KEYS = re.compile(r"DispatchKeySet\([^)]*\), ")
GLOBAL_STATE = re.compile(r"\(\) against \{.*\}$")
SOURCE = re.compile(r"[LG]\['[^']*'\](?:\.\w+(?:\(\))?|\[[^\]]*\])*")


@dataclass(frozen=True, slots=True)
class Condition:
    """One condition of a guard in the form that both sides share."""

    subject: str
    """The subject of a guard: family of the check, and source."""
    text: str
    shown: str


def pair(ours: Sequence[Guard], theirs: Sequence[Guard]) -> tuple[GuardPair, ...]:
    """Conditions of both sides one to one, differences first."""
    left, right = (list(dict.fromkeys(_conditions(side))) for side in (ours, theirs))
    # Equal conditions first: a condition with an equal one on the other side must not be paired with another about the
    # same value. Each round removes its pairs from both lists.
    equal = [
        GuardPair(EQUAL, *(side.shown for side in both))
        for both in _matches(left, right, lambda condition: condition.text)
    ]
    different = [
        GuardPair(DIFFERENT, *(side.shown for side in both))
        for both in _matches(left, right, lambda condition: condition.subject)
    ]
    unmatched = [GuardPair(ONLY_OURS, ours=each.shown) for each in left]
    unmatched += [GuardPair(ONLY_THEIRS, theirs=each.shown) for each in right]
    explained = [replace(each, known=known.guard_reason(each)) for each in (*different, *unmatched)]
    return (*explained, *equal)


def _matches(
    left: list[Condition], right: list[Condition], key: Callable[[Condition], str]
) -> list[tuple[Condition, Condition]]:
    """Pairs with the same key, which are removed from both lists."""
    waiting: dict[str, list[Condition]] = {}
    for condition in right:
        waiting.setdefault(key(condition), []).append(condition)
    found = []
    for condition in list(left):
        if candidates := waiting.get(key(condition)):
            other = candidates.pop(0)
            found.append((condition, other))
            left.remove(condition)
            right.remove(other)
    return found


def _conditions(guards: Iterable[Guard]) -> Iterator[Condition]:
    for guard in guards:
        for part in _conjuncts(normalized(guard.condition)):
            yield Condition(_subject(part), part, f"{guard.kind}  {part}")


def _subject(condition: str) -> str:
    """The subject of a condition: the names in it, and the kind of check."""
    family = re.match(r"(not )?\w+(?=\()", condition)
    sources = sorted(set(SOURCE.findall(condition)))
    return f"{family[0] if family else 'expression'} {' '.join(sources) or condition}"


def normalized(condition: str) -> str:
    """The condition without addresses and with one spelling of names."""
    text = IMPORTED.sub(lambda found: found[1].replace("_dot_", "."), condition)
    text = CLASS_ATTRIBUTE.sub(r"type(\1).\2", text)
    text = BUILTINS.sub("__builtins__", text)
    text = TYPE_COMMENT.sub("", DISPATCH_KEYS.sub("", GLOBAL_STATE.sub("()", text)))
    return ADDRESS.sub("", text)


def _conjuncts(condition: str) -> list[str]:
    """``(a) and (b)`` as ``a``, ``b``; a chained comparison is one condition."""
    try:
        tree = ast.parse(condition, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return [condition]
    parts = tree.values if isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And) else [tree]
    return [ast.unparse(_in_order(part)) for part in parts]


def _in_order(condition: ast.expr) -> ast.expr:
    """Sort the arguments of a check that no two of them are one object, whose order has no meaning."""
    match condition:
        case ast.Call(func=ast.Name(id="check_no_aliasing")):
            condition.args.sort(key=ast.unparse)
    return condition
