"""``nn.Parameter(x)`` inside of a compiled function."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import nbcompile
from nbcompile import errors
from tests.support.graphs import Graphs, compiled

pytestmark = pytest.mark.usefixtures("nothing_compiled")


def returned(x):
    p = nn.Parameter(x)
    return p, p.square()


def without_gradient(x):
    p = nn.Parameter(x, requires_grad=False)
    return p, x + 1


def several(x):
    made = [nn.Parameter(x) for _ in range(2)]
    return made[0] is made[1], made[0] is x, made[0] is made[0], len({*made, x}), *made, made[0] * made[1]  # noqa: PLR0124


def facts(x):
    p = nn.Parameter(data=x)
    p.tag = 3
    return p, p.requires_grad, p.is_leaf, p.grad is None, type(p), isinstance(p, nn.Parameter), p.shape, p.tag, p + 1


def of_a_parameter(x):
    p = nn.Parameter(nn.Parameter(x))
    return p, p * 2


def differentiated(x):
    p = nn.Parameter(x)
    (gradient,) = torch.autograd.grad((p * p).sum(), [p])
    return gradient


def written(x):
    p = nn.Parameter(x)
    with torch.no_grad():
        p.add_(1)
    return p, p * 2, x + 0


def after_a_write(x):
    x.add_(1)
    p = nn.Parameter(x)
    return p, p * 2


TRACED = (returned, without_gradient, several, facts, of_a_parameter, written, after_a_write)


def other_sizes(x):
    x.unsqueeze_(0)
    p = nn.Parameter(x)
    return p, p + 1


def other_memory(x):
    x.data = torch.ones(5)
    p = nn.Parameter(x)
    return p, p * 3


def other_sizes_by_another_name(x):
    y = x.add_(1)
    y.unsqueeze_(0)
    p = nn.Parameter(x)
    return p, p + 1


def of_a_result(x):
    p = nn.Parameter(x + 1)
    return p, p * 2


def of_integers(x):
    p = nn.Parameter(x.int(), requires_grad=False)
    return p, p * 2


def inside_a_transform(x):
    return torch.func.grad(lambda a: nn.Parameter(a).sum() + a.sum())(x)


def in_inference_mode(x):
    with torch.inference_mode():
        p = nn.Parameter(x, requires_grad=False)
    return p.is_inference(), p.shape


def across_a_break(x):
    p = nn.Parameter(x)
    torch._dynamo.graph_break()
    return p, p + 1


def of_nothing(x):
    return x + 1, nn.Parameter().shape


BROKEN = (
    other_sizes, other_memory, other_sizes_by_another_name, of_a_result, of_integers, inside_a_transform,
    in_inference_mode, across_a_break, of_nothing, differentiated,
)  # fmt: skip
INPUTS = {
    "plain": lambda size: torch.arange(1.0, size + 1),
    "computed": lambda size: torch.arange(1.0, size + 1).requires_grad_() * 1,
    "parameter": lambda size: nn.Parameter(torch.arange(1.0, size + 1)),
}


def plain(value):
    """A value that ``==`` can compare."""
    return value.tolist() if isinstance(value, torch.Tensor) else value


def seen(function, x):
    """The results, their properties and the gradients that a caller sees, or the error."""
    try:
        results = function(x)
    except RuntimeError as error:
        return "in-place operation" in str(error), x
    results = results if isinstance(results, tuple) else (results,)
    tensors = [each for each in results if isinstance(each, torch.Tensor)]
    facts = [(type(each), each.requires_grad, each.is_leaf, each.data_ptr() == x.data_ptr()) for each in tensors]
    trained = [each.sum() for each in tensors if each.requires_grad]
    if trained:
        sum(trained).backward()
    return *results, *facts, *(each.grad for each in (*tensors, x) if each.is_leaf), x


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("kind", INPUTS)
@pytest.mark.parametrize("function", (*TRACED, *BROKEN), ids=lambda function: function.__name__)
def test_a_parameter_is_eagers(function, kind, dynamic):
    """The object, its memory, its gradient and the input afterwards are eager mode's, for three sizes."""
    program = nbcompile.compile(function, dynamic=dynamic)
    for size in (3, 4, 5):
        expected, found = (seen(call, INPUTS[kind](size)) for call in (function, program))
        assert list(map(plain, found)) == list(map(plain, expected))


@pytest.mark.parametrize("function", TRACED, ids=lambda function: function.__name__)
def test_one_of_an_input_is_in_one_graph(function):
    """The residual program creates the parameter before the graph runs."""
    _, graphs = compiled(function, torch.ones(3), fullgraph=True)
    assert len(graphs) == 1


def test_it_is_an_input_of_the_graph_as_in_torch():
    """The parameter is the only input of the graph if nothing else reads the tensor."""
    ours, theirs = Graphs(), Graphs()
    nbcompile.compile(returned, backend=ours, fullgraph=True)(torch.ones(3))
    torch.compile(returned, backend=theirs, fullgraph=True)(torch.ones(3))
    assert ours.operators == theirs.operators == ["square"]
    assert [len(each[0].graph.find_nodes(op="placeholder")) for each in (ours, theirs)] == [1, 1]


def test_equal_inputs_reuse_the_code():
    """No guard checks the parameter: the next call creates another one with the same graph."""
    graphs = Graphs()
    program = nbcompile.compile(returned, backend=graphs)
    first, second = program(torch.ones(3))[0], program(torch.ones(3))[0]
    assert len(graphs) == 1 and first is not second


@pytest.mark.parametrize(
    "call",
    [
        lambda x: nn.Parameter(x + 1),
        lambda x: nn.Parameter(x, requires_grad=x.sum() > 1),
        lambda x: nn.Parameter(x, True, 3),
        lambda x: torch.cond(x.sum() > 0, lambda a: nn.Parameter(a, False) * 2, lambda a: a + 1, (x,)),
    ],
    ids=["of a result", "by data", "too many arguments", "in a branch"],
)
def test_what_python_has_to_make(call):
    """The parameter's data does not exist before the graph, or each run of a body would create another parameter."""
    with pytest.raises((errors.Unsupported, errors.UncapturedHigherOrderOpError), match="Parameter"):
        compiled(call, torch.ones(3), fullgraph=True)
