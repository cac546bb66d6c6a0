"""Python programs of a seed."""

from __future__ import annotations

from nbcompile.tools.fuzz import python


def test_only_objects_that_are_used_are_made():
    """An object that no statement uses is neither created nor returned."""
    text = python.source(["    i = meta.count"], [])
    assert "meta = Meta()" in text
    assert "return (x, y, z, n, i, j, items, table, thing, out, s, meta)" in text
    assert "slotted = " not in text


def test_a_seed_is_a_program():
    """A seed determines the text, another seed gives another one, and it is valid Python."""
    assert python.generate("1") == python.generate("1")
    assert python.generate("1").source != python.generate("2").source
    compile(python.generate("1").source, "<test>", "exec")
