"""Joint graphs are traced and partitioned without AOTAutograd: what is saved, and what is recomputed."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings, strategies as st
from torch import nn

import nbcompile
from nbcompile.aot import compile, partition, passes
from nbcompile.aot.decompositions import default_table
from nbcompile.errors import GeneratedCodeWarning
from nbcompile.fast import joint_tracer
from tests.support.captured import capture, fake_examples
from tests.support.processes import python

aten = torch.ops.aten


def traced(function, *inputs):
    captured = capture(function, inputs)
    found = joint_tracer.trace(captured.module, fake_examples(captured.inputs), default_table())
    assert found is not None
    return found, captured


def halves(function, *inputs, recompute=True):
    """(forward, backward, names of the saved values)."""
    found, captured = traced(function, *inputs)
    lasting = None
    if recompute:
        passes.remove_detach(found.graph)
        passes.eliminate_common_subexpressions(found.graph)
        lasting = {at for at, each in enumerate(captured.inputs) if isinstance(each, nn.Parameter)}
    forward, backward, kept, _ = partition.partition_joint_graph(found.graph.graph, len(found.outputs), lasting)
    return forward, backward, [node.name for node in forward.output_node().args[0][len(found.outputs) :]][:kept]


def targets(graph):
    return [node.target.overloadpacket for node in graph.nodes if isinstance(node.target, torch._ops.OpOverload)]


def learning(*shape):
    return torch.randn(*shape, requires_grad=True)


def test_what_is_cheap_is_computed_again():
    """A chain of pointwise operators saves only its input; the backward graph recomputes the chain."""
    _, backward, kept = halves(lambda x: torch.sin(torch.sin(x).cos()), learning(100))
    assert kept == ["primals_1"]
    assert {aten.sin, aten.cos} <= set(targets(backward))


def test_an_input_that_eager_does_not_keep():
    """The program may overwrite the input, so its exp is saved, and the rest is recomputed from the exp."""
    _, backward, kept = halves(lambda x: torch.sin(torch.exp(x).cos()), learning(100))
    assert kept == ["exp"]
    assert aten.cos in targets(backward)
    assert aten.exp not in targets(backward)


def test_as_eager_keeps_what_eager_keeps():
    """Without recomputation the backward graph contains only the operators of the derivative."""
    _, backward, kept = halves(lambda x: torch.sin(torch.exp(x).cos()), learning(100), recompute=False)
    assert kept != ["primals_1"]
    assert aten.exp not in targets(backward)


def test_products_are_not_computed_again():
    """A matrix product runs once; the value that the derivative needs of it is saved."""
    x, w = learning(16, 32), learning(32, 64)
    forward, backward, _ = halves(lambda x, w: torch.tanh(x @ w).exp(), x, w)
    assert targets(forward).count(aten.mm) == 1
    assert targets(backward).count(aten.mm) == 2  # two products of the derivative itself


def test_a_gradient_of_nothing_that_the_forward_computes():
    """The gradient of ``x ** 0`` is zero: its backward graph takes no inputs that the forward does not return."""

    def f(x, index):
        return (x[index] ** 0).sum()

    x, index = learning(4), torch.tensor([0, 1])
    nbcompile.compile(f)(x, index).backward()
    assert x.grad.tolist() == [0.0] * 4


def test_random_numbers_are_drawn_once():
    """A dropout mask is saved: a second draw would give another mask."""
    forward, backward, kept = halves(lambda x: F.dropout(x, 0.5) * 2, learning(64))
    drawn = {node.name for node in forward.nodes if node.op == "call_function"} & set(kept)
    assert drawn
    assert not {aten.bernoulli, aten.native_dropout, aten.rand, aten.rand_like} & set(targets(backward))


def test_small_results_of_reductions_are_kept():
    """The statistics of a norm, one number per row, are saved and not recomputed."""
    x = learning(64, 256)
    _, backward, _ = halves(lambda x: F.layer_norm(x, (256,)).exp(), x)
    assert aten.var_mean not in targets(backward)


def test_parameters_cost_nothing():
    """A parameter is saved rather than a value computed from it: it stays in memory anyway."""
    layer = nn.Linear(32, 32)
    _, _, kept = halves(layer, learning(8, 32))
    assert not any(name.startswith(("t", "permute")) for name in kept)


class Residual(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.weights = nn.ParameterList(torch.randn(32, 32) for _ in range(layers))

    def forward(self, x):
        for weight in self.weights:
            x = x + torch.sin(x) @ weight
        return x


def test_a_row_of_sums_is_not_computed_again_from_its_first():
    """In a chain of ``x + f(x)``, each derivative reads a sum or two; the backward does not repeat all products."""
    _, backward, kept = halves(Residual(8), learning(16, 32))
    assert targets(backward).count(aten.add) <= 16
    assert sum(name.startswith("mm") for name in kept) <= 2


def test_a_long_chain_is_kept_now_and_then():
    """A chain of three hundred cheap operators saves some values in between."""

    def chain(x):
        for _ in range(300):
            x = torch.sin(x)
        return x

    _, _, kept = halves(chain, learning(10))
    assert len(kept) >= 3


def test_backward_nodes_know_where_they_come_from():
    """Each operator of the derivative has the origin of the captured node whose autograd node created it."""
    found, captured = traced(lambda x, w: torch.relu(x @ w).sum(), learning(4, 5), learning(5, 6))
    names = {node.name for node in captured.module.graph.nodes}
    calls = [node for node in found.graph.graph.nodes if node.op == "call_function"]
    assert all(node.meta["nbc_from"][0] in names for node in calls)
    assert {node.meta["nbc_from"] for node in calls if node.target.overloadpacket is aten.mm} == {("matmul",)}


OPERATIONS = (
    torch.sin, torch.cos, torch.tanh, torch.relu, F.gelu, F.silu,
    lambda x: x @ torch.full((6, 6), 0.1),
    lambda x: F.layer_norm(x, (6,)),
    lambda x: torch.softmax(x, -1),
    lambda x: x.t().contiguous() if x.shape[0] == x.shape[1] else x * 2,
    lambda x: x - x.mean(0, keepdim=True),
    lambda x: torch.cat([x[:, 3:], x[:, :3]], 1),
    lambda x: torch.where(x > 0, x, -0.1 * x),
    lambda x: x.clamp(-1, 1) + x.detach(),
)  # fmt: skip


@settings(max_examples=40, deadline=None)
@given(
    steps=st.lists(st.tuples(st.sampled_from(OPERATIONS), st.integers(0, 3)), min_size=1, max_size=8),
    outputs=st.integers(1, 2),
)
def test_random_programs_have_eagers_gradients(steps, outputs):
    """Results and gradients of random programs equal eager's, whatever is saved or recomputed."""

    def program(x, w):
        values = [x, x * w]
        for operation, back in steps:
            values.append(operation(values[-1 - back % len(values)]) + 0.5 * values[-1])
        return tuple(values[-outputs:]) if outputs == 1 else (values[-1], values[-2] * 1.5)

    torch.compiler.reset()
    nbcompile.reset()
    compiled = nbcompile.compile(program, backend="aot_eager_decomp_partition")
    x, w = torch.randn(6, 6, requires_grad=True), torch.randn(6, requires_grad=True)
    found = []
    for function in (program, compiled):
        results = function(x, w)
        found.append([*results, *torch.autograd.grad(sum((each * each).sum() for each in results), (x, w))])
    torch.testing.assert_close(*found)


