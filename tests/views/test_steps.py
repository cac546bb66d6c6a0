"""Time travel: the page shows the recorded state of each step, loops are summarised, keys move."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
import torch

import nbcompile
from nbcompile import api
from nbcompile.record import codec
from nbcompile.views import assets, html, steps, text
from tests.views.test_what_if import in_node


def scaled(v, k):
    return v * k


def looping(x):
    y = scaled(x, 2)
    for i in range(6):
        y = y + i
    torch._dynamo.graph_break()
    return y.sin()


@pytest.fixture(scope="module")
def record():
    nbcompile.reset()
    compiled, frame_recorder = nbcompile.compile(looping, backend="eager"), api.new_recorder("looping")
    with frame_recorder.listening(), nbcompile.config.patch(record_steps=True):
        compiled(torch.ones(3))
    return frame_recorder.record()


def test_steps_are_recorded_only_when_asked():
    """An ordinary compile records no steps, and has no such section."""
    nbcompile.reset()
    plain = nbcompile.explain(looping, backend="eager")(torch.ones(3)).record
    assert not any(frame.steps for frame in plain.frames)
    assert "symbolic interpreter" not in html.render(plain, "steps")


def test_steps_show_stack_locals_and_additions(record):
    """The multiplication in the inlined function has its locals, and adds the input, the node and the guard."""
    step = next(each for each in record.frames[0].steps if each.argument == "*")
    assert (step.function, step.depth, step.text) == ("scaled", 1, "return v * k")
    assert step.stack[1] == "ConstantVariable(int: 2)"
    assert step.locals[1] == "k = ConstantVariable(int: 2)"
    assert step.nodes == ("l_x_: an input", "mul = mul(l_x_, 2)")
    assert step.guards == ("TENSOR_MATCH L['x']",)
    nodes = [text for each in record.frames[0].steps for text in each.nodes]
    assert len(nodes) == sum(node.op != "output" for node in record.frames[0].graph.nodes)
    assert codec.from_json(codec.to_json(record)) == record


def test_later_passes_of_a_loop_are_one_row(record):
    """Two iterations are shown in full, the other four in one row; no step is lost."""
    rows = list(steps.summarised(record.frames[0].steps))
    assert sum(len(each.steps) for each in rows) == len(record.frames[0].steps)
    [loop] = [each for each in rows if each.is_loop]
    assert sum(text.startswith("add_") for each in loop.steps for text in each.nodes) == 4
    assert "more steps: the loop continues" in text.render(record, "steps")


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not here")
def test_the_page_shows_the_state_at_every_step(record):
    """For each step the page has the stack, the locals, and all guards and nodes up to then."""
    frame = record.frames[0]
    program = """
      const data = JSON.parse(require("fs").readFileSync(0, "utf8"));
      console.log(JSON.stringify(data.steps.map((_, n) => stateAt(data, n))));
    """
    said = in_node(["view", "steps"], program, steps.packed(frame))
    guards, nodes = [], []
    for step, state in zip(frame.steps, said, strict=True):
        assert state["stack"] == [steps.in_words(text) for text in step.stack]
        assert state["values"] == [steps.in_words(text) for text in step.locals]
        assert (state["guards"], state["nodes"]) == (guards, nodes)
        assert (state["name"], state["line"], state["text"]) == (step.function, step.line, step.text)
        guards, nodes = [*guards, *step.guards], [*nodes, *step.nodes]


@pytest.mark.browser
def test_keys_walk_through_the_steps(record, browser_page):
    """Arrows, Home and End move the slider, and buttons jump between events; the state is announced."""
    page = browser_page(html.render(record, "steps"))
    box = page.locator(".n-steps").first
    slider, said = box.locator("[type=range]"), box.locator("[role=status]")
    slider.focus()
    assert said.inner_text().startswith("Step 1 of ")
    page.keyboard.press("ArrowRight")
    assert said.inner_text().startswith("Step 2 of ")
    page.keyboard.press("ArrowLeft")
    assert said.inner_text().startswith("Step 1 of ")
    page.keyboard.press("End")
    assert "Then the graph ends: Call to `torch._dynamo.graph_break()`" in said.inner_text()
    assert "add_5 = add(add_4, 5)" in box.locator("dl").inner_text()
    page.keyboard.press("Home")
    box.get_by_text("On to the next event").press("Enter")
    assert "Adds FUNCTION_MATCH" in said.inner_text()
    box.get_by_text("Forward", exact=True).press("Enter")
    assert "in scaled" in said.inner_text() or ", scaled, line" in said.inner_text()
    assert box.locator("tr.n-on").count() == 1
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_texts_of_the_program_stay_texts(record):
    """A line of the program is escaped data in the page."""
    word = "</script><img src=x onerror=alert(1)>"
    frame = record.frames[0]
    poisoned = replace(frame, steps=tuple(replace(each, text=word, locals=(word,)) for each in frame.steps))
    shown = html.render(replace(record, frames=(poisoned,)), "steps", assets=False)
    assert "<img" not in shown
    assert len(assets.script("steps")) < 8_000
