"""Tests for nbcompile.observe.torch_logs: breaks, recompilations and side effects in torch's own logs."""

from __future__ import annotations

import contextlib
import logging
import re
import warnings
import zlib

import pytest
import torch

import nbcompile
from nbcompile.errors import GraphBreakWarning
from nbcompile.observe import torch_logs


@contextlib.contextmanager
def listening(**artifacts):
    """The messages in the block, with the logs enabled as users do."""
    said = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    ours = logging.getLogger("nbcompile")
    nbcompile.set_logs(**artifacts)
    ours.handlers, prior = [handler], ours.handlers
    try:
        yield said
    finally:
        ours.handlers = prior
        nbcompile.set_logs()


def compiled(function, **options):
    nbcompile.reset()
    return nbcompile.compile(function, backend="eager", **options)


def inner(x):
    y = x + 1
    nbcompile.graph_break()
    return y


def outer(x):
    return (x * 2) + inner(
        x,
    )


def test_a_break_has_line_reason_operands_and_stack():
    """The order is: innermost line, reason, report, operand stack, user stack."""
    with listening(graph_breaks=True) as said:
        compiled(outer)(torch.ones(2))
    first = said[0].splitlines()
    assert re.fullmatch(rf"Graph break in user code at {re.escape(__file__)}:\d+", first[0])
    assert first[0].endswith(f":{inner.__code__.co_firstlineno + 2}")
    assert first[1] == (
        "Graph Break Reason: Encountered graph break when attempting to trace CALL: a function call, e.g. f(x, y):"
    )
    assert first[3:5] == [
        "Call to `torch._dynamo.graph_break()`",
        "  Explanation: User-inserted graph break. Message: None",
    ]
    begin = first.index("Stack variable source attribution:")
    line = outer.__code__.co_firstlineno + 1
    assert first[begin + 1 : begin + 5] == [
        "  TensorVariable() originated from:",
        f'  File "{__file__}", line {line}',
        "    return (x * 2) + inner(",
        "            ^^^^^",
    ]
    stack = first[first.index("User code traceback:") :]
    assert [name for each in stack for name in re.findall(r", in (\w+)$", each)][-3:] == [
        "test_a_break_has_line_reason_operands_and_stack", "outer", "inner",
    ]  # fmt: skip
    assert not any("nbcompile/" in each for each in stack if "tests" not in each)


def test_a_repeated_break_is_logged_in_short():
    """A repeated break has no user stack; after a reset it is reported in full again."""
    with listening(graph_breaks=True) as said:
        compiled(outer)(torch.ones(2))
        compiled(outer)(torch.ones(2))
    assert len(said) == 4
    assert said[1].startswith("Graph break (user stack suppressed due to duplicate graph break) in user code at ")
    assert "Graph Break Reason: Encountered" in said[1]
    assert "User code traceback" not in said[1]
    assert "User code traceback" in said[2]


def in_loop(x):
    for _ in range(2):
        x = x + 1
        nbcompile.graph_break()
    return x


def test_a_skip_has_both_reasons():
    """If a frame with a break cannot be resumed, the function is skipped, with both reports."""
    with listening(graph_breaks=True) as said:
        compiled(in_loop)(torch.ones(2))
    (text,) = said
    assert "Failed to handle graph break gracefully. Skipping the function and falling back to eager." in text
    first, second = text.split("*** While handling this graph break, another graph break occurred: ***")
    assert "Call to `torch._dynamo.graph_break()`" in first
    assert second.strip().startswith("graph break in loop")


def in_try(x):
    x = x + 1
    x = x * 2
    try:
        nbcompile.graph_break()
    except ValueError:
        pass
    return x


def test_a_partial_compile_logs_where_it_stops():
    """If a frame cannot resume, the part before is compiled, and the prefix says so."""
    with listening(graph_breaks=True) as said:
        compiled(in_try)(torch.ones(2))
    assert "Encountered graph break that we cannot resume from. Compiling up to the previous resumable state" in said[0]


def twice(x):
    nbcompile.graph_break()
    x = x + 1
    return torch.sin(x) if x.sum() > 0 else x


def test_resume_functions_are_one_line_of_the_traceback():
    """A function and its resume functions are one entry, by the function's name; a jump has no prefix."""
    with listening(graph_breaks=True) as said:
        compiled(twice)(torch.ones(2))
    jump = said[1]
    assert "\nGraph Break Reason: Data-dependent branching\n" in jump
    assert re.findall(r", in (\w+)\n", jump).count("twice") == 1
    assert "torch_dynamo_resume" not in jump


def test_verbose_shows_the_compilers_view():
    """With config.verbose the message has the start of the attempt, and the last traced instructions."""
    with nbcompile.config.patch(verbose=True), listening(graph_breaks=True) as said:
        compiled(outer)(torch.ones(2))
    assert "tracing attempt started here" in said[0]
    assert re.search(r"inner:\d+  CALL", said[0])


def test_nothing_is_said_unasked():
    """Without set_logs nothing is written."""
    said = []
    handler = logging.Handler()
    handler.emit = said.append
    torch_logs.GRAPH_BREAKS.addHandler(handler)
    try:
        compiled(outer)(torch.ones(2))
    finally:
        torch_logs.GRAPH_BREAKS.removeHandler(handler)
    assert said == []


def test_recompilations():
    """Each recompile has the function, its line and the failed guard."""
    f = compiled(lambda x: x + 1)
    with listening(recompiles=True) as said:
        f(torch.ones(2))
        f(torch.ones(3))
    (text,) = said
    assert text.startswith("Recompiling function <lambda> in ")
    assert "    - 0/0: tensor 'x' size mismatch at index 0. expected 2, actual 3" in text


def append(x, xs):
    xs.append(1)
    return x + 1


def test_side_effects_by_policy():
    """Replayed side effects are logged, silent, warned of, or rejected, by policy."""
    with listening(side_effects=True) as said:
        compiled(append)(torch.ones(2), [])
    assert "xs" in said[0]
    assert "xs.append(1)" in said[0]
    with listening(side_effects=True) as said, nbcompile.config.patch(side_effect_replay_policy="silent"):
        compiled(append)(torch.ones(2), [])
    assert said == []
    with nbcompile.config.patch(side_effect_replay_policy="warn"), pytest.warns(UserWarning, match="xs"):
        compiled(append)(torch.ones(2), [])
    with (
        nbcompile.config.patch(side_effect_replay_policy="error"),
        pytest.raises(nbcompile.exc.ReplayedSideEffects, match="xs"),
    ):
        compiled(append)(torch.ones(2), [])


def test_breaks_that_most_people_miss_are_warned_of_once(monkeypatch):
    """A C function and .item() warn once, with hints and line."""
    monkeypatch.setattr(torch_logs, "_warned", set())
    for function, words in (
        (lambda x: x + zlib.crc32(b"a"), ("zlib.crc32", "allow_in_graph")),
        (lambda x: x + x.sum().item(), ("Tensor.item()", "TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS=1")),
    ):
        with pytest.warns(GraphBreakWarning) as warned:
            compiled(function)(torch.ones(2))
        (text,) = [str(each.message) for each in warned if each.category is GraphBreakWarning]
        assert all(word in text for word in words)
        assert __file__ in text
        with warnings.catch_warnings():
            warnings.simplefilter("error", GraphBreakWarning)
            compiled(function)(torch.ones(2))
