"""Backends: found by name, their failures told as such, what our own does told to the record."""

from __future__ import annotations

import functools
import importlib.metadata
import warnings

import pytest
import torch

import nbcompile
from nbcompile import backend_registry, backends, config, errors
from nbcompile.record import recorder
from nbcompile.recording import graph_record
from tests.aot.capturing import capture, compiled


def counting(module, examples):
    """A backend as users write it."""
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
    """Under its own name or another one; a name is not taken twice."""
    monkeypatch.setattr(backend_registry, "_registered", dict(backend_registry._registered))
    backends.register(counting)
    backends.register(name="under_another_name")(counting)
    assert {"counting", "under_another_name"} <= set(backends.names())
    assert compiled(square, "counting")(torch.ones(3))[0].tolist() == [1, 1, 1]
    backends.register(counting)
    with pytest.raises(ValueError, match="already"):
        backends.register(lambda module, examples: module, name="counting")


def test_backends_of_installed_packages_are_found(square, monkeypatch):
    """Through the entry points that torch.compile reads too."""
    point = importlib.metadata.EntryPoint("from_outside", f"{__name__}:counting", backend_registry.ENTRY_POINTS)
    monkeypatch.setattr(importlib.metadata.EntryPoint, "load", lambda self: counting)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [point])
    monkeypatch.setattr(backend_registry, "_registered", dict(backend_registry._registered))
    assert "from_outside" in backends.names()
    assert compiled(square, "from_outside")(torch.ones(3))[0].tolist() == [1, 1, 1]


def test_a_mode_or_an_option_that_does_not_exist_is_an_error_at_once():
    with pytest.raises(errors.InvalidMode, match="'fastest'.*max-autotune"):
        nbcompile.compile(torch.sin, mode="fastest")
    with pytest.raises(errors.InvalidBackendOption, match="Did you mean 'verify'"):
        nbcompile.compile(torch.sin, options={"verfy": True})


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


def test_a_graph_that_returns_no_tuple_is_refused():
    graph = torch.fx.Graph()
    graph.output(graph.placeholder("x"))
    with pytest.raises(errors.BackendCompilerFailed, match="returns a tuple"):
        backends.lookup("aot_eager")(torch.fx.GraphModule({}, graph), [torch.ones(3)])


def test_an_option_that_does_not_exist(square):
    with pytest.raises(errors.BackendCompilerFailed, match="'verfy'.*Did you mean 'verify'"):
        backends.lookup("inductor", options={"verfy": True})(square.module, square.inputs)


# --- our own backend -------------------------------------------------------------------------------------------------


def test_verification_accepts_what_is_right():
    """Random numbers included, forward and backward."""
    x = torch.randn(4, 4, requires_grad=True)
    captured = capture(lambda a: (torch.nn.functional.dropout(a, 0.5) + torch.rand_like(a),), (x,))
    run = backends.lookup("inductor", options={"verify": True})(captured.module, captured.inputs)
    torch.manual_seed(3)
    (result,) = run(x)
    result.sum().backward()
    torch.manual_seed(3)
    torch.testing.assert_close(result, captured.module(x)[0])


@pytest.mark.parametrize(
    "wrong",
    [lambda a: [a[0] + 1e-2], lambda a: [a[0].t()], lambda a: [a[0].double()], lambda a: []],
    ids=["value", "stride", "dtype", "number"],
)
def test_verification_refuses_what_is_wrong(wrong):
    """A wrong value, stride, dtype or number of results."""
    run = backends.verified(wrong, lambda arguments: [arguments[0]], "forward")
    with pytest.raises(errors.VerificationFailed, match="compiled forward graph differs"):
        run([torch.ones(2, 3) + torch.arange(3.0)])


def test_the_callable_under_real_torch_compile():
    """``torch.compile(f, backend="nbcompile")`` calls this function with fake or real examples."""
    captured = capture(lambda a: (a.sin() + 1,), (torch.randn(4),))
    run = backends.nbcompile(captured.module, captured.inputs)
    x = torch.randn(4)
    torch.testing.assert_close(run(x)[0], x.sin() + 1)


def dropped(x, w):
    """Something with a derivative, a reduction and random numbers."""
    return torch.nn.functional.dropout((x @ w).relu(), 0.5, True).sum(1)


