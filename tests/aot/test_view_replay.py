"""Views of inputs that a graph returns equal eager's, for autograd, too."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
import torch

import nbcompile
from nbcompile.aot.runtime_metadata import AliasedOutput
from nbcompile.aot.view_replay import input_views
from nbcompile.backends.registry import lookup
from nbcompile.ir.emitted import AtSlot

Function = Callable[..., Any]

VIEWS: dict[str, Function] = {
    "t": lambda x: x.t(),
    "item": lambda x: x[0],
    "slice": lambda x: x[1:, ::2],
    "ellipsis": lambda x: x[..., None, 1],
    "view": lambda x: x.view(2, 8),
    "reshape": lambda x: x.reshape(-1),
    "expand": lambda x: x.unsqueeze(0).expand(3, 4, 4),
    "squeeze": lambda x: x[None].squeeze(0),
    "permute": lambda x: x.permute(1, 0),
    "transpose": lambda x: x.transpose(0, 1)[1:],
    "diagonal": lambda x: x.diagonal(),
    "narrow": lambda x: x.narrow(0, 1, 2),
    "unfold": lambda x: x.unfold(0, 2, 1),
    "as_strided": lambda x: x.as_strided((2, 2), (4, 1), 1),
    "chunk": lambda x: x.chunk(2),
    "split": lambda x: x.split([1, 3]),
    "unbind": lambda x: x.unbind(1),
    "one of several": lambda x: x.split(2)[1],
    "view of a part": lambda x: x.chunk(2)[0].view(-1),
    "detach": lambda x: x.detach(),
    "flatten": lambda x: torch.flatten(x),
    "movedim": lambda x: x.movedim(0, 1),
    "of another type": lambda x: x.view(torch.int32),
    "complex": lambda x: torch.view_as_complex(x.view(4, 2, 2)),
    "conjugated": lambda x: torch.view_as_complex(x.view(4, 2, 2)).conj(),
    "imaginary part": lambda x: torch.view_as_complex(x.view(4, 2, 2)).conj().imag,
    "itself": lambda x: (x, x.t()),
    "three": lambda x: (x[0], x.t(), x.view(-1)),
    "beside a new tensor": lambda x: (x[0], x.relu(), x.t()),
    "beside a number": lambda x: (x[0], x.shape[0], None),
    "beside an index": lambda x: (x[0], x.argmax()),
    "of a size": lambda x: x.view(x.shape[0] // 2, -1),
}


def _flat(results: Any) -> list[Any]:
    return list(results) if isinstance(results, tuple) else [results]


def _facts(result: Any, base: torch.Tensor) -> Any:
    if not isinstance(result, torch.Tensor):
        return result
    return (
        result is base,
        result._is_view(),
        result._base is base,
        result.requires_grad,
        result.is_leaf,
        type(result.grad_fn).__name__ if result.untyped_storage()._cdata == base.untyped_storage()._cdata else None,
        result.dtype,
        result.shape,
        result.stride(),
        result.storage_offset(),
        result.is_conj(),
        result.is_neg(),
        None if result.is_inference() else result._version,
        result.is_inference(),
    )


def _inputs() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    leaf = torch.randn(4, 4, requires_grad=True)
    return {"plain": torch.randn(4, 4), "leaf": leaf, "computed": leaf * 2, "view": torch.randn(5, 4)[1:]}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_of_an_input_is_eagers(name: str) -> None:
    """Base, history, layout and version of each result equal eager's in each mode, at each call."""
    function = VIEWS[name]
    for kind, x in _inputs().items():
        for mode in (contextlib.nullcontext, torch.no_grad, torch.inference_mode):
            compiled = nbcompile.compile(function)
            for _ in range(3):
                with mode():
                    ours, theirs = _flat(compiled(x)), _flat(function(x))
                root = x if x._base is None else x._base
                assert [_facts(each, root) for each in ours] == [_facts(each, root) for each in theirs], (kind, mode)
                torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


@pytest.mark.parametrize("name", [name for name in VIEWS if name not in ("of another type", "detach", "conjugated")])
def test_a_gradient_goes_through_a_view(name: str) -> None:
    """The gradient of an input through returned views equals eager's."""
    function, gradients = VIEWS[name], []
    for called in (function, nbcompile.compile(function)):
        x = torch.arange(16.0).view(4, 4).requires_grad_()
        wanted = [each for each in _flat(called(x)) if isinstance(each, torch.Tensor) and each.requires_grad]
        sum((each.abs() ** 2).sum() for each in wanted).backward()  # type: ignore[union-attr]
        gradients.append(x.grad)
    assert torch.equal(*gradients)


def _outcome(function: Function, x: torch.Tensor, change: Function) -> Any:
    result = function(x)
    try:
        change(result)
    except RuntimeError as error:
        return type(error), str(error)
    grad_fn = type(x.grad_fn).__name__
    return x.tolist(), x._version, grad_fn, [each.requires_grad for each in _flat(result)]


