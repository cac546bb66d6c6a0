"""Random texts from tables of alternatives."""

from __future__ import annotations

import ast
import random

from nbcompile.tools.fuzz.grammar import HOLE, TABLES, Grammar, read


def test_every_table_is_read_and_every_hole_has_a_table():
    """Each field has a table: otherwise a campaign would fail hours later."""
    found = {path.name: tables for path in TABLES.iterdir() if (tables := read(path.name))}
    assert found
    drawn = {"BLOCK", *(hole for tables in found.values() for hole in tables)}  # one table may use another's
    for name, tables in found.items():
        holes = {hole for texts in tables.values() for text in texts for hole in HOLE.findall(text)}
        assert all(tables.values()) and holes <= drawn, name


def test_holes_are_filled_until_the_depth_is_used_up():
    """At depth 0 an alternative without fields is drawn, so the text is finite."""
    grammar = Grammar({"N": ["1", "(<N> + <N>)"]}, depth=4)
    for seed in range(50):
        text = grammar.draw(random.Random(seed), "<N>")
        assert "<" not in text and eval(text) >= 1


def test_blocks_are_statements_of_python():
    """The body of a compound statement is indented."""
    grammar = Grammar(
        {"STATEMENT": ["x = <#>", "y = 2"], "COMPOUND": ["for i in r:<BLOCK>", "if c:<BLOCK>\nelse:<BLOCK>"]},
        nested=0.8,
    )
    for seed in range(50):
        lines = grammar.block(random.Random(seed), 10)
        assert len(lines) >= 10
        ast.parse("def f():\n" + "\n".join(lines))
