"""Graphs that are recorded in one pass: the accepted ones, and mutations that equal eager mode's.

In torch: test/functorch/test_aotdispatch.py. Read next: tests/aot/test_compile.py
"""

from __future__ import annotations

import pytest
import torch

import nbcompile
from nbcompile.aot.decompositions import default_table
from nbcompile.fast import inference_tracer
from tests.support.captured import capture
from tests.support.observed import agrees_with_eager
from tests.support.processes import python


def add_in_place(x, y):
    x.add_(y)


def read_before_and_after(x, y):
    before = x * 2
    x.mul_(y).sub_(1)
    return before + x


def exchanged(x, y):
    kept = x.clone()
    x.copy_(y)
    y.copy_(kept)


def one_after_the_other(x, y):
    x.add_(y)
    y.mul_(x)
    x.add_(y)
    return x - y


def another_type(x, y):
    x.copy_(y.double() / 3)


def product_into(x, y):
    x.addmm_(y, y)


def moments(x, y):
    x.lerp_(y, 0.1)
    y.mul_(0.9).addcmul_(x, x, value=0.1)
    x.addcdiv_(x, y.abs().sqrt_().add_(1e-8), value=-0.01)


def viewed_after(x, y):
    x.add_(y)
    return x.t() * 2


RECORDED = (
    add_in_place, read_before_and_after, exchanged, one_after_the_other, another_type, product_into, moments,
    viewed_after,
)  # fmt: skip


def through_a_view(x, y):
    x[0].add_(y[0])
    return x * 2


def viewed_before(x, y):
    row = x.t()
    x.add_(y)
    return row * 2


def given_back(x, y):
    return x.add_(y)


def other_shape(x, y):
    x.t_()
    return x + y


LEFT = (through_a_view, viewed_before, given_back, other_shape)
"""Functions that AOTAutograd makes functional."""
each_way = pytest.mark.parametrize("keep", ["no_grad", "without gradients"])


def square() -> torch.Tensor:
    return torch.randn(4, 4)


def recorded(function, **more):
    """The recording of a function of two tensors; a function without results has no outputs."""
    given = (square(), square())
    module = capture(function, given).module
    output = module.graph.output_node()
    output.args = (tuple(each for each in output.args[0] if each is not None),)
    return inference_tracer.trace(module, given, default_table(), **more)


@pytest.mark.parametrize("function", [*RECORDED, *LEFT], ids=lambda each: each.__name__)
@each_way
def test_what_is_written_is_what_eager_writes(function, keep):
    """Inputs and results after three calls are eager mode's, for parameters without gradients and plain tensors."""

    def program(compiled):
        torch.manual_seed(0)
        inputs = [square().requires_grad_(keep == "no_grad") for _ in range(2)]
        call = compiled(function)
        with torch.set_grad_enabled(keep != "no_grad"):
            return [(call(*inputs), *(each.detach().clone() for each in inputs)) for _ in range(3)]

    agrees_with_eager(program)


@pytest.mark.parametrize("function", RECORDED, ids=lambda each: each.__name__)
def test_writes_to_whole_inputs_are_recorded(function):
    """The last nodes are copies, one for each mutated input."""
    found = recorded(function, allow_mutation=True)
    assert found is not None
    nodes = list(found.module.graph.nodes)
    copies = [node for node in nodes if node.target is torch.ops.aten.copy_.default]
    assert [nodes.index(each.args[0]) for each in copies] == found.written
    assert nodes[-1 - len(copies) : -1] == copies


def test_autograd_sees_what_was_written():
    """A tensor that is saved for a derivative, and mutated by a compiled graph, raises eager mode's error."""
    x = torch.ones(3)
    weight = torch.ones(3, requires_grad=True)
    product = (weight * x).sum()

    @nbcompile.compile
    def write(x):
        x.add_(1)

    write(x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


STEP = """
import sys, torch, nbcompile
from nbcompile.fast import dynamo_stub
nbcompile.compile(torch.sin)(torch.ones(3))  # before an optimizer, which imports torch._dynamo as it is made
parameters = [torch.nn.Parameter(torch.ones(5)) for _ in range(3)]
for each in parameters:
    each.grad = torch.full((5,), 2.0)
optimizer = torch.optim.Adam(parameters, lr=0.1)
step = nbcompile.compile(lambda: optimizer.step())
step()
step()
assert all(torch.allclose(each, torch.full((5,), 0.8)) for each in parameters), parameters
assert dynamo_stub.is_stub()
heavy = {"torch._functorch.aot_autograd", "torch._dynamo.utils", "torch._dynamo.decorators"}
assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()
torch._dynamo.reset()
assert not dynamo_stub.is_stub()
for _ in range(2):
    step()
assert all(torch.allclose(each, torch.full((5,), 0.6)) for each in parameters), parameters
from torch._dynamo import graph_break
assert graph_break is sys.modules["torch._dynamo.decorators"].graph_break
"""


@pytest.mark.compiles
def test_an_optimizers_step_needs_no_aotautograd():
    """The step is not traced by torch's tracer, also after torch._dynamo becomes real."""
    python(STEP)


def asserted(x):
    torch._assert_async((x > 0).all(), "positive")  # a statement `assert` becomes this call; pytest rewrites statements
    return x.log()


def asserted_without_text(x):
    torch._assert_async((x > 0).all())
    return x.log()


def only_asserted(x):
    torch._assert_async((x > 0).all(), "positive")
    return 1


def asserted_beside_a_write(x):
    torch._assert_async((x > 0).all(), "positive")
    return x.add_(1)


def asserted_of_a_module(x):
    torch._assert(x.min() > 0, "positive")
    return weight * x


weight = torch.ones(3, requires_grad=True)
ASSERTED = (asserted, asserted_without_text, only_asserted, asserted_beside_a_write, asserted_of_a_module)


@pytest.mark.parametrize("warm_up", [0, 3])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("function", ASSERTED, ids=lambda function: function.__name__)
def test_an_assertion_is_no_dead_code(function, backend, dynamic, warm_up):
    """An operator without a result that raises an error does so when the graph runs, in each call."""
    compiled = nbcompile.compile(function, backend=backend, dynamic=dynamic, fullgraph=True)
    for _ in range(warm_up):
        compiled(torch.ones(3))
    with pytest.raises(RuntimeError, match=r"positive|Expected Tensor with single nonzero value"):
        compiled(torch.tensor([1.0, -1.0, 1.0]))
    assert torch.equal(torch.as_tensor(compiled(torch.ones(3))), torch.as_tensor(function(torch.ones(3))))


@torch.compiler.allow_in_graph
def catching(x, number):
    try:
        return torch.where(x > 0, x, torch.asarray(number))
    except Exception as error:
        raise ValueError("a library wraps what it catches") from error


@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_function_in_the_graph_cannot_catch_the_signal_of_a_tracer(requires_grad):
    """A tracer that leaves a graph to AOTAutograd does so past the handlers of a function that is called in the graph."""
    x = torch.linspace(-1, 1, 5).requires_grad_(requires_grad)
    compiled = nbcompile.compile(lambda x: catching(x, 0.5) * 2)
    assert torch.equal(compiled(x), catching(x, 0.5) * 2)
