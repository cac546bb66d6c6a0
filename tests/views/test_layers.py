"""Five linked layers of one compiled program: source, bytecode, graph, loop IR, generated code."""

from __future__ import annotations

import pytest
import torch

import nbcompile
from nbcompile.record import links
from nbcompile.views import annotated_source, html


def helper(t, k):
    return (t * k).relu()


def f(x, y):
    a = torch.sin(x) * 2 + helper(y, 3)
    b = a.softmax(-1)
    return b.sum(0), a.mean()


@pytest.fixture(scope="module")
def record():
    torch._dynamo.reset()
    return nbcompile.explain(f)(torch.randn(8, 16), torch.randn(8, 16)).record


@pytest.fixture(scope="module")
def layers(record):
    """For each operator of the captured graph, its elements in the other layers."""
    (frame,) = record.frames
    found = links.frame_links(frame)
    text = frame.source.split("\n")
    kernels = [kernel for kernel in frame.compiled_graph.kernels if kernel.source]
    return {
        node.id: {
            "source": {
                text[line - frame.first_line][span.begin : span.end]
                for line, spans in found.spans.items()
                for span in spans
                if node.id in span.nodes
            },
            "bytecode": {offset for offset, nodes in found.by_instruction.items() if node.id in nodes},
            "ir": {each.name for each in frame.compiled_graph.buffers if node.id in found.captured(each.id)},
            "kernels": {
                (kernel.name, line.line)
                for kernel in kernels
                for line in kernel.lines
                if node.id in found.captured(*line.nodes)
            },
        }
        for node in links.operators(frame.graph)
    }


def test_every_operator_is_found_in_every_layer(record, layers):
    """Each operator has an expression, an instruction, loop IR and kernel lines; an inlined one has the call's."""
    (frame,) = record.frames
    names = {node.id: node.name for node in frame.graph.nodes}
    source = {names[node]: found["source"] for node, found in layers.items()}
    assert source == {
        "sin": {"torch.sin(x)"}, "mul": {"torch.sin(x) * 2"},
        "mul_1": {"helper(y, 3)"}, "relu": {"helper(y, 3)"}, "add": {"torch.sin(x) * 2 + helper(y, 3)"},
        "softmax": {"a.softmax(-1)"}, "sum_1": {"b.sum(0)"}, "mean": {"a.mean()"},
    }  # fmt: skip
    opcodes = {each.offset: each.opcode for each in frame.instructions}
    assert all(len(found["bytecode"]) == 1 for found in layers.values())
    assert {opcodes[offset] for found in layers.values() for offset in found["bytecode"]} == {"CALL", "BINARY_OP"}
    assert all(found["ir"] and found["kernels"] for found in layers.values())


def test_lines_of_kernels_lead_to_the_source(record):
    """95 of 100 kernel lines lead, by way of ATen, to a source line of the same operators."""
    (frame,) = record.frames
    found = links.frame_links(frame)
    lines = [line for kernel in frame.compiled_graph.kernels for line in kernel.lines]
    led = [line for line in lines if found.captured(*line.nodes)]
    assert len(led) >= 0.95 * len(lines)
    operators = {node.id for node in links.operators(frame.graph)}
    for line in led:
        captured = found.captured(*line.nodes)
        if operators & set(captured):
            assert found.lines(*line.nodes) or found.lines(*captured)


