"""The registry of graph breaks, its examples, and their pages."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import pytest

from nbcompile.tools import explain
from nbcompile.tracing import breaks
from nbcompile.views import break_sentences

ROOT = Path(__file__).parents[2]
EXAMPLES = explain.load_examples()


def kinds_in_code() -> dict[str, set[str]]:
    """The rows that the compiler's modules use; each raised kind must be a row."""
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
    """Each raised kind is a row of the registry, and each row is raised somewhere."""
    rows = {name for name, value in vars(breaks).items() if isinstance(value, breaks.BreakKind)}
    used = {name for name in kinds_in_code() if name.isupper()}
    assert used - rows - {"KINDS", "FUNDAMENTAL", "SUPPORTABLE", "USER_ERROR", "EARLIER_BREAK"} == set()
    assert rows - used == set()


def test_an_unregistered_kind_is_rejected():
    """A kind that is not in the registry cannot be raised."""
    stranger = breaks.BreakKind("NB9999", "Nothing", "nothing")
    with pytest.raises(AssertionError, match="NB9999"):
        breaks.unsupported(stranger)


def test_every_kind_has_an_example():
    """Each kind has an example and a fixed version."""
    wanted = {name for each in breaks.KINDS for name in (each.lower(), f"{each.lower()}_fixed")}
    assert {name for name in wanted if not hasattr(EXAMPLES, name)} == set()


@pytest.mark.parametrize("name", sorted(breaks.KINDS))
def test_examples_break_and_fixes_do_not(name):
    """The example breaks and the fix does not; the page has both, without unfilled fields or wrong lines."""
    parts = explain.page(name)
    text = explain.as_markdown(parts)
    assert text.startswith(f"# {name}: ")
    assert "## Example" in text
    assert "## Without the break" in text
    prose = " ".join(part.text for part in parts if part.kind != "code")
    assert re.findall(r"\{\w+\}|⟨|\.\.\. is|site-packages|0x[0-9a-f]{6}", prose) == []
    shown = next(part.text for part in parts if part.kind == "code").count("\n") + 1
    assert [line for line in re.findall(r"\bline (\d+)", prose) if int(line) > shown] == []
    assert max(map(len, explain.as_text(parts).splitlines())) < 140


def test_a_page_without_numpy(monkeypatch):
    """If an example cannot run, its page exists without the example's values."""
    for name in ("NB0031", "NB0060"):
        with monkeypatch.context() as patch:
            patch.setattr(EXAMPLES, "np", None)
            text = explain.as_markdown(explain.page(name))
        assert "## Example" in text
        assert not re.search(r"\{\w+\}", text.partition("## Example")[0])


def test_a_kind_that_does_not_exist():
    """The error suggests the nearest kind."""
    with pytest.raises(ValueError, match=r"'NB005' is no kind of graph break\. Did you mean NB00\d\d\?"):
        explain.page("NB005")


def test_an_example_is_shown_with_what_it_names():
    """Helpers come before the function, in order, and a call other than f(x) comes after it."""
    text = explain.Example.of(EXAMPLES, "nb0055").text
    assert text.index("class Doubled(") < text.index("class DoubledForwards(Doubled)") < text.index("def f(x)")
    assert text.endswith("f(torch.ones(3, requires_grad=True))")
    assert "given" not in text
    plain = explain.Example.of(EXAMPLES, "nb0001").text
    assert plain.startswith("def f(x):")
    assert plain.endswith("return x * 2")


def test_titles_are_unique_per_id():
    """Each id is unique."""
    assert len({each.id for each in breaks.KINDS.values()}) == len(breaks.KINDS)
    assert inspect.getdoc(breaks.BreakKind)


@pytest.mark.parametrize("name", sorted(breaks.KINDS))
def test_a_break_at_a_call_names_its_callee(name):
    """If a call breaks the graph, the first screen names the callee, for each kind."""
    example = explain.Example.of(EXAMPLES, name.lower())
    if not example.can_run():
        pytest.skip("this example needs NumPy")
    for each in example.breaks():
        place = each.stack[-1] if each.stack else None
        written = place.code[place.column : place.end_column] if place is not None and place.column >= 0 else ""
        if each.reason.startswith("when attempting to trace CALL") and not written.startswith("class "):
            assert each.callee, f"{name}: {written}"
        if each.callee:
            assert written.startswith(each.callee + "(")
            assert f"`{each.callee}`" in break_sentences.what_breaks(each)
