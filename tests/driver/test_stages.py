"""The stages of the driver, each called alone, and the value that it returns."""

from __future__ import annotations

import builtins
import types

import pytest
import torch

import nbcompile
from nbcompile.capture.frame import Frame
from nbcompile.driver import stages
from nbcompile.options import Options
from nbcompile.recording.observer import FrameObserver
from nbcompile.tracing.inputs.dynamism import Dynamism


def f(x, y):
    return torch.relu(x + y)


def without_a_graph(x, y):
    y["seen"] = True
    return x


def frame_of(function, **values):
    """A call of a function with two tensors."""
    values = {"x": torch.randn(3), "y": torch.randn(3), **values}
    return Frame(function.__code__, values, globals(), vars(builtins))


class Log(FrameObserver):
    """An observer that lists its events."""

    def __init__(self, frame):
        super().__init__(frame, "0/0")
        self.events = []

    def traced(self, trace, attempt):
        """The trace."""
        super().traced(trace, attempt)
        self.events.append("traced")

    def guarded(self, options, check, trace):
        """The check."""
        self.events.append("guarded")

    def rewritten(self, trace, residual):
        """The residual program."""
        super().rewritten(trace, residual)
        self.events.append("rewritten")


def test_each_stage_returns_a_value():
    """The stages return a trace, a callable, a check and a residual program, the parts of the compiled frame."""
    frame, options = frame_of(f), Options(backend="eager")
    observer = Log(frame)
    trace = stages.capture(frame, options, Dynamism(False), observer)
    compiled = stages.compile_graph(trace, frame, options, observer)
    x, y = frame.locals["x"], frame.locals["y"]
    assert torch.equal(compiled.function(x, y)[0], f(x, y))
    guards, check = stages.build_check(frame, options, trace, observer)
    assert guards == trace.guards() and check.holds(frame.scope())
    assert not check.holds(frame_of(f, x=torch.randn(3, dtype=torch.float64)).scope())
    residual = stages.build_residual(frame, trace, compiled, observer)
    assert torch.equal(types.FunctionType(residual.code, globals())(x, y), f(x, y))
    assert observer.events == ["traced", "guarded", "rewritten"]


def test_a_frame_without_a_graph_has_no_graph_function():
    """The backend is not called."""

    def no_backend(module, inputs):
        raise AssertionError

    frame, options = frame_of(without_a_graph, y={}), Options(backend=no_backend)
    observer = Log(frame)
    trace, compiled = stages.capture_and_compile(frame, options, observer)
    assert trace.graph is None and compiled.function is None


def test_a_backend_that_wants_floats_as_constants_gets_another_trace(monkeypatch):
    """The frame is traced once more without symbolic floats, and torch's list of them is emptied."""
    asked = []

    def backend(module, inputs):
        asked.append(module)
        if len(asked) == 1:
            raise ValueError("a float")
        return module.forward

    names = {"a float"}
    monkeypatch.setattr(stages.torch_internals, "floats_to_be_constant", lambda error: names)
    frame = frame_of(f)
    observer = Log(frame)
    trace, compiled = stages.capture_and_compile(frame, Options(backend=backend), observer)
    assert observer.events == ["traced", "traced"] and len(asked) == 2
    assert compiled.function is not None and trace.graph.module is asked[1]
    assert names == set()


@pytest.mark.usefixtures("nothing_compiled")
def test_hooks_on_saved_tensors_see_no_fake_tensors():
    """A program's hook is called as often in the first call, which compiles, as in the next one."""

    def program(x, w):
        return (x @ w).sin() * x

    compiled = nbcompile.compile(program)
    x, w = (torch.ones(3, 3, requires_grad=True) for _ in range(2))
    seen = []

    def pack(tensor):
        seen.append(type(tensor))
        return tensor

    for _ in range(2):
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
            compiled(x, w)
        seen.append("a call")
    middle = len(seen) // 2
    assert seen[:middle] == seen[middle:] and middle > 1
    assert torch.Tensor in seen
