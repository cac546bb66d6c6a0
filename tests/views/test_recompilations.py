"""The view of recompilations: calls by entry, failed guards, and the changes of the new entry."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace

import pytest
import torch

import nbcompile
from nbcompile import api
from nbcompile.record.model import Call
from nbcompile.views import html, recompilations, recompile_causes, text
from tests.views import sample_records as sample


def branching(x):
    if x.shape[0] > 5:
        return x + 1
    return x * 2


@pytest.fixture(scope="module")
def record():
    nbcompile.reset()
    compiled, frame_recorder = nbcompile.compile(branching, backend="eager"), api.new_recorder("branching")
    with frame_recorder.listening():
        for size in (3, 4, 6, 5, 9, 10):
            compiled(torch.ones(size))
    return frame_recorder.record()


def test_the_timeline_is_the_calls(record):
    """The timeline has each call in order, with each entry's verdict."""
    lines = [line.split() for line in text.render(record, "recompilations").splitlines()]
    assert lines[1:7] == [
        ["call", "0/0", "0/1", "0/2"],
        ["1", "compiled"],
        ["2", "failed", "compiled"],
        ["3", "failed", "failed", "compiled"],
        ["4", "hit"],
        ["5-6", "hit"],
    ]
    assert sum(each.times for each in record.calls) == 6


def test_names_that_the_compiler_numbers_are_no_change(record):
    """torch numbers the builtins' names anew in each frame: the guards on them are equal."""
    guard = replace(record.frames[1].guards[0], condition="___check_obj_id(G['__builtins_dict___0']['len'], 1)")
    before = replace(record.frames[1], guards=(*record.frames[1].guards, guard))
    other = replace(guard, condition=guard.condition.replace("___0", "___12"))
    after = replace(record.frames[2], guards=(*record.frames[2].guards, other))
    assert recompilations.changes(before, after) == recompilations.changes(record.frames[1], record.frames[2])


def test_text_of_a_long_change_is_cut(record, monkeypatch):
    """If every line of the graph differs, the text says how many lines are omitted."""
    monkeypatch.setattr(recompilations, "MOST_CHANGES", 3)
    shown = text.render(record, "recompilations")
    assert "... and 5 more lines" in shown


def test_what_changed_between_entries(record):
    """The change lists removed and added guards, and the differing lines of the graph, with the new size."""
    assert recompilations.changes(record.frames[1], record.frames[2]) == [
        "guards:", "- 2 <= x.size()[0] <= 5", "+ 6 <= x.size()[0]",
        "graph:", '- mul: "f32[s77]" = l_x_ * 2;  l_x_ = None', '+ add: "f32[s77]" = l_x_ + 1;  l_x_ = None',
        "- return (mul,)", "+ return (add,)",
    ]  # fmt: skip
    shown = html.render(record, "recompilations", assets=False)
    assert "<td class=n-expected><code>2 to 5</code></td><td class=n-now><code>6</code></td>" in shown
    assert "(tried: it helps)" in shown


def test_train_and_eval_are_shown_in_html_and_text():
    """For a model that was switched to eval() between calls, HTML and text name train() and eval()."""
    nbcompile.reset()
    drop = torch.nn.Dropout()
    compiled, frame_recorder = nbcompile.compile(lambda x: drop(x), backend="eager"), api.new_recorder("evaluated")
    with frame_recorder.listening():
        compiled(torch.ones(3))
        drop.eval()
        compiled(torch.ones(3))
    told = "advice: call train() or eval() on the model before the first call, and not between calls; where both modes"
    shown = (
        text.render(frame_recorder.record(), "recompilations"),
        html.render(frame_recorder.record(), "recompilations", assets=False),
    )
    for each in shown:
        assert told in " ".join(each.split())
        assert "do not pass" not in each