def gradients_of(compiled):
    """The result and the gradients, from one seed."""
    x, w = torch.arange(12.0).view(3, 4).requires_grad_(), torch.eye(4).requires_grad_()
    torch.manual_seed(0)
    result = compiled(x, w)
    return [result, *torch.autograd.grad(result.sum(), (x, w))]


def test_real_torch_compile_finds_ours_by_name():
    """Through the entry point, with gradients, and with options."""
    expected = gradients_of(dropped)
    found = gradients_of(torch.compile(dropped, backend="nbcompile", fullgraph=True))
    torch.testing.assert_close(found, expected)
    own = torch.compile(dropped, backend="nbcompile", options={"fallback_random": False})
    result, dx, dw = gradients_of(own)
    assert result.isfinite().all()
    assert (dx.shape, dw.shape) == ((3, 4), (4, 4))


@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
def test_torchs_own_backends_under_our_front_end(backend):
    """A backend of torch.compile's takes the graph that is captured here."""
    theirs = torch._dynamo.lookup_backend(backend)

    def logistic(x, w):
        return (x @ w).sigmoid().sum(1)

    found = gradients_of(nbcompile.compile(logistic, backend=theirs, fullgraph=True))
    torch.testing.assert_close(found, gradients_of(logistic))


# --- telling the record ----------------------------------------------------------------------------------------------


def told(captured, backend):
    listener = recorder.Recorder("f")
    with listener.listening(), recorder.frame("0/0", "f"):
        compiled(captured, backend)
    return listener.record().frames[0].compiled_graph


def test_the_record_of_inference():
    """One ATen graph; every node knows the captured node and the user's line that it comes from."""
    with torch.no_grad():
        told_graph = told(capture(lambda a, w: (torch.relu(a @ w),), (torch.ones(2, 2), torch.ones(2, 2))), "aot_eager")
    assert told_graph.backend == "aot_eager"
    (graph,) = told_graph.graphs
    assert (graph.id, graph.stage) == ("0/0.inference", "inference")
    assert [node.target for node in graph.nodes[2:-1]] == ["aten.mm.default", "aten.relu.default"]
    assert [node.from_nodes for node in graph.nodes[:-1]] == [("0/0.n0",), ("0/0.n1",), ("0/0.n2",), ("0/0.n3",)]
    assert [node.stack[0].line for node in graph.nodes[2:-1]] == [2, 3]
    assert "# File: user.py:2 in f, code: matmul" in graph.code


@pytest.mark.parametrize("backend", ["aot_eager", "aot_eager_decomp_partition", "inductor"])
def test_the_record_of_training(backend):
    """Joint, forward and backward; the derivative of an operator comes from that operator."""
    x = torch.randn(3, 4, requires_grad=True)
    graphs = {each.stage: each for each in told(capture(lambda a: ((a.sin() * 2).sum(),), (x,)), backend).graphs}
    assert list(graphs) == ["joint", "forward", "backward"]
    (cosine,) = [node for node in graphs["backward"].nodes if node.target == "aten.cos.default"]
    assert cosine.id.startswith("0/0.backward.n")
    assert cosine.from_nodes == ("0/0.n1",)
    assert cosine.stack[0].code == "sin"
    for graph in graphs.values():
        named = {node.id for node in graph.nodes}
        assert all(source in named for node in graph.nodes for source in node.inputs)


def test_two_records_of_one_compile_are_equal():
    def once():
        return told(capture(lambda a: (a.softmax(-1),), (torch.randn(3, 4, requires_grad=True),)), "inductor")

    assert once() == once()


def test_nothing_is_told_when_nobody_listens(monkeypatch, square):
    monkeypatch.setattr(graph_record.entries, "graph", lambda *arguments, **keywords: pytest.fail("built a record"))
    compiled(square, "aot_eager")


