"""The part of the header that a unit uses."""

import re

import pytest

from nbcompile.codegen.header import HEADER, declarations, header_for
from nbcompile.runtime import toolchain
from tests.support.targets import compiler


def test_what_is_not_used_is_left_out():
    """A kernel that adds has no tanh; one that calls tanh has the functions that tanh calls."""
    assert "tanh" not in header_for("load store") and "digamma" not in header_for("load store")
    kept = header_for("tanh")
    assert "reduce_ln2" in kept and "copysign" in kept and "digamma" not in kept
    assert len(header_for("load store")) < len(HEADER) / 2


def test_nothing_is_lost():
    """All declarations together are the header without its comments."""
    before, pieces, after = declarations()
    whole = before + "".join(piece.text for piece in pieces) + after
    assert re.sub(r"\s", "", whole) == re.sub(r"\s", "", re.sub(r"/\*.*?\*/", "", HEADER, flags=re.DOTALL))


@pytest.mark.parametrize(
    "name", ["tanh", "across", "checked_scalar_index", "erfinv", "floor_div", "scatter", "Row", "expm1", "sequence"]
)
def test_each_part_compiles_alone(name, tmp_path):
    """The part for one function declares all names that it uses."""
    toolchain.build(compiler(), header_for(name), tmp_path / "part.so")
