"""The registry of graph breaks, its examples, and the pages made of both."""

from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

from nbcompile.sphinx_ext import break_pages
from nbcompile.tracing import breaks

ROOT = Path(__file__).parents[2]
EXAMPLES = break_pages.load_examples(ROOT / "docs" / break_pages.FOLDER / "examples.py")


def kinds_in_code() -> dict[str, set[str]]:
    """Names of rows that the compiler's modules use, and what they raise as a kind without one."""
    used: dict[str, set[str]] = {}
    for path in (ROOT / "nbcompile").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "breaks":
                used.setdefault(node.attr, set()).add(path.name)
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("breaks.unsupported", "breaks.Unsupported"):
                kind = ast.unparse(node.args[0])
                assert kind.startswith("breaks.") or kind in ("kind", "made"), f"{path.name}: {kind} is no row"
    return used


def test_every_row_is_emitted():
    """What the compiler raises is a row of the registry, and each row is raised somewhere."""
    rows = {name for name, value in vars(breaks).items() if isinstance(value, breaks.BreakKind)}
    used = {name for name in kinds_in_code() if name.isupper()}
    assert used - rows - {"KINDS", "FUNDAMENTAL", "SUPPORTABLE", "USER_ERROR", "EARLIER_BREAK"} == set()
    assert rows - used == set()


def test_an_unregistered_kind_is_refused():
    """A kind that is no row of the registry cannot be raised."""
    stranger = breaks.BreakKind("NB9999", "Nothing", "nothing")
    with pytest.raises(AssertionError, match="NB9999"):
        breaks.unsupported(stranger)


def test_every_kind_has_an_example():
    """Each kind has an example that is run, and what to write instead."""
    wanted = {name for each in breaks.KINDS for name in (each.lower(), f"{each.lower()}_fixed")}
    assert {name for name in wanted if not hasattr(EXAMPLES, name)} == set()


@pytest.mark.parametrize("name", sorted(breaks.KINDS))
def test_examples_break_and_fixes_do_not(name):
    """The example meets its kind, the fix does not; the page tells both."""
    text = break_pages.page(breaks.KINDS[name], EXAMPLES)
    assert text.startswith(f"# {name}: ")
    assert "## Example" in text
    assert "## Without the break" in text


def test_titles_are_unique_per_id():
    """No two rows have one id, and each explanation is filled by what the compiler gives."""
    assert len({each.id for each in breaks.KINDS.values()}) == len(breaks.KINDS)
    assert inspect.getdoc(breaks.BreakKind)