@pytest.mark.parametrize("name", ["t", "item", "view", "expand", "chunk", "detach", "three", "beside a new tensor"])
@pytest.mark.parametrize("kind", ["plain", "leaf", "computed"])
def test_a_write_to_a_view_is_eagers(name: str, kind: str) -> None:
    """A write to a result changes the input, its version and its history as in eager mode, or raises eager's error."""

    def change(result: Any) -> None:
        _flat(result)[0].mul_(2)

    def write_without_history(result: Any) -> None:
        with torch.no_grad():
            _flat(result)[0].mul_(2)

    function = VIEWS[name]
    for act in (change, write_without_history):
        ours = _outcome(nbcompile.compile(function), _inputs()[kind], act)
        theirs = _outcome(function, _inputs()[kind], act)
        assert ours == theirs


def test_a_saved_view_that_is_written_to_is_found() -> None:
    """The backward pass raises if a result that aliases a saved tensor was mutated."""
    compiled = nbcompile.compile(lambda x: x.t())
    x = torch.randn(4, 4)
    w = torch.randn(4, 4, requires_grad=True)
    product = x * w
    compiled(x).add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


def test_views_with_symbolic_sizes() -> None:
    """One graph serves all sizes, and its views have the sizes of the call."""
    graphs = []

    def count(module: Any, inputs: Any) -> Any:
        graphs.append(module)
        return lookup("inductor")(module, inputs)

    def function(x: torch.Tensor) -> Any:
        return x.view(x.shape[0] * 2, -1)[1:], x.t()

    compiled = nbcompile.compile(function, backend=count, dynamic=True)
    for rows in (4, 6, 10):
        x = torch.randn(rows, 8)
        ours, theirs = compiled(x), function(x)
        assert [_facts(each, x) for each in ours] == [_facts(each, x) for each in theirs]
    assert len(graphs) == 1


def test_a_grad_mode_that_the_graph_sets() -> None:
    """A view in a no_grad region has no history, and after the call the grad mode is that of before."""

    def function(x: torch.Tensor) -> Any:
        with torch.no_grad():
            y = x.t()
        return y, x[0]

    x = torch.randn(4, 4, requires_grad=True)
    ours, theirs = nbcompile.compile(function)(x), function(x)
    histories = [[type(each.grad_fn).__name__ for each in results] for results in (ours, theirs)]
    assert histories == [["NoneType", "SelectBackward0"]] * 2
    assert torch.is_grad_enabled()


def _traced(function: Function) -> torch.fx.GraphModule:
    graph = torch.fx.symbolic_trace(function)
    (output,) = graph.graph.find_nodes(op="output")
    if not isinstance(output.args[0], tuple):
        output.args = ((output.args[0],),)
    return graph


def test_the_operators_are_those_that_autograd_sees() -> None:
    """A composite function is replayed as its differentiable operators, without those that no result needs."""
    aliases = [AliasedOutput(0, 0, False, False)]
    graph = _traced(lambda x: (x.reshape(-1), x.relu()))
    views = input_views(graph, [torch.randn(4, 4)], aliases)
    assert views is not None
    (call,) = views.calls
    assert (call.target, call.arguments) == (torch.ops.aten.view.default, (AtSlot(0), [-1]))
    assert views.outputs == [1]


def test_an_output_that_no_view_operator_makes() -> None:
    """If no view operator creates an output, there is no program of views: AOTAutograd computes the output."""
    assert input_views(_traced(lambda x: (x.relu(),)), [torch.randn(4)], [AliasedOutput(0, 0, False, False)]) is None


def test_a_graph_of_views_alone_runs_no_python() -> None:
    """The callable of a graph of views is the C program itself, so a call runs no Python frame."""
    x = torch.randn(4, 4)
    module = _traced(lambda x: (x.t(), x[0]))
    for node, value in zip(module.graph.nodes, (x, x.t(), x[0]), strict=False):
        node.meta["example_value"] = value
    assert type(lookup("inductor")(module, [x])).__name__ == "builtin_function_or_method"


@pytest.mark.parametrize("name", ["data", "view of data", "beside a view", "data twice"])
@pytest.mark.parametrize("learns", [False, True])
def test_data_counts_versions_by_itself(name: str, learns: bool) -> None:
    """A write through ``x.data`` changes the input, but not its version: autograd does not see it."""
    functions: dict[str, Function] = {
        "data": lambda x: x.data,
        "view of data": lambda x: x.data.t()[1:],
        "beside a view": lambda x: (x.data, x.t(), x.detach()),
        "data twice": lambda x: (x.data, x.data.view(-1)),
    }
    seen = []
    for called in (functions[name], nbcompile.compile(functions[name])):
        x = torch.ones(4, 4, requires_grad=learns)
        results = _flat(called(x))
        results[0].add_(1)
        versions = [(each._version, each._is_view(), each.requires_grad, each.tolist()) for each in results]
        seen.append((x._version, x.tolist(), versions))
    assert seen[0] == seen[1]
    assert seen[0][0] == 0


