"""Compiled functions and modules under torch.jit.trace, torch.fx, torch.export and torch.compile."""

from __future__ import annotations

import functools

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import nbcompile
from nbcompile import errors
from nbcompile.eval_frame import other_tracers

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
X = torch.arange(6.0).reshape(3, 2) - 2


class Outer(torch.nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x) + 1


def _function():
    return nbcompile.compile(lambda x: x.relu() * x.size(0), backend="eager")


def _module():
    torch.manual_seed(0)
    return nbcompile.compile(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU()), backend="eager")


def _in_place():
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    module.forward = nbcompile.compile(module.forward, backend="eager")
    return module


CALLABLES = (_function, _module, _in_place)
ERROR = {
    "jit.trace": lambda f: torch.jit.trace(f, X),
    "jit.trace, inside": lambda f: torch.jit.trace(Outer(f), X),
    "fx, inside": lambda f: torch.fx.symbolic_trace(Outer(f)),
}
WORKS = {
    "export": lambda f: torch.export.export(Outer(f), (X,), strict=False).module()(X),
    "make_fx": lambda f: make_fx(f)(X)(X) + 1,
    "make_fx, symbolic": lambda f: make_fx(f, tracing_mode="symbolic", _allow_non_fake_inputs=True)(X)(X) + 1,
    "make_fx, fake": lambda f: make_fx(f, tracing_mode="fake", _allow_non_fake_inputs=True)(X)(X) + 1,
    "linearize": lambda f: torch.func.linearize(Outer(f), X)[0],
    "compile": lambda f: torch.compile(Outer(f), backend="eager", fullgraph=True)(X),
}


@pytest.fixture(params=CALLABLES)
def compiled(request):
    return request.param()


@pytest.fixture(params=["first call", "later call"])
def called(request, compiled):
    """A compiled callable, which may have run before."""
    for _ in range(4 * (request.param == "later call")):
        compiled(X)
    return compiled


@pytest.mark.parametrize("tracer", ERROR)
def test_a_tracer_that_sees_no_operators_gets_an_error(called, tracer):
    """torch.jit.trace and torch.fx raise for a compiled callable, as for one of torch.compile; calls work after it."""
    expected = called(X)
    with pytest.raises(errors.NestedTrace, match=r"Detected that you are using FX to .* a dynamo-optimized function"):
        ERROR[tracer](called)
    assert torch.equal(called(X), expected)


@pytest.mark.peer
@pytest.mark.parametrize("tracer", ERROR)
def test_torch_raises_too(tracer):
    """The same calls raise for a function of torch.compile."""
    with pytest.raises(RuntimeError, match="Detected that you are using FX to"):
        ERROR[tracer](torch.compile(torch.relu, backend="eager"))


@pytest.mark.peer
@pytest.mark.parametrize("tracer", WORKS)
def test_a_tracer_of_frames_sees_the_original(called, tracer):
    """torch.export, make_fx and torch.compile trace the original function, in one graph."""
    expected = called(X)
    assert torch.equal(WORKS[tracer](called), expected + 1)


@pytest.mark.peer
@pytest.mark.parametrize("create", [_function, _module])
def test_torch_compiles_the_original(create):
    """torch.compile of a compiled callable compiles what is inside, also after calls of it."""
    compiled = create()
    for _ in range(4):
        expected = compiled(X)
        assert torch.equal(torch.compile(compiled, backend="eager", fullgraph=True)(X), expected)


@pytest.mark.peer
def test_torch_compiles_what_wraps_a_compiled_function():
    """A function that functools.wraps made look like a compiled one is traced itself."""
    inner = _function()

    @functools.wraps(inner)
    def twice(x):
        return 2 * inner(x)

    expected = twice(X)
    for _ in range(4):
        assert torch.equal(torch.compile(twice, backend="eager", fullgraph=True)(X), expected)


def _compiled_forward(method):
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
    setattr(module, method, nbcompile.compile(getattr(module, method)))
    return module


def _compiled_class():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(2, 2)

        @nbcompile.compile
        def forward(self, x):
            return self.linear(x).relu()

    return Net()


@pytest.mark.peer
@pytest.mark.parametrize("nested_first", [False, True])
@pytest.mark.parametrize("create", [functools.partial(_compiled_forward, "forward"), _compiled_class])
def test_torch_compiles_a_module_whose_forward_is_compiled(create, nested_first):
    """torch.compile of a module gets the frame of a forward that was compiled here, also after calls of it."""
    module, graphs = create(), []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    for calls in range(4):
        if nested_first:  # a frame of ours calls it, so our hook has seen the wrapper
            nbcompile.compile(lambda x: (torch._dynamo.graph_break(), module(x))[1])(X)
        expected = module(X)
        torch._dynamo.reset()
        assert torch.equal(torch.compile(module, backend=backend, fullgraph=True)(X), expected)
        assert len(graphs) == calls + 1


@pytest.mark.peer
def test_torch_compiles_a_compiled_function_behind_a_break():
    """A compiled function that is called behind a graph break of torch.compile's is compiled by torch."""
    inner, graphs = _function(), []

    def backend(graph, inputs):
        graphs.append(graph)
        return graph.forward

    def outer(x):
        torch._dynamo.graph_break()
        return inner(x) + 1

    for _ in range(4):
        assert torch.equal(inner(X) + 1, outer(X))
    torch._dynamo.reset()
    for _ in range(3):
        assert torch.equal(torch.compile(outer, backend=backend)(X), inner(X) + 1)
    assert len(graphs) == 1


def test_a_setting_excludes_the_error(called):
    """With error_on_nested_fx_trace False, torch.fx traces the function as written."""
    with nbcompile.config.patch(error_on_nested_fx_trace=False):
        traced = torch.fx.symbolic_trace(Outer(called))
    assert torch.equal(traced(X), Outer(called)(X))


def test_a_function_of_a_cell_is_traced_as_written():
    """The attribute that the magic sets excludes the error of every tracer."""
    compiled = _function()
    setattr(compiled, other_tracers.AS_WRITTEN, True)
    for _ in range(4):
        expected = Outer(compiled)(X)
        assert torch.equal(torch.jit.trace(Outer(compiled), X)(X), expected)
        assert torch.equal(torch.fx.symbolic_trace(Outer(compiled))(X), expected)
        assert torch.equal(make_fx(compiled)(X)(X) + 1, expected)
