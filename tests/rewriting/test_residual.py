"""The program that runs instead of a frame."""

from __future__ import annotations

import builtins
import types

import pytest
import torch

from nbcompile.capture.frame import Frame
from nbcompile.options import Options
from nbcompile.rewriting.residual import residual_program
from nbcompile.tracing import tracer
from nbcompile.tracing.inputs.dynamism import Dynamism


def residual(function, **values):
    """The residual program of a function, which runs the captured graph."""
    frame = Frame(function.__code__, values, function.__globals__, vars(builtins))
    trace = tracer.trace(frame, Options(), Dynamism(False))
    return residual_program(frame, trace, None if trace.graph is None else trace.graph.module.forward)


def run(program, *arguments):
    return types.FunctionType(program.code, globals())(*arguments)


def test_what_is_shown_is_what_runs():
    """The text contains the names of the objects that are constants of the code."""

    def f(x, xs):
        xs.append(3)
        return x + 1

    program = residual(f, x=torch.ones(2), xs=[])
    xs = []
    assert torch.equal(run(program, torch.ones(2), xs), torch.full((2,), 2.0)) and xs == [3]
    assert "__compiled_fn" in program.source and "xs" in program.source
    assert any(name in program.source for name in program.kept)


def test_no_global_of_the_users_is_touched():
    """Compiled graphs and resume functions are constants of the code object, not globals."""

    def f(x):
        return x.sin()

    before = dict(globals())
    run(residual(f, x=torch.ones(2)), torch.ones(2))
    assert globals().keys() == before.keys()


def test_the_value_is_known_before_side_effects_run():
    """The returned value is read before side effects, so no effect changes it."""

    def f(x, box):
        old = box[0]
        box[0] = x + 1
        return old

    program = residual(f, x=torch.ones(2), box=[7])
    box = [7]
    assert run(program, torch.ones(2), box) == 7 and isinstance(box[0], torch.Tensor)


def test_a_break_leaves_one_thing_to_python_and_calls_what_is_left():
    """The resume function receives only the live values."""

    def f(x, unused):
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    program = residual(f, x=torch.ones(2), unused=5)
    assert len(program.resume_codes) == 1
    names = [name for name, _, _ in program.carried[0]]
    assert "y" in names and "unused" not in names


def test_a_graph_that_raises_after_side_effects_runs_as_written():
    """Side effects before the operator that fails are visible, and the program can catch the error."""

    def f(x, index, log):
        log.append("begun")
        try:
            return x[index]
        except IndexError:
            return "caught"

    program = residual(f, x=torch.ones(2), index=torch.tensor(0), log=[])
    assert program.code_as_written is not None
    log = []
    assert run(program, torch.ones(2), torch.tensor(9), log) == "caught" and log == ["begun"]


def test_signature_and_name_stay():
    """The parameters and free variables must be the same, because C replaces the frame's code."""

    def f(x, /, *rest, k=1, **more):
        return x + k

    program = residual(f, x=torch.ones(2), rest=(), k=1, more={})
    assert program.code.co_varnames[:4] == f.__code__.co_varnames[:4]
    assert program.code.co_name == "f"
    with pytest.raises(TypeError):
        types.FunctionType(program.code, globals())()
