"""Beginners' mistakes: one picture that explains, one traceback of the user's frames, an empty stderr."""

from __future__ import annotations

import pytest

from nbcompile import api
from nbcompile.record import codec
from nbcompile.views import text
from tests.jupyter import mistakes


@pytest.fixture
def explained(run, shell):
    """Run the cell of a mistake."""

    def explained(mistake):
        api.reset()
        run(mistakes.SETUP.partition("\n")[2])
        return run(f"%%compile -o seen\n{mistake.cell}")

    return explained


@pytest.mark.parametrize("mistake", mistakes.MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_is_explained(explained, shell, mistake):
    """The exception is eager's; the first screen has line, carets, operator, types and advice."""
    ran = explained(mistake)
    error = type(ran.error).__name__
    assert error in mistake.error.split()
    assert "nbcompile/" not in ran.out.replace("nbcompile: ", "")
    assert ran.err == ""
    assert mistake.line in ran.out
    (picture,) = ran.pictures
    summary = picture["text/plain"].split("\n\n")[0].split("\n")
    line = next(index for index, each in enumerate(summary) if mistake.line in each)
    carets, code = summary[line + 1], summary[line]
    assert set(carets.strip()) == {"^"}
    if mistake.mark:
        marked = code[carets.index("^") : carets.rindex("^") + 1]
        assert mistake.mark in marked or marked in mistake.mark
    told = " ".join(" ".join(summary).split())
    assert f"raises {error} at line" in told
    assert str(ran.error).split("\n")[0].split()[0] in told
    assert not mistake.operator or f"{mistake.operator} is called with" in told or not mistake.arguments
    assert all(each in told for each in mistake.arguments)
    assert mistake.advice in told
    assert "cannot be drawn" not in picture["text/html"]
    record = shell.user_ns["seen"].record
    assert codec.from_json(codec.to_json(record)) == record


def test_a_recursion_without_end_is_no_wall(explained):
    """The traceback has three of a hundred calls of one line, and a sentence about the others."""
    ran = explained(mistakes.Mistake("", "def f(x):\n    return f(x + 1)\nf(torch.ones(3))", "", "", ""))
    assert isinstance(ran.error, RecursionError)
    assert ran.out.count("return f(x + 1)") <= 8
    assert "more calls like this: f at line 3]" in ran.out
    (picture,) = ran.pictures
    summary = picture["text/plain"].split("\n\n")[0]
    assert "calls itself without an end" in " ".join(summary.split())
    assert summary.count("f ran eagerly as a whole") == 1
    assert "is called with" not in summary
    assert "the last one, fails" not in picture["text/plain"], "the operator at which the limit is reached is not wrong"
    assert "were skipped for the same reason" in picture["text/html"]
    assert len(picture["text/html"].encode()) <= 60_000


def test_an_exception_after_a_compiled_function_has_no_frame_of_ours(explained):
    """The traceback of a second ``loss.backward()`` in the cell has no frame of the compiler."""
    cell = (
        "w = torch.ones(3, requires_grad=True)\ndef f(x):\n    return (w * x).sin().sum()\n"
        "loss = f(torch.ones(3))\nloss.backward()\nloss.backward()"
    )
    ran = explained(mistakes.Mistake("", cell, "", "", ""))
    assert "a second time" in str(ran.error)
    assert "nbcompile/" not in ran.out.replace("nbcompile: ", "")


def by_name(name):
    return next(each for each in mistakes.MISTAKES if each.name == name)


def test_what_was_traced_is_drawn_to_the_operator_that_fails(explained, shell):
    """A skipped frame shows its graph, source notes and, with --steps, its steps, and not as compiled."""
    explained(by_name("wrong size of a Linear"))
    seen = shell.user_ns["seen"]
    (frame,) = seen.record.frames
    assert [node.name for node in frame.unfinished.nodes if node.op == "call_function"] == [
        "linear",
        "relu",
        "linear_1",
    ]
    assert frame.failed.node == frame.unfinished.nodes[-1].id
    assert frame.graph is None
    shown = text.render(seen.record)
    assert "traced, not compiled: linear, relu" in shown
    assert "linear, the last one, fails" in " ".join(shown.split())
    assert "No operator" not in shown


def test_a_skipped_frame_keeps_its_steps(run, shell):
    """A skipped frame has the stepper, which shows the failure."""
    run(mistakes.SETUP.partition("\n")[2])
    run("%%compile -o seen --steps\ndef f(x):\n    y = x.sin()\n    raise ValueError('no')\nf(torch.ones(3))")
    (frame,) = shell.user_ns["seen"].record.frames
    assert (frame.status, [each.opcode for each in frame.steps][-1]) == ("skipped", "RAISE_VARARGS")
    assert any("sin" in node for step in frame.steps for node in step.nodes)


def test_what_raises_nothing_is_no_mistake(run, shell):
    """A cell without an error, with a caught exception, or rejected by the compiler, is no mistake."""
    run(mistakes.SETUP.partition("\n")[2])
    cells = (
        "%%compile -o seen\ndef f(x): return x.sin()\nf(torch.ones(3))",
        "%%compile -o seen\ndef f(x):\n    try:\n        return x[7]\n    except IndexError:\n        return x\nf(torch.ones(3))",
        "%%compile -o seen --fullgraph\ndef f(x):\n    print(x)\n    return x\nf(torch.ones(3))",
    )
    for cell in cells:
        ran = run(cell)
        assert " raises " not in ran.pictures[0]["text/plain"].split("\n\n")[0]


def test_an_operator_whose_error_is_caught(run):
    """The result is eager mode's, and the reason for the skip is in plain words."""
    api.reset()
    run(mistakes.SETUP.partition("\n")[2])
    ran = run(mistakes.ODD_CELLS["an error that is caught"])
    assert ran.error is None
    assert ran.value.tolist() == [1.0, 1.0, 1.0]
    said = " ".join(ran.pictures[0]["text/plain"].split("\n\n")[0].split())
    assert "f ran eagerly as a whole: an operator fails while it is traced, and Python runs it (line 4)." in said