IMPORTS = """
import sys, torch, nbcompile
from torch import nn
model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Dropout(0.1), nn.Linear(16, 4))
step = nbcompile.compile(lambda x, y: nn.functional.cross_entropy(model(x), y))
step(torch.randn(5, 8), torch.randint(4, (5,))).backward()
assert all(each.grad is not None for each in model.parameters())
print([name for name in ("torch._functorch.aot_autograd", "torch._functorch.partitioners") if name in sys.modules])
"""


@pytest.mark.fast_path
def test_a_training_step_does_not_import_autograds_tracer():
    """A training step without mutation is traced and partitioned without AOTAutograd."""
    assert python(IMPORTS).strip() == "[]"


def writes_to_a_row(x):
    y = x * 2
    y[0] = 1
    return y


def writes_to_its_input(x):
    z = x.detach()
    z.mul_(2)
    return x * z


def two_views(x):
    y = x * 2
    return y[0], y[1]


@pytest.mark.compiles
@pytest.mark.parametrize("function", [writes_to_a_row, writes_to_its_input, two_views], ids=lambda each: each.__name__)
def test_what_is_not_pure_goes_through_autograds_tracer(function, monkeypatch):
    """Mutation and aliasing need AOTAutograd; results and gradients equal eager's."""
    asked = []
    through_autograd = compile.compile_with_aot_autograd
    monkeypatch.setattr(compile, "compile_with_aot_autograd", lambda *all: asked.append(1) or through_autograd(*all))
    x = learning(3, 4)
    twin = x.detach().clone().requires_grad_()
    torch.testing.assert_close(nbcompile.compile(function)(x), function(twin))
    torch.testing.assert_close(x, twin)
    assert asked


def adds_to_a_product(x):
    y = x @ x.t()
    y += 1
    return F.relu(y, inplace=True) * 3


def fills_zeros(x):
    y = torch.zeros(3, 4)
    y.add_(x).clamp_(-1, 1)
    return y * x


def draws_in_place(x):
    return F.dropout(x, 0.5) + torch.empty(3, 4).uniform_() * x


