"""Reasons of known differences."""

from __future__ import annotations

import re

from nbcompile.tools.compare.guards import ONLY_OURS, ONLY_THEIRS, GuardPair
from nbcompile.tools.compare.known import GUARDS, decompositions, guard_reason


def test_a_guard_that_both_have_a_reason_for_is_explained_on_its_side_only():
    """Only nbcompile checks hooks; the same guard on the other side has no known reason."""
    text = "DICT_LENGTH  not L['self']._forward_hooks"
    assert "does not check hooks" in guard_reason(GuardPair(ONLY_OURS, ours=text))
    assert guard_reason(GuardPair(ONLY_THEIRS, theirs=text)) == ""


def test_every_row_names_a_kind_of_guard():
    """Each pattern begins with the kind: a row that matches any guard would hide mistakes."""
    assert all(re.match(r"\^[A-Z_]+  ", row.pattern) and not re.search(row.pattern, "") for row in GUARDS)


def test_graphs_may_differ_by_what_inductor_decomposes():
    """An operator without a decomposition, or an equal graph, is no known reason."""
    assert "aten.addcmul.default" in decompositions(["aten.addcmul.default"], ["aten.mul.Tensor"])
    assert decompositions(["aten.mm.default", "own.operator"], []) == "" == decompositions(["x"], ["x"])