def test_guards_with_equal_sentences_are_shown_as_conditions(record):
    """Two entries with the same words for their tensor, but other dtypes, are shown with the condition."""
    first = record.frames[0]
    guard = next(each for each in first.guards if each.kind == "TENSOR_MATCH")
    other = replace(guard, condition=guard.condition.replace("float32", "float64"))
    second = replace(first, guards=tuple(other if each is guard else each for each in first.guards))
    assert [line[:16] for line in recompilations.changes(first, second)] == ["guards:", "- check_tensor(x", "+ check_tensor(x"]  # fmt: skip


def test_a_record_without_calls_has_no_timeline():
    """A record of an older version, or without an outer call, has no timeline."""
    record = replace(sample.recompiled(), calls=())
    shown = html.render(record, "recompilations", assets=False)
    assert "Calls of" not in shown
    assert "was compiled because" in shown


def test_many_calls_are_cut_visibly():
    """A thousand alternating calls are cut, with a note."""
    calls = tuple(Call("0", f"0/{index % 2}") for index in range(3000))
    shown = html.render(replace(sample.recompiled(), calls=calls), "recompilations")
    assert "more: see the full report" in shown
    assert len(shown) < html.HARD_LIMIT


def test_recompilations_for_one_value_are_one_table():
    """If one value differs repeatedly, each entry is a row with the last failed guard; one graph is drawn."""
    nbcompile.reset()

    def f(x, tag):
        return x + 1 if tag == "a" else x * 2

    compiled = nbcompile.compile(f, backend="eager")
    recorder = api.new_recorder("f")
    with recorder.listening():
        for number in range(5):
            compiled(torch.ones(2), f"t{number}")
    page = html.render(recorder.record(), "recompilations", assets=False)
    shown = re.sub(r"<[^>]+>", " ", page)
    assert "differs: 4 recompilations of" in re.sub(r"\s+", " ", shown)
    table = shown[shown.index("differs:") :]
    assert re.findall(r"tag == (?:&#39;|')(t\d)", table)[:4] == ["t0", "t1", "t2", "t3"]
    assert html.render(recorder.record(), assets=False).count("data-f=") == 1
    assert html.render(recorder.record(), assets=False, limit=None).count("data-f=") == 5


def storm(number=9, backend="eager"):
    """A record with another value of one argument in each call."""
    nbcompile.reset()

    def f(x, tag):
        return x + 1 if tag == "a" else x * 2

    compiled, recorder = nbcompile.compile(f, backend=backend, recompile_limit=number - 1), api.new_recorder("f")
    with recorder.listening(), warnings.catch_warnings():
        warnings.simplefilter("ignore", nbcompile.errors.RecompileLimitWarning)
        for each in range(number):
            compiled(torch.ones(2), f"t{each}")
    return recorder.record()


def test_a_storm_says_each_thing_once():
    """The advice appears once for all entries, and the expected values are in a row."""
    shown = " ".join(text.render(storm(), "recompilations").split())
    assert shown.count("advice:") == 1
    assert "or config.recompile_limit = 16, if so many versions are meant" in shown
    assert "the entries expect: 't0', 't1'" in shown


def test_a_call_beyond_the_limit_is_one_call():
    """The function has compiled entries, so only the call beyond the limit is said to have run eagerly."""
    shown = " ".join(text.render(storm(), "summary").split())
    assert "A further call of f ran eagerly as a whole: recompile_limit (8) reached." in shown
    assert shown.count("f ran eagerly") == 1


@pytest.mark.browser
@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_a_storm_fits_one_screen(chromium, backend):
    """With nine calls and eight entries, all but the summary is folded, and complete."""
    record = storm(backend=backend)
    fragment = html.render(record)
    page = chromium.new_page(viewport={"width": 1280, "height": 900})
    page.set_content(f"<!doctype html><meta charset=utf-8>{fragment}")
    assert page.evaluate("document.documentElement.scrollHeight") <= 900
    assert len(fragment.encode()) <= 60_000
    said = page.evaluate(
        "document.querySelectorAll('details').forEach(each => { each.open = true; }), document.body.innerText"
    )
    for each in ("Calls of f, one by one", "tag == 't7'", "What if the call were another?", "0/-"):
        assert each in said
    few = html.render(storm(3), assets=False)
    assert "one by one" not in few, "what is short stands open"


