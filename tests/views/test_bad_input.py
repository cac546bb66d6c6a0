"""Unusual input: strange names, hostile reprs, huge numbers, records of other versions."""

from __future__ import annotations

import json
import time

import pytest
import torch

import nbcompile
from nbcompile.__main__ import main
from nbcompile.record import codec
from nbcompile.views import html, text
from nbcompile.views.explanation import Explanation
from tests.views import sample_records as sample
from tests.views.test_html import Page


def shown(function, *arguments, **keywords):
    """The record of a call as text and as balanced HTML, and the call's value."""
    nbcompile.reset()
    explained = nbcompile.explain(function, backend="eager")(*arguments, **keywords)
    page = html.render(explained.record)
    Page(page)
    return page, text.render(explained.record)


def test_names_that_are_no_markup(tmp_path):
    """``<lambda>``, quotes, backslashes, bidirectional marks and emoji appear literally."""
    strange = "d\"q' \\ \N{RIGHT-TO-LEFT OVERRIDE} \N{PARTY POPPER} <img src=x onerror=alert(1)>"
    table = {strange: torch.ones(3)}
    for page in shown(lambda table: table[strange] * 2, table):
        assert "lambda" in page
        assert "<lambda>" in page or "&lt;lambda&gt;" in page
        assert "\N{PARTY POPPER}" in page or "\\U0001f389" in page

    page = Page(shown(lambda table: table[strange] * 2, table)[0])
    assert not [key for key, _ in page.attributes if key.startswith("on")]


class Raises:
    k = 2.0

    def __repr__(self):
        raise RuntimeError("no repr")


class Hangs:
    k = 2.0

    def __repr__(self):
        time.sleep(600)
        return ""


class Huge:
    k = 2.0

    def __repr__(self):
        return "x" * 100_000_000


@pytest.mark.timeout(120)
@pytest.mark.parametrize("cls", [Raises, Hangs, Huge])
def test_reprs_that_raise_hang_or_are_endless(cls):
    """The views call no repr of a user's object, so the page remains small."""

    def scaled(x, thing):
        return x * thing.k

    page, _ = shown(scaled, torch.ones(3), cls())
    assert len(page) < 100_000
    assert "k" in page


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), -0.0, 2**100, -(2**100), 10**30 + 0.5, "\u2028", "\0", ""]
)
def test_numbers_and_texts_at_the_edge(value):
    """NaN, infinities, large integers, line separators and NUL in guards are shown, and the JSON is valid."""

    def chosen(x, value):
        return x + 1 if value == 7 else x - 1

    nbcompile.reset()
    function = nbcompile.compile(chosen, backend="eager")
    explained = nbcompile.explain(function)
    record = explained(torch.ones(3), value).record
    page = html.render(record, ["guards", "what_if"])
    Page(page)
    for data in page.split('type="application/json">')[1:] or page.split("type=application/json>")[1:]:
        json.loads(data.partition("</script>")[0])
    assert "value" in text.render(record, "guards")


@pytest.mark.browser
@pytest.mark.parametrize(
    "value", [float("nan"), -0.0, 2**100, "d\"q' \\ \N{RIGHT-TO-LEFT OVERRIDE} \N{PARTY POPPER} <b>"]
)
def test_the_form_takes_values_at_the_edge(browser_page, value):
    """In the form, as in the kernel, the compiled call hits its entry, and another value misses."""

    def chosen(x, value):
        return x + 1 if value == 7 else x - 1

    nbcompile.reset()
    record = nbcompile.explain(nbcompile.compile(chosen, backend="eager"))(torch.ones(3), value).record
    page = browser_page(html.render(record, ["what_if"]))
    verdict = page.locator(".n-what .n-callout")
    assert verdict.inner_text().startswith("Hit")
    page.get_by_label("value, your call").fill("7")
    assert verdict.inner_text().startswith("Recompile")


def older(schema):
    plain = json.loads(codec.to_json(sample.simple()))
    return json.dumps({**plain, "schema": schema})


@pytest.mark.parametrize(
    "written",
    [older(0), older(99), older("one"), "", "[]", "{}", "not json", '{"schema": 1}', '{"schema": 1, "function": 3}'],
)
def test_records_of_other_versions_are_rejected_in_one_line(written, tmp_path, capsys):
    """The command rejects such a record with one line, and writes no page."""
    path, out = tmp_path / "record.json", tmp_path / "out.html"
    path.write_text(written)
    assert main(["draw", str(path), "-o", str(out)]) != 0
    said = capsys.readouterr()
    told = (said.err + said.out).strip()
    assert len(told.splitlines()) == 1, told
    assert "Traceback" not in told
    assert not out.exists()


def test_a_view_that_fails_is_one_line(monkeypatch):
    """If a view fails, the cell has its value and one line about the failure."""
    monkeypatch.setattr("nbcompile.views.html.render", lambda *_: 1 / 0)
    bundle = Explanation(sample.simple())._repr_mimebundle_()
    assert bundle["text/html"] == "nbcompile: f cannot be drawn: ZeroDivisionError: division by zero"
    assert bundle["text/plain"].startswith("nbcompile: f")