def test_the_record_of_generated_code():
    """Buffers, kernels and the wrapper, linked by ids to the nodes of the ATen graph."""
    x = torch.randn(8, 4)
    record = told(capture(lambda a, w: (torch.relu(a @ w) + 1,), (x, torch.randn(4, 4))), "inductor")
    assert record.notes == ()
    (graph,) = record.graphs
    ids = {node.name: node.id for node in graph.nodes}
    generated = [kernel for kernel in record.kernels if kernel.language == "cpp"]
    assert [kernel.id for kernel in generated] == ["0/0.inference.kernel0"]
    assert set(generated[0].from_nodes) == {ids["relu"], ids["add"]}
    assert [kernel.name for kernel in record.kernels if kernel.language == "aten"] == ["aten.mm.default"]
    assert {node for buffer in record.buffers for node in buffer.from_nodes} <= set(ids.values())
    assert {buffer for kernel in generated for buffer in kernel.buffers} <= {each.id for each in record.buffers}
    assert record.wrapper.startswith("def call(args):")


def test_a_frame_with_two_graphs_keeps_their_kernels_apart():
    x = torch.randn(3, 4, requires_grad=True)
    record = told(capture(lambda a: ((a.sin() * 2).sum(),), (x,)), "inductor")
    names = [kernel.name for kernel in record.kernels]
    assert {"forward.kernel0", "backward.kernel0"} <= set(names)
    assert len({kernel.id for kernel in record.kernels}) == len(record.kernels)
    assert "# forward\n" in record.wrapper
    assert "# backward\n" in record.wrapper


def test_without_a_compiler_the_graph_runs_through_aten(monkeypatch):
    """The result is eager's, and the record says why nothing was generated; nobody is warned."""
    monkeypatch.setattr(backends.toolchain, "find", lambda: backends.toolchain.NoCompiler("no C++ compiler: tried g++"))
    captured = capture(lambda a: (a.sin(),), (torch.randn(4),))
    record = told(captured, "inductor")
    assert record.notes == ("no C++ compiler: tried g++: the graph runs through ATen",)
    assert record.kernels == ()
    x = torch.randn(4)
    torch.testing.assert_close(compiled(captured, "inductor")(x)[0], x.sin())


def test_a_mistake_of_ours_is_told_and_the_program_goes_on(monkeypatch):
    def broken(program):
        raise KeyError("a bug")

    monkeypatch.setattr(backends, "schedule", broken)
    captured = capture(lambda a: (a.sin(),), (torch.randn(4),))
    x = torch.randn(4)
    with pytest.warns(errors.GeneratedCodeWarning, match="code generation failed .KeyError: 'a bug'"):
        run = compiled(captured, "inductor")
    torch.testing.assert_close(run(x)[0], x.sin())
    with pytest.warns(errors.GeneratedCodeWarning):
        (text,) = told(captured, "inductor").notes
    assert "runs through ATen" in text


def test_results_that_share_memory_in_eager_share_it():
    """Two rows of one intermediate value: writing to one is visible in what overlaps it, as in eager."""

    def rows(a):
        y = a * 2
        return y[0], y.view(-1)[2:6], y.t()

    captured = capture(rows, (torch.randn(3, 4),))
    assert told(captured, "inductor").notes == ()
    first, middle, turned = compiled(captured, "inductor")(torch.ones(3, 4))
    first[2:] = 7.0
    assert middle.tolist() == [7.0, 7.0, 2.0, 2.0]
    assert turned[:, 0].tolist() == [2.0, 2.0, 7.0, 7.0]
    assert turned.stride() == (1, 4)


# -- derivatives taken inside a function ------------------------------------------------------


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("inlined", [False, True])
def test_a_derivative_between_two_results_of_a_graph(backend, inlined):
    """``autograd.grad`` breaks the graph; one autograd node over it has no path between its results (torch raises)."""

    def slope(out, point):
        return torch.autograd.grad(out, point, create_graph=True)

    def penalty(w, x):
        point = w * x
        out = (point**3).sum()
        (found,) = slope(out, point) if inlined else torch.autograd.grad(out, point, create_graph=True)
        return ((found.norm() - 1) ** 2) * 2

    w, x = torch.randn(4, requires_grad=True), torch.randn(4)
    expected = penalty(w, x)
    (gradient,) = torch.autograd.grad(expected, w)
    result = nbcompile.compile(penalty, backend=backend)
    torch.testing.assert_close(result(w, x), expected)
    torch.testing.assert_close(torch.autograd.grad(result(w, x), w)[0], gradient)
    record = nbcompile.explain(penalty)(w, x).record
    assert "differentiates one of its results by another" in " ".join(record.frames[0].compiled_graph.notes)


# --- what AOTAutograd has no way for ---------------------------------------------------------------------------------


