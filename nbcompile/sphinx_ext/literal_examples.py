"""Examples in module docstrings, shown as they are written.

    @decorated                      a block indented by four spaces, between blank lines: reStructuredText reads
    def f(x): ...                   a quotation, and joins its lines; a paragraph "::" before it keeps them

In torch: nothing. Read next: nbcompile/sphinx_ext/__init__.py
"""

from __future__ import annotations

from sphinx.application import Sphinx

INDENT = "    "


def keep_examples(app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]) -> None:
    """Mark each indented block of a module's docstring as literal; for Sphinx's event ``autodoc-process-docstring``."""
    if what == "module":
        lines[:] = with_literal_blocks(lines)


def with_literal_blocks(lines: list[str]) -> list[str]:
    """The lines, with ``::`` before each block that is indented and that no line announces as literal."""
    found: list[str] = []
    inside = False
    for index, line in enumerate(lines):
        begins = line.startswith(INDENT) and not inside
        # Indented lines directly after a line, without a blank line, are the body of a list item or of a directive.
        if begins and index and not lines[index - 1] and not _announced(lines[: index - 1]):
            found += ["::", ""]
        # A blank line does not end a block: the next line with less indentation does.
        inside = inside if not line else line.startswith(INDENT)
        found.append(line)
    return found


def _announced(before: list[str]) -> bool:
    last = next((line for line in reversed(before) if line), "")
    return last.endswith("::") or last.lstrip().startswith((".. ", "- ", "* "))
