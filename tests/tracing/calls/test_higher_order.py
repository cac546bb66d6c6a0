"""Higher-order operators: their graphs, the order of the inputs of their bodies, and misuse."""

from __future__ import annotations

import functools

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import nbcompile
from nbcompile import errors
from tests.support.graphs import Graphs, captured

pytestmark = pytest.mark.usefixtures("nothing_compiled")
OPERATORS = torch.ops.higher_order
X, Y = torch.linspace(-1, 1, 3), torch.full((3,), 2.0)


def inputs(module, name):
    """The names of a body's inputs, in order."""
    return [node.target for node in getattr(module, name).graph.find_nodes(op="placeholder")]


def called(module, operator):
    """The only node that calls an operator."""
    (node,) = module.graph.find_nodes(op="call_function", target=operator)
    return node


def test_both_branches_take_the_same_inputs_in_one_order():
    """Tensors that both branches use come first; a branch has an unused input for a tensor of the other branch."""

    def f(x, y, z):
        return torch.cond(x.sum() > 0, lambda a: a + z, lambda a: a.sin() * y, (x,))

    module = captured(f, X + 1, Y, Y * 3, expected=X + 1 + Y * 3)
    assert inputs(module, "cond_true_0") == inputs(module, "cond_false_0") == ["l_x_", "l_z_", "l_y_"]
    assert [node.name for node in called(module, OPERATORS.cond).args[3]] == ["l_x_", "l_z_", "l_y_"]


@pytest.mark.parametrize("flag", [True, False])
def test_a_condition_that_is_known_chooses_its_branch(flag):
    """The branch is inlined, and the operator is not in the graph."""

    def f(x):
        return torch.ops.higher_order.cond(flag, lambda a: (a.sin(),), lambda a: (a.cos(),), (x,))

    graphs = Graphs()
    nbcompile.compile(f, backend=graphs, fullgraph=True)(X)
    assert graphs.operators == ["sin" if flag else "cos"]


def test_what_a_branch_returns_keeps_its_containers():
    """The operator returns a flat sequence of tensors; the program receives the dict and the list of the branches."""

    def f(x):
        return torch.cond(
            x.sum() > 0, lambda a: {"sum": a + 1, "list": [a * 2]}, lambda a: {"sum": a - 1, "list": [a * 3]}, (x,)
        )

    captured(f, X + 1, expected={"sum": X + 2, "list": [(X + 1) * 2]})


def different_structures(x):
    return torch.cond(x.sum() > 0, lambda a: a + 1, lambda a: (a + 1, a + 2), (x,))


def returns_a_float(x):
    return torch.cond(x.sum() > 0, lambda a: (a + 1, 2.5), lambda a: (a + 2, 2.5), (x,))


def writes(x):
    return torch.cond(x.sum() > 0, lambda a: a.add_(1) + 1, lambda a: a + 2, (x,))


def shares_memory(x):
    return torch.cond(x.sum() > 0, lambda a: a.view(3), lambda a: a + 2, (x,))


def on_a_list(x):
    return OPERATORS.cond([x], lambda a: (a + 1,), lambda a: (a + 2,), (x,))


def never_ends(x):
    return OPERATORS.while_loop(lambda a: True, lambda a: (a + 1,), (x,), ())


def carries_a_number(x):
    return OPERATORS.while_loop(lambda a, n: a.sum() < 3, lambda a, n: (a + 1, n), (x, 1), ())


def raises(x):
    def branch(a):
        raise KeyError("k")

    return torch.cond(x.sum() > 0, branch, lambda a: a + 1, (x,))


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (different_structures, "the branches return different structures"),
        (returns_a_float, "a branch returns 2.5"),
        (writes, "torch.cond"),
        (shares_memory, "must not share memory"),
        (on_a_list, "the condition is a list"),
        (never_ends, "the condition is always true"),
        (carries_a_number, "all carried values must be tensors"),
        (raises, "KeyError"),
    ],
)
def test_what_cannot_be_one_operator_is_an_error(function, reason):
    """These operators have no meaning outside a graph, so a misuse raises an error instead of breaking the graph."""
    with pytest.raises(errors.UncapturedHigherOrderOpError, match=reason):
        nbcompile.compile(function, backend="eager")(X.clone())