def is_seen_through_a_twin(x):
    y = x * 2
    twin = y.detach()
    y.mul_(3)
    return y + twin


@pytest.mark.fast_path
@pytest.mark.parametrize(
    "function", [adds_to_a_product, fills_zeros, draws_in_place, is_seen_through_a_twin], ids=lambda each: each.__name__
)
@pytest.mark.parametrize("learns", [True, False])
def test_a_value_of_its_own_may_be_changed_in_place(function, learns, monkeypatch):
    """Mutation of an intermediate does not need AOTAutograd."""
    monkeypatch.setattr(compile, "compile_with_aot_autograd", lambda *_: pytest.fail("through AOTAutograd"))
    x = torch.randn(3, 4, requires_grad=learns)
    found = []
    for call in (function, nbcompile.compile(function)):
        torch.manual_seed(3)
        result = call(x)
        found.append([result.detach(), *(torch.autograd.grad(result.sum(), x) if learns else ())])
    torch.testing.assert_close(*found)


def spoils_one_of_two(x):
    y = x.exp()
    spoiled = y.sin()
    y.add_(1)
    return x * 2, spoiled, y


def scatters_too_little(x):
    return x * 2, x.scatter_add(0, torch.zeros(1, 4, dtype=torch.int64), x)


@pytest.mark.compiles
@pytest.mark.parametrize("function", [spoils_one_of_two, scatters_too_little], ids=lambda each: each.__name__)
def test_a_derivative_that_does_not_exist_is_rejected_when_it_is_asked_for(function):
    """A missing derivative raises autograd's own error when it is needed; the derivative of another result works."""
    x = learning(3, 4)
    with pytest.warns(GeneratedCodeWarning, match="cannot trace the graph"):
        results = nbcompile.compile(function)(x)
    torch.testing.assert_close(results, function(x))
    (gradient,) = torch.autograd.grad(results[0].sum(), x, retain_graph=True)
    torch.testing.assert_close(gradient, torch.full((3, 4), 2.0))
    with pytest.raises(RuntimeError) as told:
        results[1].sum().backward()
    with pytest.raises(RuntimeError) as eager:
        function(x)[1].sum().backward()
    assert str(told.value).partition(":")[0] == str(eager.value).partition(":")[0]


def test_hooks_on_saved_tensors_see_what_is_kept():
    """A user's ``saved_tensors_hooks`` get the saved tensors of a compiled step, with eager's gradients."""
    seen = []

    def pack(tensor):
        seen.append(type(tensor).__name__)
        return tensor

    x = learning(5)
    compiled = nbcompile.compile(lambda x: torch.sin(x.exp()))
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda kept: kept):
        result = compiled(x)
    result.sum().backward()
    torch.testing.assert_close(x.grad, torch.autograd.grad(torch.sin(x.exp()).sum(), x)[0])
    assert "Tensor" in seen


class Grows(nn.Module):
    """Symbolic sizes in views, in arithmetic, and as a result."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 6)
        self.norm = nn.LayerNorm(6)

    def forward(self, x):
        y = F.gelu(self.layer(x)) * x.shape[0]
        y = torch.softmax(y.view(x.shape[0] * 2, 3), -1).view(x.shape) + self.norm(F.pad(x, (1, 0))[:, :-1])
        return torch.cat([y, x.new_ones(x.shape[0] // 2, 6)]), y.sum() / (x.shape[0] + 1)


@pytest.mark.fast_path
@pytest.mark.parametrize("backend", ["aot_eager", "aot_eager_decomp_partition", "inductor"])
def test_symbolic_sizes_train_without_autograds_tracer(backend, monkeypatch, caplog):
    """A training step with symbolic sizes is traced here, too; the backward graph gets the sizes as saved values."""
    monkeypatch.setattr(compile, "compile_with_aot_autograd", lambda *_: pytest.fail("through AOTAutograd"))
    torch.manual_seed(0)
    model = Grows()
    compiled = nbcompile.compile(model, backend=backend)
    for rows in (4, 5, 9, 16):
        found = []
        for call in (model, compiled):
            x = torch.linspace(-2, 2, rows * 6).view(rows, 6).requires_grad_()
            whole, mean = call(x)
            found.append([whole, mean, *torch.autograd.grad(whole.square().sum() + mean, (x, *model.parameters()))])
        torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)
    assert not [each for each in caplog.records if each.levelname == "ERROR"]


def test_outputs_of_varying_size_say_so():
    """Outputs with symbolic sizes have marked dynamic dims, also if they require grad."""
    compiled = nbcompile.compile(lambda x: x.sin() * 2, dynamic=True)
    assert compiled(learning(5, 7))._dynamo_propagated_dynamic_indices == {0, 1}
