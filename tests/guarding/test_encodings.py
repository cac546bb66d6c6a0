"""Each kind of guard in each encoding: what was traced is accepted, and every change of it is refused.

The interpreted tree and its predicates, the sentence, the tree of a page, the instructions in C, the entry on disk.
"""

from __future__ import annotations

import contextlib

import pytest

import nbcompile
from nbcompile.capture.guard import GuardKind
from nbcompile.driver import stages
from tests.guarding.encodings import ENCODINGS
from tests.guarding.test_kinds import PROGRAMS
from tests.guarding.test_mutations import UNBREAKABLE, Mutations


@pytest.mark.parametrize("name", ENCODINGS)
def test_every_kind_has_a_row(name):
    """Or the reason why it has none; never both."""
    encoding = ENCODINGS[name]
    assert set(GuardKind) == encoding.kinds | set(encoding.without)
    assert not encoding.kinds & set(encoding.without)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore")
def test_each_encoding_refuses_each_change(name, monkeypatch):
    """A program that needs the kind is compiled; its guards, in each encoding, accept it and no call that breaks one."""
    function, arguments, kind = PROGRAMS[name]
    mutations = Mutations(stages.guarding.build_check)
    monkeypatch.setattr(stages.guarding, "build_check", mutations)
    nbcompile.reset()
    with contextlib.suppress(Exception):
        nbcompile.compile(function, backend="eager")(*arguments)
    nbcompile.reset()
    assert not mutations.wrong, mutations.wrong[:5]
    assert mutations.tried[kind] or {reason for of, reason in mutations.not_tried if of is kind} <= set(UNBREAKABLE)
    print({encoding: count for encoding, count in mutations.refused_by.items() if encoding[0] is kind})