CHANGES_OF_SIZES: dict[str, Function] = {
    "unsqueeze_": lambda v: v.unsqueeze_(0),
    "squeeze_": lambda v: v.squeeze_(),
    "t_": lambda v: torch.Tensor.t_(v),
    "transpose_": lambda v: v.transpose_(0, 1),
    "swapaxes_": lambda v: v.swapaxes_(0, 1),
    "swapdims_": lambda v: v.swapdims_(0, 1),
    "as_strided_": lambda v: v.as_strided_((2,), (1,), 1),
    "by an operator": lambda v: torch.ops.aten.unsqueeze_.default(v, 1),
}


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("name", CHANGES_OF_SIZES)
def test_a_view_whose_sizes_change_in_place_has_the_last_ones(name, requires_grad):
    """A view that is resized in place has its last sizes, also if the result is the node before the resize."""

    def program(x):
        v, w = x.mT, x[1:]
        CHANGES_OF_SIZES[name](v)
        return v, v[0], w

    def layouts(function):
        x = torch.arange(8.0).reshape(2, 4).requires_grad_(requires_grad)
        x = x * 1 if requires_grad else x  # a view of a leaf may not be mutated
        return [(one.shape, one.stride(), one.tolist(), one.requires_grad) for one in function(x)]

    assert layouts(nbcompile.compile(program)) == layouts(program)


def ends_without_gradients(x):
    v = x.t()
    torch.set_grad_enabled(False)
    return v


def views_and_computes(x):
    v, y = x.t(), x * 2
    torch.set_grad_enabled(False)
    return v, y, x[1:], y.sum()


def begins_without_gradients(x):
    v, y = x.t(), x * 2
    torch.set_grad_enabled(True)
    return v, y, x * 3


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize(
    ("function", "mode"),
    [(ends_without_gradients, True), (views_and_computes, True), (begins_without_gradients, False)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_graph_that_leaves_another_grad_mode_is_compiled_once_for_the_mode_before(function, mode, backend):
    """Tracing such a graph restores the grad mode: otherwise each call would recompile."""
    graphs = []

    def counting(module, examples):
        graphs.append(module)
        return lookup(backend)(module, examples)

    def seen(run):
        torch.set_grad_enabled(mode)
        try:
            x = torch.ones(2, 3, requires_grad=True)
            results = _flat(run(x))
            after = torch.is_grad_enabled()
        finally:
            torch.set_grad_enabled(True)
        return after, [(one.requires_grad, one.is_leaf, one._base is x, one.tolist()) for one in results]

    compiled = nbcompile.compile(function, backend=counting)
    for _ in range(3):
        assert seen(compiled) == seen(function)
    assert len(graphs) == 1


EFFECTS: dict[str, Function] = {
    "an assertion": lambda x: torch._assert_async((x > 5).all()),
    "an assertion with a text": lambda x: torch.ops.aten._assert_async.msg((x > 5).all(), "too small"),
    "a write by a custom operator": lambda x: torch.ops.nbcompile_views.write(x),
    "a write through a view": lambda x: torch.ops.nbcompile_views.write(x[0]),
    "a write in place": lambda x: x.add_(1),
    "a write through another view": lambda x: x.detach().mul_(3),
    "random numbers": lambda x: torch.rand(3),
}
RESULTS: dict[str, Function] = {
    "nothing": lambda x: None,
    "a view": lambda x: x.t(),
    "itself": lambda x: x,
    "two views": lambda x: (x[0], x.view(-1)),
}


@pytest.fixture(scope="module", autouse=True)
def writer():
    library = torch.library.Library("nbcompile_views", "FRAGMENT")
    library.define("write(Tensor(a!) x) -> ()")
    library.impl("write", lambda x: [x.add_(1)] and None, "CompositeExplicitAutograd")
    library.impl("write", lambda x: None, "Meta")
    yield
    library._destroy()


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("result", RESULTS)
@pytest.mark.parametrize("effect", EFFECTS)
def test_a_graph_that_returns_views_alone_has_its_effects(effect, result):
    """A graph without results, or one that returns views alone, still runs its effects."""

    def program(x):
        EFFECTS[effect](x)
        return RESULTS[result](x)

    def seen(function):
        torch.manual_seed(0)
        x = torch.arange(4.0).reshape(2, 2)
        try:
            found = [one.tolist() for one in _flat(function(x)) if one is not None]
        except RuntimeError as error:
            found = str(error).splitlines()[0]
        return found, x.tolist(), torch.rand(1).item()

    assert seen(nbcompile.compile(program)) == seen(program)