@pytest.mark.compiles
def test_a_graph_that_asks_for_data_runs_as_captured_and_says_so():
    """A size that is a tensor is read by ATen while the graph runs; no fake tensor can say it."""

    def sized_by_a_tensor(n, x):
        return torch.zeros(n) + 1, x.narrow(0, n, 1)

    function = nbcompile.compile(sized_by_a_tensor)
    for n in (4, 2):
        arguments = torch.tensor(n), torch.arange(8.0)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            results = function(*arguments)
        assert all(map(torch.equal, results, sized_by_a_tensor(*arguments)))
        told = [str(each.message) for each in caught if each.category is errors.GeneratedCodeWarning]
        assert len(told) == (n == 4), "once, at the first call"
        assert all("runs as it was captured" in each for each in told)


def test_a_float_out_of_a_tensor_compiles_to_generated_code():
    """AOTAutograd asks for constants in the place of floats that no tensor can be; here there is none to be had."""

    def scaled(n, x):
        factor = n.item()
        return x * factor if factor > 1 else x - factor

    function = nbcompile.compile(scaled)
    with config.patch(capture_scalar_outputs=True), warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in (2.5, 0.5, 3.5):
            arguments = torch.tensor(n, dtype=torch.float64), torch.arange(8.0)
            assert torch.equal(function(*arguments), scaled(*arguments))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "aot_eager_decomp_partition", "inductor"])
def test_a_graph_may_set_the_default_dtype(backend):
    """Every run sets it, for the operators behind it and for what comes after the graph."""

    def program(x):
        torch.set_default_dtype(torch.float64)
        wide = torch.ones(2) + x / 2
        return wide, torch.arange(2) / 2

    compiled, x = nbcompile.compile(program, backend=backend), torch.ones(2, dtype=torch.float32)
    try:
        for _ in range(3):
            torch.set_default_dtype(torch.float32)
            wide, halves = compiled(x)
            assert (wide.dtype, halves.dtype, torch.get_default_dtype()) == (torch.float64,) * 3
            assert wide.tolist() == [1.5, 1.5] and halves.tolist() == [0, 0.5]
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("backend", ["eager_noexcept", "eager_debug", "aot_eager_default_partitioner", "cudagraphs"])
def test_names_of_torch_are_backends(backend):
    """They compute what eager computes, and its derivative."""
    x = torch.ones(3, requires_grad=True)
    result = nbcompile.compile(lambda x: (x * x).sin(), backend=backend)(x)
    result.sum().backward()
    expected = torch.ones(3, requires_grad=True)
    (expected * expected).sin().sum().backward()
    assert torch.equal(result, (expected * expected).sin()) and torch.equal(x.grad, expected.grad)


def test_eager_noexcept_tells_of_a_graph_that_raises():
    """What the graph raises is the cause of an exception that says so."""

    def program(x):
        torch._assert_async(x.sum() > 5, "too small")
        return x + 1

    with pytest.raises(errors.GraphRaised, match="Unexpected exception") as raised:
        nbcompile.compile(program, backend="eager_noexcept")(torch.ones(2))
    assert isinstance(raised.value.__cause__, RuntimeError)


@pytest.mark.parametrize("dynamic", [None, True])
def test_a_backend_finds_the_context_of_the_trace(dynamic):
    """A function as a backend may ask for torch's TracingContext, whose fake mode is the graph's, and hand on to ours."""
    found = []

    def backend(module, inputs):
        context = torch._guards.TracingContext.get()
        (placeholder, *_) = (node.meta["example_value"] for node in module.graph.find_nodes(op="placeholder"))
        found.append(getattr(placeholder, "fake_mode", context.fake_mode) is context.fake_mode)
        return backends.inductor(module, inputs)

    compiled = nbcompile.compile(lambda x: (x.sin() * x.shape[0]).sum(), backend=backend, dynamic=dynamic)
    with warnings.catch_warnings():
        warnings.simplefilter("error", errors.GeneratedCodeWarning)  # a graph that ours cannot compile
        for size in (3, 4):
            x = torch.ones(size, requires_grad=True)
            compiled(x).backward()
            assert torch.allclose(x.grad, x.detach().cos() * size)
    assert found and all(found)
    assert torch._guards.TracingContext.try_get() is None
