"""Backends by name, their errors, and the arguments of a user's backend."""

from __future__ import annotations

import functools
import importlib.metadata
import warnings

import pytest
import torch
from torch._guards import TracingContext

import nbcompile
from nbcompile import backends, errors
from nbcompile.backends import registry
from tests.support.captured import capture, compiled


def counting(module, examples):
    """A user's backend that counts its calls."""
    counting.calls += 1
    return module.forward


counting.calls = 0


@pytest.fixture
def square():
    return capture(lambda a: (a * a,), (torch.ones(3),))


# --- finding ---------------------------------------------------------------------------------------------------------


def test_the_ladder_is_known_by_name():
    assert {"eager", "aot_eager", "aot_eager_decomp_partition", "inductor"} <= set(backends.names())


def test_an_unknown_name_is_met_with_the_list_and_a_guess():
    with pytest.raises(errors.InvalidBackend, match="'inducto'.*Did you mean 'inductor'.*aot_eager"):
        backends.lookup("inducto")
    with pytest.raises(errors.InvalidBackend) as nothing_close:
        backends.lookup("qqq")
    assert "Did you mean" not in str(nothing_close.value)


def test_a_callable_is_a_backend(square):
    before = counting.calls
    run = compiled(square, counting)
    assert run(torch.full((3,), 2.0))[0].tolist() == [4, 4, 4]
    assert counting.calls == before + 1


def test_a_backend_can_be_registered_under_a_name(square, monkeypatch):
    """A backend can be registered under its own name or another one; a name cannot be registered twice."""
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    backends.register(counting)
    backends.register(name="under_another_name")(counting)
    assert {"counting", "under_another_name"} <= set(backends.names())
    assert compiled(square, "counting")(torch.ones(3))[0].tolist() == [1, 1, 1]
    backends.register(counting)
    with pytest.raises(ValueError, match="already"):
        backends.register(lambda module, examples: module, name="counting")


def test_backends_of_installed_packages_are_found(square, monkeypatch):
    """Backends of installed packages are found through torch.compile's entry points."""
    point = importlib.metadata.EntryPoint("from_outside", f"{__name__}:counting", registry.ENTRY_POINTS)
    monkeypatch.setattr(importlib.metadata.EntryPoint, "load", lambda self: counting)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [point])
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))
    assert "from_outside" in backends.names()
    assert compiled(square, "from_outside")(torch.ones(3))[0].tolist() == [1, 1, 1]


def test_mode_and_options_reach_a_backend_that_was_given_them(square):
    seen = {}

    def curious(module, examples, **keywords):
        seen.update(keywords)
        return module.forward

    backends.lookup(curious, mode="max-autotune", options={"a": 1})(square.module, square.inputs)
    assert seen == {"mode": "max-autotune", "options": {"a": 1}}
    seen.clear()
    backends.lookup(curious)(square.module, square.inputs)
    assert seen == {}


@pytest.mark.parametrize(
    ("backend", "name"),
    [("eager", "eager"), (counting, "counting"), (functools.partial(counting), "counting"), (torch.nn.ReLU(), "ReLU")],
    ids=["a name", "a function", "a partial", "an object"],
)
def test_how_a_backend_is_called(backend, name):
    assert backends.backend_name(backend) == name


# --- failing ---------------------------------------------------------------------------------------------------------


def test_a_backend_that_raises(square):
    def broken(module, examples):
        raise ValueError("no such operator")

    with pytest.raises(errors.BackendCompilerFailed) as failure:
        compiled(square, broken)
    assert str(failure.value) == "backend='broken' raised:\nValueError: no such operator"
    assert isinstance(failure.value.inner_exception, ValueError)
    assert failure.value.__cause__ is failure.value.inner_exception


@pytest.mark.parametrize("result", [None, 3, "text"])
def test_a_backend_that_returns_nothing_callable(square, result):
    with pytest.raises(errors.BackendCompilerFailed, match="backend='<lambda>' raised:\nTypeError"):
        compiled(square, lambda module, examples: result)


