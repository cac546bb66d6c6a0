"""Known differences between nbcompile and torch.compile: patterns, each with its reason.

    guard_reason(GuardPair(ONLY_OURS, ours="DICT_LENGTH  not L['self']._forward_hooks"))
        "torch.compile does not check hooks of modules (skip_nnmodule_hook_guards); nbcompile does"

A difference without a reason here is either a bug of nbcompile, or a missing row.

In torch: nothing. Read next: docs/known_differences.md, which lists those of single programs
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

import torch._decomp

from nbcompile.record.comparison import ONLY_OURS, ONLY_THEIRS, Difference, GuardPair


@dataclass(frozen=True, slots=True)
class KnownGuard:
    """A kind of guard that only one compiler has."""

    status: str
    pattern: str
    reason: str


@dataclass(frozen=True, slots=True)
class KnownDifference:
    """A difference in one aspect, identified by the texts of both sides."""

    aspect: str
    ours: str
    theirs: str
    reason: str


GUARDS = (
    KnownGuard(
        ONLY_OURS, r"^DICT_LENGTH  not .*_(forward|backward)(_pre)?_hooks$",
        "torch.compile does not check hooks of modules (skip_nnmodule_hook_guards); nbcompile does",
    ),
    KnownGuard(ONLY_OURS, r"^SHAPE_ENV  .*4611686018427387903", "nbcompile checks that integers stay within 64 bits"),
    KnownGuard(ONLY_OURS, r"^FUNCTION_MATCH  .*\.__code__\)$", "nbcompile checks the code of a method that it inlined"),
    KnownGuard(
        ONLY_THEIRS, r"^TYPE_MATCH  .*(\._modules|\._parameters|\._buffers|_hooks)\)$",
        "torch.compile checks the type of the dict from which a value is read; nbcompile checks the value",
    ),
    KnownGuard(
        ONLY_THEIRS, r"^ID_MATCH  ___check_obj_id\((\w+\.)*\w+\)$",
        "torch.compile checks each module on the way to a function; nbcompile checks the function",
    ),
    KnownGuard(
        ONLY_THEIRS, r"^DIMENSION_DYNAMIC_MARKING_GUARD  .*(_parameters|_buffers)\[",
        "sizes of parameters and buffers are static whatever their marks: nbcompile does not check these",
    ),
)  # fmt: skip
DIFFERENCES = (
    KnownDifference(
        "graph break", r"^none$", r"delattr", "torch.compile breaks at object.__delattr__, which nbcompile traces"
    ),
    KnownDifference(
        "graph", r"", r"random_values|wrap_tensor", "torch.compile makes a drawn number an input; here it is a number"
    ),
)


def guard_reason(pair: GuardPair) -> str:
    """The reason why only one compiler has a guard, or has it in this form; "" if the reason is unknown."""
    text = pair.ours or pair.theirs
    return next((row.reason for row in GUARDS if row.status == pair.status and re.search(row.pattern, text)), "")


def explained(difference: Difference) -> Difference:
    """The difference with its reason, if it is known."""
    for row in DIFFERENCES:
        sides = ((row.ours, difference.ours), (row.theirs, difference.theirs))
        if row.aspect == difference.aspect and all(re.search(pattern, text) for pattern, text in sides):
            return replace(difference, known=row.reason)
    return difference


def decompositions(ours: Iterable[str], theirs: Iterable[str]) -> str:
    """The reason why ATen graphs differ, if nbcompile lowers operators that Inductor decomposes; "" otherwise."""
    names = sorted(set(ours) - set(theirs))
    decomposed = {str(operator) for operator in torch._decomp.decomposition_table}
    if names and all(name in decomposed for name in names):
        return f"nbcompile lowers {', '.join(names)} itself; Inductor decomposes them"
    return ""
