"""The table of modules is generated from the modules' docstrings."""

from __future__ import annotations

import pytest
from docutils import nodes

from nbcompile.sphinx_ext import module_map
from nbcompile.sphinx_ext.module_map import rows


def test_the_map_of_modules(tmp_path):
    """A row has a module's first sentence and its `In torch:` line, unwrapped."""
    package = tmp_path / "house"
    package.mkdir()
    (package / "__init__.py").write_text("")
    ending = "In torch: torch/a.py (``A``),\ntorch/b.py. Read next: b.py"
    (package / "a.py").write_text(f'"""Where a value\ncame from.\n\nMore words.\n\n{ending}\n"""\n')
    [row] = rows(package)
    assert (row.file, row.idea, row.in_torch) == (
        "house/a.py",
        "Where a value came from.",
        "torch/a.py (``A``), torch/b.py",
    )


def test_every_module_has_a_row():
    """The table has each module of the package."""
    found = list(rows())
    assert "nbcompile/capture/source.py" in [row.file for row in found]
    assert [row.file for row in found if not row.in_torch] == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("An idea.", ""),
        ("An idea.\n\nIn torch: nothing; read next: a.py", "nothing"),
        ("An idea.\n\nIn torch: torch/a.py.\n\nMore of it.", "torch/a.py."),
        ("An idea. In torch: torch/a.py", "torch/a.py"),
    ],
)
def test_the_line_about_torch_ends_with_its_paragraph(tmp_path, text, expected):
    """The line ends at the next module or at the end of the paragraph; without the line, the cell is empty."""
    (tmp_path / "a.py").write_text(f'"""{text}"""\n')
    assert [row.in_torch for row in rows(tmp_path)] == [expected]


def test_code_in_a_sentence_is_set_as_code():
    """Text between double backticks is a literal, also at the ends; a single pair is text."""
    parts = module_map._inline("``A`` is before ``b()``")
    assert [type(part) for part in parts] == [nodes.literal, nodes.Text, nodes.literal]
    assert "".join(part.astext() for part in parts) == "A is before b()"
    assert [type(part) for part in module_map._inline("a ``b")] == [nodes.Text]