def test_an_interrupt_is_no_failure_of_the_backend(square):
    def interrupted(module, examples):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compiled(square, interrupted)


def test_a_graph_that_returns_no_tuple_is_rejected():
    graph = torch.fx.Graph()
    graph.output(graph.placeholder("x"))
    with pytest.raises(errors.BackendCompilerFailed, match="returns a tuple"):
        backends.lookup("aot_eager")(torch.fx.GraphModule({}, graph), [torch.ones(3)])


def test_an_option_that_does_not_exist(square):
    with pytest.raises(errors.BackendCompilerFailed, match="'verfy'.*Did you mean 'verify'"):
        backends.lookup("inductor", options={"verfy": True})(square.module, square.inputs)


# --- users' backends ----------


def test_a_user_backend_may_ask_for_the_context():
    """In a user's backend, ``TracingContext.get()`` has the fake mode of the graph's inputs; later there is none."""
    modes = []

    def backend(graph_module, example_inputs):
        modes.append(TracingContext.get().fake_mode)
        return graph_module.forward

    nbcompile.compile(lambda x: x + 1, backend=backend)(torch.ones(3))
    assert modes[0] is not None
    assert TracingContext.try_get() is None


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_user_backend_may_hand_its_graph_to_the_compiler(dynamic):
    """A user's backend may pass its graph to our compiler: AOTAutograd uses the fake mode of the inputs."""

    def backend(graph_module, example_inputs):
        return backends.inductor(graph_module, example_inputs)

    compiled = nbcompile.compile(lambda x, y: torch.cat([x, y]) * 2, backend=backend, dynamic=dynamic)
    for size in (3, 5):
        x, y = torch.randn(size), torch.randn(size + 1)
        assert torch.equal(compiled(x, y), torch.cat([x, y]) * 2)


def test_a_result_that_cannot_be_called_is_an_error():
    """The error names the value that the backend returned."""
    with pytest.raises(errors.BackendCompilerFailed, match="returned 7"):
        nbcompile.compile(lambda x: x + 1, backend=lambda *_: 7)(torch.ones(3))


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_backend_finds_the_context_of_the_trace(dynamic):
    """A backend may read torch's TracingContext, whose fake mode is the graph's, and pass the graph on to ours."""
    found = []

    def backend(module, inputs):
        context = torch._guards.TracingContext.get()
        (placeholder, *_) = (node.meta["example_value"] for node in module.graph.find_nodes(op="placeholder"))
        found.append(getattr(placeholder, "fake_mode", context.fake_mode) is context.fake_mode)
        return backends.inductor(module, inputs)

    compiled = nbcompile.compile(lambda x: (x.sin() * x.shape[0]).sum(), backend=backend, dynamic=dynamic)
    with warnings.catch_warnings():
        warnings.simplefilter("error", errors.GeneratedCodeWarning)  # a graph that our compiler cannot compile
        for size in (3, 4):
            x = torch.ones(size, requires_grad=True)
            compiled(x).backward()
            assert torch.allclose(x.grad, x.detach().cos() * size)
    assert found and all(found)
    assert torch._guards.TracingContext.try_get() is None


def test_a_backend_that_leaves_another_grad_mode_changes_nothing():
    """A backend that changes the grad mode does not change the caller's: the guards hold at the next call."""

    def leaving(module, examples):
        torch._C._set_grad_enabled(False)
        return module.forward

    compiled = nbcompile.compile(lambda x: x * 2, backend=leaving)
    x = torch.ones(2, requires_grad=True)
    assert compiled(x).requires_grad and torch.is_grad_enabled()


def test_a_backend_without_a_module():
    """A function that ``exec`` defines in a namespace without a name has the module None, and may be a backend."""
    namespace: dict = {}
    exec("def backend(graph_module, example_inputs): return graph_module.forward", namespace)
    assert namespace["backend"].__module__ is None
    x = torch.ones(2)
    assert torch.equal(nbcompile.compile(lambda x: x + 1, backend=namespace["backend"])(x), x + 1)
