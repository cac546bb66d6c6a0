"""The callee of an instruction, as the user wrote it, for the message about a graph break."""

from __future__ import annotations

import contextlib

import pytest
import torch

import nbcompile
from nbcompile import api
from nbcompile.tracing.frame.callees import callee
from nbcompile.tracing.frame.translator import code_view

lock = contextlib.nullcontext()


def of_one_line(x):
    return torch.save(x, "file")


def of_a_keyword(x):
    return print(x, sep="")


def of_many(x, *arguments):
    return x.add(*arguments)


def over_lines(x):
    return torch.nn.functional.linear(
        x,
        x,
    )


def chained(x):
    return x.sum().item()


def chained_over_lines(x):
    return (
        x.sum()
        .item()
    )  # fmt: skip


def of_a_result(x):
    return torch.nn.Linear(3, 3)(x)


def of_letters_of_several_bytes(x):
    return "ÄÖÜ" + str(x)


def of_none(x):
    return print(None)


def with_statement(x):
    with lock:
        return x


def with_a_call(x):
    with open(x):
        pass


def of_a_class(x):
    class Local:
        pass


def of_an_index(x):
    return x[x > 0]


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (of_one_line, ["torch.save"]),
        (of_a_keyword, ["print"]),
        (of_many, ["x.add"]),
        (over_lines, ["torch.nn.functional.linear"]),
        (chained, ["x.sum", "x.sum().item"]),
        (of_a_result, ["torch.nn.Linear", "torch.nn.Linear(3, 3)"]),
        (of_letters_of_several_bytes, ["str"]),
        (of_none, ["print"]),
        (with_statement, []),
        (with_a_call, ["open"]),
        (of_a_class, []),
        (of_an_index, []),
    ],
)
def test_the_callee_is_that_of_the_source(function, names):
    """The callee is the text of the source; a call that a statement makes implicitly has no name."""
    assert called(function) == names


def called(function) -> list[str]:
    instructions = code_view(function.__code__).instructions
    found = (callee(function.__code__, instructions, each) for each in instructions)
    return list(dict.fromkeys(filter(None, found)))


def test_a_chain_of_methods_over_lines_names_the_last():
    """From Python 3.12 on, the position of a method call over several lines begins at the method's name."""
    assert called(chained_over_lines)[-1] in ("x.sum().item", "item")


def test_without_source_there_is_no_name():
    """Code without a source file has no names of callees."""
    names: dict[str, object] = {}
    exec(compile("def f(x):\n    return str(x)\n", "<nowhere>", "exec"), names)
    assert called(names["f"]) == []


def inner(x):
    return x + torch.serialization.load(x)


def outer(x):
    return inner(x * 2) + 1


def in_a_loop(x):
    for _ in range(2):
        x = x + 1
        nbcompile.graph_break()
    return x


@pytest.mark.parametrize(
    ("function", "name"), [(outer, "torch.serialization.load"), (in_a_loop, "nbcompile.graph_break")]
)
def test_a_break_records_the_innermost_call(function, name):
    """The record names the innermost call of the line that breaks, also in an inlined function and in a loop."""
    nbcompile.reset()
    recorder = api.new_recorder(function.__name__)
    with recorder.listening(), contextlib.suppress(Exception):
        nbcompile.compile(function, backend="eager")(torch.ones(3))
    found = [each for frame in recorder.record().frames for each in frame.breaks]
    assert found
    assert {each.callee for each in found} == {name}
