"""Functions traced into bodies: inputs that are lifted, values that leave a body, and results of the operator."""

from __future__ import annotations

import pytest
import torch

import nbcompile
from nbcompile import errors
from tests.support.graphs import Graphs, captured

pytestmark = pytest.mark.usefixtures("nothing_compiled")
OPERATORS = torch.ops.higher_order
X, Y = torch.linspace(-1, 1, 3), torch.full((3,), 2.0)


class Box:
    """An object with attributes."""


def body_of(module, name="wrap_body_0"):
    return getattr(module, name).graph


def test_what_a_body_uses_of_the_graph_around_is_lifted_in_order_of_use():
    """Values of the outer graph become inputs of the body, each one once, and further arguments of the operator."""

    def f(x, y):
        z = x + 1
        return OPERATORS.wrap(lambda a: y * a + z * y, x)

    module = captured(f, X, Y, expected=Y * X + (X + 1) * Y)
    assert [node.target for node in body_of(module).find_nodes(op="placeholder")] == ["l_y_", "l_x_", "add"]
    (node,) = module.graph.find_nodes(op="call_function", target=OPERATORS.wrap)
    assert [argument.name for argument in node.args[1:]] == ["l_y_", "l_x_", "add"]


def test_containers_and_objects_stay_what_they_are():
    """Only the tensors among the returned values are results of the operator, each one once."""

    def make(a):
        box = Box()
        box.inner = a + 1
        twice = a * 2
        return {"box": box, "list": [twice, twice], "word": "w"}

    def f(x):
        made = OPERATORS.wrap(make, x)
        return made["box"].inner, made["list"], made["word"] == "w", made["list"][0] is made["list"][1]

    module = captured(f, X, expected=(X + 1, [X * 2, X * 2], True, True))
    (output,) = body_of(module).find_nodes(op="output")
    assert len(output.args[0]) == 2


def test_what_a_body_stores_outside_of_it_leaves_the_body():
    """A region that stores a tensor in an object of its caller returns that tensor, too."""

    first, second = Box(), Box()

    @torch.compiler.nested_compile_region
    def region(a, box):
        box.inner = a.sin()
        return a + 1

    def f(x):
        return region(region(x, first), second), first.inner  # a region that is called once is inlined

    module = captured(f, X, expected=(X + 2, X.sin()))
    (output,) = body_of(module, "subgraph_0").find_nodes(op="output")
    assert [node.name for node in output.args[0]] == ["add", "sin"]
    torch.testing.assert_close((first.inner, second.inner), (X.sin(), (X + 1).sin()))


def test_trackers_of_results_belong_to_the_graph_around_afterwards():
    """An operation on a result reads an item of the operator's node, not a node of the body."""

    def f(x):
        return OPERATORS.wrap(lambda a: (a + 1, a + 2), x)[1] * 3

    module = captured(f, X, expected=(X + 2) * 3)
    (product,) = module.graph.find_nodes(op="call_function", target=torch.ops.aten.mul) or [
        node for node in module.graph.nodes if node.name == "mul"
    ]
    assert product.args[0].name == "getitem_1"


def test_leaves_of_a_pytree_are_in_the_order_of_its_containers():
    """A branch that returns a dict of lists returns its tensors in the order of the dict; numbers are results, too."""

    def f(x):
        def other(a):
            return {"b": [a - 1, a - 2], "a": (3, a - 4)}

        return torch.cond(x.sum() > 0, lambda a: {"b": [a + 1, a + 2], "a": (3, a + 4)}, other, (x,))

    x = X + 1
    module = captured(f, x, expected={"b": [x + 1, x + 2], "a": (3, x + 4)})
    (output,) = body_of(module, "cond_true_0").find_nodes(op="output")
    assert [str(value) for value in output.args[0]] == ["add", "add_1", "3", "add_2"]


def test_an_object_is_no_leaf():
    """A branch that returns an object of a user's class is rejected with the name of that class."""

    def branch(a):
        box = Box()
        box.inner = a + 1
        return box

    def f(x):
        return torch.cond(x.sum() > 0, branch, branch, (x,))

    with pytest.raises(errors.UncapturedHigherOrderOpError, match="Box"):
        nbcompile.compile(f, backend="eager")(X)


def test_a_constant_among_the_arguments_has_an_input_of_its_own():
    """Operators with positional arguments pass constants, too: the body has an unused input for each of them."""

    def f(x):
        return OPERATORS.while_loop(lambda a, n: a.sum() < 30, lambda a, n: (a + n,), (x,), (2,))[0]

    graphs = Graphs()
    nbcompile.compile(f, backend=graphs, fullgraph=True)(X)
    for name in ("cond_fn_0", "body_fn_0"):
        placeholders = body_of(graphs[0], name).find_nodes(op="placeholder")
        assert [node.target for node in placeholders] == ["l_x_", "const_unused"]
        assert not placeholders[1].users
