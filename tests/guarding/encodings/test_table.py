"""Each kind of guard in each encoding: the traced call is accepted, and every change of it is rejected.

The encodings are the C++ tree and its predicates, the sentence, the page's tree, the instructions in C, and the disk.
"""

from __future__ import annotations

import ast
import contextlib
import dataclasses
from pathlib import Path

import pytest

import nbcompile
from nbcompile.capture.guard import GuardKind
from nbcompile.driver import stages
from nbcompile.fast import guard_bytecode
from nbcompile.fast.disk_cache import stored_guards
from nbcompile.guarding.encodings.stored_forms import Form
from nbcompile.guarding.encodings.table import AMBIENT, LEAVES, AmbientEncodings, LeafEncodings
from tests.guarding.test_kinds import PROGRAMS
from tests.guarding.test_mutations import UNBREAKABLE, Mutations

COLUMNS = sorted({field.name for row in (LeafEncodings, AmbientEncodings) for field in dataclasses.fields(row)})


@pytest.mark.parametrize("column", COLUMNS)
def test_every_kind_has_every_encoding(column):
    """Each kind has, for each encoding, a function, a form, or a sentence with a reason; it is in only one table."""
    assert LEAVES.keys() | AMBIENT.keys() == set(GuardKind)
    assert not LEAVES.keys() & AMBIENT.keys()
    for kind, row in {**LEAVES, **AMBIENT}.items():
        encoding = getattr(row, column)
        assert callable(encoding) or isinstance(encoding, Form) or " " in encoding, (kind, encoding)


def test_no_writer_of_the_fast_path_has_rows_of_its_own():
    """The modules in fast/ that encode guards name only the few kinds that they order by."""
    named = {
        path.name: {node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
        & set(GuardKind.__members__)
        for path in (Path(guard_bytecode.__file__), Path(stored_guards.__file__))
    }
    assert named == {"guard_bytecode.py": {"SHAPE_ENV", "ID_MATCH"}, "stored_guards.py": set()}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore")
def test_each_encoding_rejects_each_change(name, monkeypatch):
    """Each encoding of a compiled program's guards accepts its call, and rejects a call that breaks a guard."""
    function, arguments, kind = PROGRAMS[name]
    mutations = Mutations(stages.guarding.build_check)
    monkeypatch.setattr(stages.guarding, "build_check", mutations)
    nbcompile.reset()
    with contextlib.suppress(Exception):
        nbcompile.compile(function, backend="eager")(*arguments)
    nbcompile.reset()
    assert not mutations.wrong, mutations.wrong[:5]
    assert mutations.tried[kind] or {reason for of, reason in mutations.not_tried if of is kind} <= set(UNBREAKABLE)
    print({encoding: count for encoding, count in mutations.rejected_by.items() if encoding[0] is kind})