SELECT = """
([id, layer]) => {
  const root = document.querySelector(".nbc"), all = (at, what) => [...at.querySelectorAll(what)];
  all(root, "details").forEach(each => each.open = true);
  const pane = root.querySelector({ graph: "svg", kernels: "[data-s=kernels]" }[layer]);
  const node = all(pane, "[data-n]").find(each => each.dataset.n === id);
  node.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  const numbers = text => Number(/^ *(?:\\d+ +)?(\\d+) [A-Z]/.exec(text)[1]);
  const lit = {
    source: all(root, ".n-src code > span > span > .n-on").map(each => each.textContent).join("|"),
    bytecode: all(root, "[data-s=bytecode] .n-on").map(each => numbers(each.textContent)),
    ir: all(root, ".n-ir .n-on").map(each => each.cells[0].textContent),
    kernels: all(root, "[data-s=kernels] details:not(.n-ir) > .n-code").flatMap(code =>
      [...code.querySelectorAll(".n-on")].flatMap(each => linesOf(code, each).map(line =>
        [code.parentElement.querySelector("b").textContent, line]))),
    status: root.querySelector("[role=status]").textContent,
    current: all(root, "[aria-current]").length === all(root, ".n-on").length,
  };
  function linesOf(code, each) {
    const range = document.createRange();
    range.setStart(code, 0);
    range.setEndBefore(each);
    const first = range.toString().split("\\n").length;
    return each.textContent.trimEnd().split("\\n").map((_, index) => first + index);
  }
  node.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  lit.after = all(root, ".n-on").length;
  return lit;
}
"""


@pytest.mark.browser
def test_selecting_in_one_layer_lights_the_others(record, layers, browser_page):
    """Selecting an operator lights up the elements of the record's links; selecting it again clears them."""
    page = browser_page(html.render(record))
    for node, wanted in layers.items():
        lit = page.evaluate(SELECT, [node.rpartition(".")[2], "graph"])
        assert set(lit["bytecode"]) == wanted["bytecode"]
        assert set(lit["ir"]) == wanted["ir"]
        assert {tuple(each) for each in lit["kernels"]} == wanted["kernels"]
        pieces = lit["source"].replace("|", "")
        assert {pieces} == wanted["source"], "the pieces of an expression are the expression"
        assert lit["current"]
        assert "1 source line · 1 instruction · 1 graph node · " in lit["status"]
        assert lit["after"] == 0


KEYS = """
() => {
  const root = document.querySelector(".nbc"), seen = [];
  const press = key => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  const look = () => seen.push(document.activeElement.textContent.replace(/^\\s*\\d* */, "").trim().slice(0, 13));
  root.querySelector('.n-src [tabindex="0"]').focus();
  look();
  for (const key of ["ArrowRight", "ArrowRight", "ArrowDown", "ArrowRight", "ArrowUp", "ArrowRight"]) {
    press(key);
    look();
  }
  press("Enter");
  seen.push([...root.querySelectorAll("svg .n-on text:first-of-type")].map(each => each.textContent).join());
  press("Escape");
  return [...seen, root.querySelectorAll(".n-on").length];
}
"""


@pytest.mark.browser
def test_keys_go_into_a_line_and_on_to_the_next(record, browser_page):
    """Up and down go from line to line, right goes into a line; Enter selects the innermost element, Escape clears."""
    seen = browser_page(html.render(record)).evaluate(KEYS)
    first, second = "a = torch.sin", "b = a.softmax"
    assert seen == [first, "torch.sin(x)", "* 2", second, "a.softmax(-1)", first, "torch.sin(x)", "sin", 0]


def broken(x):
    y = x.sin()
    torch._dynamo.graph_break()
    return y.cos()


def test_a_resume_function_is_shown_at_the_lines_of_the_users_function():
    """A resume function has the source of the whole function; each frame refers to the other's lines."""
    record = nbcompile.explain(broken, backend="eager")(torch.ones(2)).record
    first, rest = record.frames
    assert rest.resumes == first.id
    assert (rest.source, rest.first_line) == (first.source, broken.__code__.co_firstlineno)
    told = [
        {
            line.code.strip(): [note.text for note in line.notes if note.kind in ("operators", "later")]
            for line in annotated_source.source_lines(record, frame, links.frame_links(frame))
        }
        for frame in record.frames
    ]
    assert told[0]["y = x.sin()"] == ["sin"]
    assert told[0]["return y.cos()"] == [f"cos in {rest.id}"]
    assert told[1]["return y.cos()"] == ["cos"]
