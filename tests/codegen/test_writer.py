"""Source text whose lines have origins."""

from __future__ import annotations

import pytest

from nbcompile.codegen.writer import SourceWriter, one_line


def loop() -> SourceWriter:
    """A loop with two statements, between lines without origins."""
    writer = SourceWriter()
    writer.line("begin", role="glue")
    with writer.block("for (;;) {"):
        writer.line("store(x);", ("add",))
        writer.line("")
        writer.line("store(y);", ("mul", "add"))
    return writer


def test_a_block_indents():
    """A block is indented by two spaces; an empty line remains empty."""
    assert loop().text() == "begin\nfor (;;) {\n  store(x);\n\n  store(y);\n}\n"


def test_lines_know_their_nodes():
    """A header and a footer surround their body; glue computes nothing; an empty line has no entry."""
    found = {line.line: (line.nodes, line.role) for line in loop().line_map()}
    assert found == {
        1: ((), "glue"),
        2: (("add", "mul"), "surrounds"),
        3: (("add",), "computes"),
        5: (("mul", "add"), "computes"),
        6: (("add", "mul"), "surrounds"),
    }


def test_origins_may_grow():
    """A value that a second node uses gets that node as an origin, too."""
    writer = SourceWriter()
    writer.line("a = 1;", ("one",)).append("two")
    assert writer.line_map()[0].nodes == ("one", "two")


def test_text_can_be_inserted_where_it_was_left_out():
    """Inserted lines move the origins and roles of the lines after them."""
    writer, declarations = SourceWriter(), SourceWriter()
    position = writer.here()
    writer.line("use(a);", ("use",))
    declarations.line("int a;", ("declare",))
    writer.insert(position, declarations)
    assert writer.text() == "int a;\nuse(a);\n"
    assert [line.nodes for line in writer.line_map()] == [("declare",), ("use",)]


@pytest.mark.parametrize(("text", "line"), [
    ("two\nlines", "two lines"),
    ("a path C:\\", "a path C:"),
    ("nul\0 and bell\a", "nul? and bell?"),
    ("\\ \\", ""),
])  # fmt: skip
def test_a_comment_is_one_line(text, line):
    """A user's text in a comment neither ends the line early nor joins it to the next one."""
    assert one_line(text) == line