def unrolled(x, n):
    for _ in range(n):
        x = (x * 2 + 1).sin().cumsum(0) - x.mean()
    return x


def recorded(function, calls, backend="eager"):
    """The record of some calls of a function."""
    nbcompile.reset()
    compiled, recorder = nbcompile.compile(function, backend=backend), api.new_recorder(function.__name__)
    with recorder.listening():
        for arguments in calls:
            compiled(*arguments)
    return recorder.record()


def test_lengths_of_a_loop_are_one_cause():
    """The first miss is of a constant, later ones are of its symbol: all have the cause n."""
    record = recorded(unrolled, [(torch.ones(4), n) for n in range(1, 6)])
    [cause] = recompile_causes.causes(record, record.frames[1:])
    assert (cause.about, cause.values) == ("n", ("1", "2", "3", "4"))
    shown = " ".join(text.render(record, "recompilations").split())
    assert shown.count("advice:") == 1
    assert "do not make n the length of a loop" in shown


def test_sizes_and_bounds_of_sizes_are_one_cause():
    """An entry for one size, and one for a range of sizes, miss because of the same dimension."""

    def bounded(x):
        return x + 1 if x.size(0) < 50 else x - 1

    record = recorded(bounded, [(torch.ones(size),) for size in (4, 8, 100)])
    [cause] = recompile_causes.causes(record, record.frames[1:])
    assert (cause.about, cause.values) == ("size of tensor 'x', dimension 0", ("4", "2 to 49"))


def test_conditions_that_differ_in_numbers_are_one_advice():
    """Branches on other numbers have one advice, with all conditions."""

    def branches(x, n):
        return x * 2 if n == 3 else x + 1 if n == 4 else x.sin() if n == 5 else x * n

    record = recorded(branches, [(torch.ones(4), n) for n in (7, 3, 4, 5)])
    shown = " ".join(text.render(record, "recompilations").split())
    assert shown.count("move the branch out of the function") == 1
    assert "the program compares (n == 3), (n == 4)" in shown


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_a_storm_of_large_graphs_stays_small(backend):
    """A record with many large graphs shows causes before code; the report is complete."""
    record = recorded(unrolled, [(torch.ones(4), n) for n in range(9, 15)], backend)
    fragment = html.render(record)
    assert len(fragment.encode()) <= html.STORM_LIMIT
    assert "Shortened to stay small" in fragment
    assert "the full report has all of each" in fragment, "a sentence of ours is not cut"
    assert html.render(record, limit=None).count("data-f=") == 6


STORMS = {
    "ranks": lambda x: (x.sin() + 1).sum(),
    "branches": lambda x: x + 1 if x.dim() == 1 else x - 1 if x.dim() == 2 else x * x.dim(),
}


@pytest.mark.parametrize("name", STORMS)
def test_a_storm_of_different_graphs_shows_the_first_and_the_last(name):
    """Two of eight entries with different graphs are drawn, and the others are named; one section shows all."""
    nbcompile.reset()
    compiled, recorder = nbcompile.compile(STORMS[name], backend="eager"), api.new_recorder(name)
    with recorder.listening():
        for rank in range(1, 9):
            compiled(torch.ones(*[2] * rank))
    record = recorder.record()
    fragment = html.render(record, assets=False)
    ids = [frame.id for frame in record.frames]
    drawn = re.findall(r'data-f="?([\d/]+)', fragment)
    assert len(ids) == 8
    assert set(drawn) == {ids[0], ids[-1]}
    said = re.sub(r"<[^>]*>", "", fragment)
    assert f"{', '.join(ids[1:-1])} are further entries of" in said
    assert set(re.findall(r'data-f="?([\d/]+)', html.render(record, "graph", assets=False))) == set(ids)
    whole = html.render(record, assets=False, limit=None)
    assert set(re.findall(r'data-f="?([\d/]+)', whole)) == set(ids), "the full report has all of each"