def test_a_body_of_a_loop_takes_all_that_is_carried():
    """The condition and the body take all carried tensors, and all tensors that either function captures."""

    def f(x, y):
        return torch._higher_order_ops.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * y), (torch.tensor(0), x))

    module = captured(f, X, Y, expected=(torch.tensor(3), X * 8))
    assert inputs(module, "cond_fn_0") == inputs(module, "body_fn_0") == ["tensor", "l_x_", "l_y_"]
    assert [node.name for node in called(module, OPERATORS.while_loop).args[3]] == ["l_y_"]


def test_a_loop_that_never_runs_is_no_operator():
    """A condition that is always false leaves the carried values unchanged."""

    def f(x):
        return OPERATORS.while_loop(lambda a: False, lambda a: (a + 1,), (x,), ())[0] * 2

    graphs = Graphs()
    assert torch.equal(nbcompile.compile(f, backend=graphs, fullgraph=True)(X), X * 2)
    assert graphs.operators == ["mul"]


def test_a_checkpoint_keeps_its_body_and_its_settings():
    """Settings of the checkpoint are keywords of the operator; other keywords are arguments of the function."""

    def body(a, *, factor):
        return (a * factor).sin()

    def f(x, y):
        return checkpoint(body, x, factor=y, use_reentrant=False, preserve_rng_state=False)

    module = captured(f, X, Y, expected=(X * Y).sin())
    node = called(module, OPERATORS.tag_activation_checkpoint)
    assert node.kwargs == {"use_reentrant": False, "preserve_rng_state": False}
    assert inputs(module, "wrap_body_0") == ["l_x_", "l_y_"]


def contexts_of(policy):
    raise AssertionError("asked when the graph is differentiated")


def test_the_contexts_of_a_checkpoint_are_not_traced():
    """``context_fn`` is stored in the metadata of the body, as the same partial with its arguments."""

    def f(x):
        return checkpoint(torch.sin, x, use_reentrant=False, context_fn=functools.partial(contexts_of, ["mm", 1]))

    graphs = Graphs()
    nbcompile.compile(f, backend=lambda module, examples: graphs(module, examples) and (lambda x: (x,)))(X)
    kept = graphs[0].wrap_body_0.meta["_checkpoint_context_fn"]
    assert kept.func is contexts_of and kept.args == (["mm", 1],)


def test_slices_that_bodies_are_traced_with_are_not_in_the_graph():
    """``map`` and ``scan`` trace their function with the first slice of each tensor, and leave no ``select`` behind."""

    def mapped(x):
        return torch._higher_order_ops.map(lambda row: row.sin(), x)

    def scanned(x):
        return torch._higher_order_ops.scan(lambda total, row: (total + row, total * row), x[0], x)

    graphs = Graphs()
    x = torch.arange(6.0).reshape(3, 2)
    for function in (mapped, scanned):
        nbcompile.compile(function, backend=graphs, fullgraph=True)(x)
    assert graphs.operators[0] == "map_impl"
    assert graphs.operators[1].split()[-1] == "scan" and "select" not in graphs.operators[1]


def test_an_associative_scan_gives_its_function_two_elements():
    """The body has two inputs for each scanned tensor, because the function combines two elements."""

    def f(x):
        return torch._higher_order_ops.associative_scan(lambda a, b: a * b, x, 0, combine_mode="generic")

    graphs = Graphs()
    nbcompile.compile(f, backend=graphs, fullgraph=True)(torch.arange(1.0, 5.0))
    bodies = [module for name, module in graphs[0].named_children() if name.startswith("associative_scan")]
    assert [len(body.graph.find_nodes(op="placeholder")) for body in bodies] in ([2], [])
