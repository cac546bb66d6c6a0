"""Questions about a program: the answers are the compiler's behaviour, and the page counts the score."""

from __future__ import annotations

import pytest
import torch

import nbcompile
from nbcompile import api
from nbcompile.views import html, predict, text
from tests.views import sample_records as sample


def scaled(x, k):
    return (x + 1) * k


def picky(x, k):
    return x * 2 if x.shape[0] > 3 else x * k


@pytest.mark.parametrize("function", [scaled, picky])
@pytest.mark.parametrize("dynamic", [None, True])
def test_the_answer_about_a_call_is_what_the_call_does(function, dynamic):
    """For a longer tensor, another dtype or number, the answer names the entry that runs, or none."""
    nbcompile.reset()
    compiled = nbcompile.compile(function, backend="eager", dynamic=dynamic)
    frame_recorder = api.new_recorder(function.__name__)
    with frame_recorder.listening():
        compiled(torch.ones(3, 2), 2)
        compiled(torch.ones(5, 2), 2)
    asked = [each for each in predict.questions(frame_recorder.record()) if each.text.startswith("Which entry")]
    calls = {
        "dimension 0": (torch.ones(6, 2), 2),
        "float64": (torch.ones(5, 2, dtype=torch.float64), 2),
        "k = ": (torch.ones(5, 2), 3),
    }
    told = {name: next((q for q in asked if name in q.text), None) for name in calls}
    assert sum(q is not None for q in told.values()) >= 2
    for name, question in told.items():
        if question is None:
            continue
        again = api.new_recorder("again")
        with again.listening():
            compiled(*calls[name])
        (call,) = again.record().calls
        said = question.choices[question.answer]
        if call.compiled:
            assert said == "none: it is compiled again", name
            break  # there is one entry more now: the next answers are about another program
        assert said == f"`{call.entry}`", name


def test_answers_are_worked_out_from_the_record():
    """Exactly one choice, about graphs, the break's line or kernels, is right, by the record."""

    def key(record):
        return [each.choices[each.answer] for each in predict.questions(record)]

    assert key(sample.simple()) == ["1", "none: it runs to its return", *["none: it is compiled again"] * 3, "1"]
    assert key(sample.save_break())[:2] == ["2", 'line 3: `torch.save(y, "foo.pt")`']
    assert key(sample.recompiled())[0] == "1", "entries for other sizes are no graphs of the program"


def test_the_letter_gives_nothing_away():
    """The right choice has no fixed letter, numbers are not negative, and the choices are deterministic."""
    for number in range(6):
        asked = [predict._of_numbers(f"How many are there of {each}?", number, "") for each in range(40)]
        assert {each.answer for each in asked} == set(range(min(number, 3) + 1))
        assert all(each.choices[each.answer] == str(number) and int(each.choices[0]) >= 0 for each in asked)
        assert asked[7] == predict._of_numbers("How many are there of 7?", number, "")


@pytest.mark.parametrize("name", sample.ALL)
def test_every_record_can_be_asked(name):
    """The choices differ, one is the answer, and the text ends in the key."""
    record = sample.ALL[name]()
    asked = predict.questions(record)
    for each in asked:
        assert len(set(each.choices)) == len(each.choices) > each.answer
    shown = text.render(record, "predict")
    assert shown.count("Answer ") == len(asked)


@pytest.mark.browser
def test_the_page_keeps_the_score_and_hides_the_rest(browser_page):
    """A click shows right or wrong, and unfolds the answer; the first try counts; other sections are hidden."""
    record = sample.save_break()
    asked = predict.questions(record)
    page = browser_page(html.render(record, ["predict", "summary", "source"]))
    assert not page.locator(".n-src").first.is_visible()
    items = page.locator(".n-questions > li")
    assert items.count() == len(asked)
    for index, question in enumerate(asked):
        buttons = items.nth(index).locator("button")
        assert not items.nth(index).locator("details p").is_visible()
        wrong = (question.answer + 1) % len(question.choices)
        buttons.nth(wrong if index == 0 else question.answer).click()
        assert items.nth(index).locator("details p").is_visible()
        assert items.nth(index).locator("button.n-ok").inner_text() == question.choices[question.answer].replace(
            "`", ""
        )
    items.first.locator("button").nth(asked[0].answer).click()
    status = page.locator(".n-questions + [role=status]").inner_text()
    assert status.endswith(f"{len(asked) - 1} right of {len(asked)}, {len(asked)} questions in all.")
    page.get_by_text("Reveal", exact=True).click()
    assert page.locator(".n-src").first.is_visible()


@pytest.mark.browser
def test_without_scripts_answers_unfold(browser_page):
    """Without scripts the questions, their choices and answers unfold."""
    page = browser_page(html.render(sample.simple(), "predict"), java_script_enabled=False)
    answer = page.locator(".n-questions details p").first
    assert not answer.is_visible()
    page.locator(".n-questions summary").first.click()
    assert answer.is_visible()
    assert page.locator(".n-questions button").count() == 0
