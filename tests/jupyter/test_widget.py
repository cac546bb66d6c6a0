"""The widget: the page's verdict about a kernel's call is that of the kernel's guards."""

from __future__ import annotations

import json
import re
import sys

import pytest
import torch

import nbcompile
from nbcompile import api
from tests.views.conftest import POLICY, browser_page, chromium  # noqa: F401  (fixtures)

pytest.importorskip("anywidget", reason="anywidget is not installed: pip install nbcompile[widget]")
from nbcompile.jupyter.widget import LiveWhatIf, View  # noqa: E402  (after the check)

# A host loads the widget's module from a URL of its own.
MODULES = POLICY.replace("script-src", "script-src blob:")


def scaled(x, k=2):
    return x * k


class Net(torch.nn.Module):
    def forward(self, x):
        return x.relu()


@pytest.fixture
def live():
    nbcompile.reset()
    function, frame_recorder = nbcompile.compile(scaled, backend="eager"), api.new_recorder("scaled")
    with frame_recorder.listening():
        function(torch.ones(3, 4))
        function(torch.ones(5, 4))
    return LiveWhatIf(frame_recorder.record(), function)


def test_the_kernels_guards_answer(live):
    """A hit names the entry; the check neither calls nor compiles."""
    entries = [frame.id for frame in live._query.frames]
    assert live.find_entry(torch.ones(9, 4)) == entries[1]
    assert live.result == f"The kernel's own guards: {entries[1]} accepts."
    assert live.find_entry(torch.ones(9, 5)) is None
    assert live.find_entry(torch.ones(9, 4), k=3) is None
    assert live.find_entry(x=torch.ones(9, 4).double()) is None
    assert [frame.id for frame in live._query.frames] == entries
    json.dumps(live.call)


def test_methods_and_what_was_never_compiled(live):
    """A method's object is bound as in Python; a function that was not compiled is rejected in one line."""
    net = Net()
    forward, frame_recorder = nbcompile.compile(net.forward, backend="eager"), api.new_recorder("forward")
    with frame_recorder.listening():
        forward(torch.ones(3))
    record = frame_recorder.record()
    assert LiveWhatIf(record, net.forward).find_entry(torch.ones(3)) == record.frames[0].id
    assert LiveWhatIf(record, net.forward).find_entry(torch.ones(4)) is None
    with pytest.raises(ValueError, match="has no guards of 'scaled'"):
        LiveWhatIf(record, scaled)


HOST = """
async ([module, page, calls]) => {
  const values = { page, call: null, result: "" }, listeners = {};
  const model = { get: name => values[name], on: (name, react) => { listeners[name] = react; } };
  const host = document.querySelector("#host"), el = host.attachShadow ? host : host;
  const { default: widget } = await import(URL.createObjectURL(new Blob([module], { type: "text/javascript" })));
  widget.render({ model, el });
  const shown = [];
  for (const [call, result] of calls) {
    Object.assign(values, { call, result });
    listeners["change:call"]();
    shown.push([el.querySelector(".n-callout").textContent, el.querySelector(".n-what > .n-quiet:last-child").textContent,
      [...el.querySelectorAll("input")].map(each => each.value)]);
  }
  return shown;
}
"""


@pytest.mark.browser
def test_the_form_shows_the_kernels_call_and_agrees(live, browser_page):  # noqa: F811
    """In an anywidget host, the form takes the call's values, and has the kernel's verdict."""
    wanted = [
        (torch.ones(9, 4),),
        (torch.ones(9, 5),),
        (torch.ones(1, 4),),
        (torch.ones(5, 4), 3),
        (torch.ones(3, 4).double(),),
    ]
    calls, hits = [], []
    for arguments in wanted:
        hits.append(live.find_entry(*arguments))
        calls.append([live.call, live.result])
    assert None in hits
    assert any(hits)
    page = browser_page('<div id="host"></div>', policy=MODULES)
    for (verdict, result, fields), hit, arguments in zip(
        page.evaluate(HOST, [live._esm if isinstance(live._esm, str) else str(live._esm), live.page, calls]), hits, wanted, strict=True
    ):  # fmt: skip
        assert verdict.startswith(f"Hit: {hit}" if hit else "Recompile")
        assert result == (
            f"The kernel's own guards: {hit} accepts." if hit else "The kernel's own guards: no entry accepts."
        )
        assert ", ".join(map(str, arguments[0].shape)) in fields


SHOWN = """
async ([module, page]) => {
  const model = { get: name => ({ page })[name], on: () => {} }, el = document.querySelector("#host").attachShadow({ mode: "open" });
  const { default: widget } = await import(URL.createObjectURL(new Blob([module], { type: "text/javascript" })));
  widget.render({ model, el });
  const press = what => el.querySelector(what).dispatchEvent(new MouseEvent("click", { bubbles: true }));
  const seen = { live: el.querySelectorAll(".nbc[data-up]").length, drawings: el.querySelectorAll("svg").length };
  press(".n-src [data-n]");
  seen.lit = el.querySelectorAll("svg .n-on").length;
  press(".n-questions button");
  seen.answered = el.querySelectorAll(".n-questions details[open]").length;
  seen.verdict = el.querySelector(".n-what .n-callout").textContent;
  return seen;
}
"""


@pytest.mark.browser
def test_any_view_is_a_widget(live, browser_page):  # noqa: F811
    """In a host's shadow DOM, pictures open, and links, questions and the form work."""
    nbcompile.reset()
    view = View(
        nbcompile.explain(nbcompile.compile(scaled, backend="eager"))(torch.ones(3)),
        ["predict", "source", "graph", "what_if"],
    )
    seen = browser_page('<div id="host"></div>', policy=MODULES).evaluate(SHOWN, [str(view._esm), view.page])
    assert seen == {"live": 1, "drawings": 1, "lit": 1, "answered": 1, "verdict": "Hit: 0/0 runs. Nothing is compiled."}


@pytest.mark.parametrize("widget", [LiveWhatIf, View])
def test_the_module_fetches_nothing(widget):
    """The module has one export, no URL, and no evaluation of text."""
    module = str(widget._esm)
    assert re.findall(r"export \w+", module) == ["export default"]
    for word in ("eval(", "http", "innerHTML", "import(", "fetch("):
        assert word not in module


def test_marimo_is_handed_a_widget(monkeypatch):
    """marimo gets a live view from `explain`'s result, or the plain page without anywidget."""
    nbcompile.reset()
    explained = nbcompile.explain(nbcompile.compile(scaled, backend="eager"))(torch.ones(3))
    shown = explained._display_()
    assert isinstance(shown, View)
    assert "scaled" in shown.page
    monkeypatch.setitem(sys.modules, "nbcompile.views.live", None)  # as if anywidget were missing
    assert "scaled" in explained._display_()._repr_mimebundle_()["text/html"]
