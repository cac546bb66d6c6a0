"""Training of compiled code, as users write it: gradients equal eager's, through the default backend."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import nbcompile
from tests.support.observed import agrees_with_eager


def network():
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))


class Scaled(torch.autograd.Function):
    """``x * x * factor``, with a gradient ten times too large, so that a test can see that it is used."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * x * factor

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 20 * x * grad * ctx.factor, None


class Product(torch.autograd.Function):
    """A product with ``setup_context``, and a second result without a gradient."""

    @staticmethod
    def forward(x, y):
        return x @ y, x.sum() > 0

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, grad, _):
        x, y = ctx.saved_tensors
        return grad @ y.t(), x.t() @ grad


# --- programs ----------------------------------------------------------------------------------------------------------


def gradients_accumulate(compiled):
    model = network()
    run, x = compiled(model), torch.randn(5, 8)
    for step in range(3):
        run(x + step).pow(2).mean().backward()
    return list(model.parameters())


def hook_on_an_intermediate(compiled):
    w = torch.randn(4, requires_grad=True)

    def function(x):
        y = x * 2
        y.register_hook(lambda grad: grad * 3)
        return (y * y).sum()

    compiled(function)(w).backward()
    return w


def hooks_on_parameters(compiled):
    model, seen = network(), []
    model[0].weight.register_hook(lambda grad: grad * 2)
    model[3].bias.register_post_accumulate_grad_hook(lambda p: seen.append(tuple(p.grad.shape)))
    compiled(model)(torch.randn(3, 8)).sum().backward()
    return list(model.parameters()), seen


def hooks_on_modules(compiled):
    model, x = network(), torch.randn(3, 8, requires_grad=True)
    model[0].register_forward_pre_hook(lambda module, inputs: (inputs[0] + 1,))
    model[1].register_forward_hook(lambda module, inputs, output: output * 2)
    model[1].register_full_backward_hook(lambda module, inner, outer: (inner[0] * 2,))
    model[3].register_full_backward_pre_hook(lambda module, outer: (outer[0] * 3,))
    result = compiled(model)(x)
    result.sum().backward()
    return result, x, list(model.parameters())


def own_derivative(compiled):
    x = torch.randn(4, requires_grad=True)
    result = compiled(lambda x: Scaled.apply(x.sin(), 3).cos().sum(), fullgraph=True)(x)
    result.backward()
    return result, x


def own_derivative_with_setup_context(compiled):
    x, y = (torch.randn(*shape, requires_grad=True) for shape in ((4, 3), (3, 2)))
    product, positive = compiled(Product.apply)(x, y)
    product.relu().sum().backward()
    return product, positive, x, y


def checkpointed(compiled):
    model, x = network(), torch.randn(3, 8, requires_grad=True)
    result = compiled(lambda x: checkpoint(model, x, use_reentrant=False).sum(), fullgraph=True)(x)
    result.backward()
    return result, x, list(model.parameters())


def checkpointed_by_reentry(compiled):
    model, x = network(), torch.randn(3, 8, requires_grad=True)
    result = compiled(lambda x: checkpoint(model, x, use_reentrant=True).sum())(x)
    result.backward()
    return result, x, list(model.parameters())


def checkpointed_random_numbers_are_the_same(compiled):
    x = torch.rand(64, 8).add_(1).requires_grad_()

    def dropped(x):
        return F.dropout(x, 0.5) * x

    result = compiled(lambda x: checkpoint(dropped, x, use_reentrant=False))(x)
    result.sum().backward()
    return torch.allclose(x.grad, 2 * result.detach() / x.detach(), rtol=1e-3)


def backward_and_step_inside(compiled):
    model, x = network(), torch.randn(3, 8)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x):
        optimiser.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimiser.step()
        return loss.detach()

    run = compiled(step)
    return [run(x) for _ in range(3)], list(model.parameters())


def autocast_inside_and_outside(compiled):
    model, x = network(), torch.randn(3, 8)

    def function(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(x)

    run, inside = compiled(model), compiled(function)(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outside = run(x)
    (inside + outside).float().sum().backward()
    return inside, outside, run(x), [each.grad.to(torch.bfloat16) for each in model.parameters()]


def scaled_gradients(compiled):
    model, x = network(), torch.randn(3, 8)
    run, optimiser = compiled(model), torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    for _ in range(2):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = run(x).float().pow(2).mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimiser)
        scaler.step(optimiser)
        scaler.update()
        optimiser.zero_grad()
    return [each.detach().to(torch.bfloat16) for each in model.parameters()]


def graph_is_retained(compiled):
    x = torch.randn(4, requires_grad=True)
    result = compiled(lambda x: (x.exp() * x).sum())(x)
    result.backward(retain_graph=True)
    result.backward()
    return x


def graph_is_not_retained(compiled):
    x = torch.randn(4, requires_grad=True)
    result = compiled(lambda x: (x.exp() * x).sum())(x)
    result.backward()
    result.backward()


def no_gradient_inside(compiled):
    x = torch.randn(4, requires_grad=True)

    def function(x):
        with torch.no_grad():
            scale = x.abs().max()
        return x / scale, scale, (x * 2).detach()

    results = compiled(function, fullgraph=True)(x)
    results[0].sum().backward()
    return results, x


def parameters_frozen_later(compiled):
    model, x = network(), torch.randn(3, 8)
    run = compiled(model)
    run(x).sum().backward()
    model[0].requires_grad_(False)
    model.zero_grad()
    run(x).sum().backward()
    return list(model.parameters())


def gradient_of_an_intermediate(compiled):
    x = torch.randn(4, requires_grad=True)

    def function(x):
        hidden = x.sin()
        hidden.retain_grad()
        return hidden, (hidden * hidden).sum()

    hidden, loss = compiled(function)(x)
    loss.backward()
    return x, hidden.grad


def running_statistics(compiled):
    model, x = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()), torch.randn(2, 3, 6, 6)
    run = compiled(model)
    training = run(x)
    training.sum().backward()
    model.eval()
    return training, run(x), list(model.parameters()), list(model.buffers())


def padded_and_renormed_embedding(compiled):
    model = nn.Embedding(10, 4, padding_idx=0, max_norm=1.0)
    result = compiled(model)(torch.tensor([[0, 1, 2], [2, 0, 9]]))
    result.pow(2).sum().backward()
    return result, model.weight


def recurrence(compiled):
    model, x = nn.LSTM(4, 6, 2, batch_first=True, bidirectional=True), torch.randn(2, 5, 4, requires_grad=True)
    result, (hidden, cell) = compiled(model)(x)
    (result.sum() + hidden.sum()).backward()
    return result, hidden, cell, x, list(model.parameters())


def parametrised_weights(compiled):
    model = nn.Sequential(
        torch.nn.utils.parametrizations.spectral_norm(nn.Linear(4, 5)),
        torch.nn.utils.parametrizations.weight_norm(nn.Linear(5, 3)),
    )
    result = compiled(model)(torch.randn(2, 4))
    result.sum().backward()
    return result, list(model.parameters()), list(model.buffers())


def transformer_layer(compiled):
    model = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    run, x = compiled(model), torch.randn(2, 5, 8, requires_grad=True)
    training = run(x)
    training.pow(2).sum().backward()
    model.eval()
    with torch.no_grad():
        return training, run(x), x, list(model.parameters())


def sizes_that_change(compiled):
    model, seen = network(), []
    run = compiled(model)
    for size in (3, 5, 7, 1, 0):
        x = torch.randn(size, 8, requires_grad=True)
        result = run(x)
        result.sum().backward()
        seen += [x, result]
    return seen, list(model.parameters())


def symbolic_sizes_in_the_backward(compiled):
    def function(x):
        return (x.view(-1, x.shape[0] * 2).cumsum(0).flatten()[::3] * x.shape[1]).sum() + x.expand(2, *x.shape).sum()

    run, seen = compiled(function, dynamic=True), []
    for size in (2, 3, 5):
        x = torch.randn(size, 4, requires_grad=True)
        run(x).backward()
        seen.append(x)
    return seen


def places_chosen_by_data(compiled):
    x, values = torch.randn(5, requires_grad=True), torch.randn(3, requires_grad=True)
    chosen = torch.tensor([True, False, True, True, False])

    def function(x, values):
        y = x * 2
        y[chosen] = values
        return y.sin()

    result = compiled(function)(x, values)
    result.sum().backward()
    return result, x, values


PROGRAMS = [
    gradients_accumulate, hook_on_an_intermediate, hooks_on_parameters, hooks_on_modules, own_derivative,
    own_derivative_with_setup_context, checkpointed, checkpointed_by_reentry, checkpointed_random_numbers_are_the_same,
    backward_and_step_inside, autocast_inside_and_outside, scaled_gradients, graph_is_retained, graph_is_not_retained,
    no_gradient_inside, parameters_frozen_later, gradient_of_an_intermediate, running_statistics,
    padded_and_renormed_embedding, recurrence, parametrised_weights, transformer_layer, sizes_that_change,
    symbolic_sizes_in_the_backward, places_chosen_by_data,
]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_eager(program):
    """Results, gradients and statistics of each program equal eager's."""
    agrees_with_eager(program)


# --- outcomes of torch.compile that are not eager's -------------------------------------------------------------------


def test_second_derivatives_are_rejected():
    """A second derivative is an error, as in torch.compile, and never a wrong gradient."""
    x = torch.randn(4, requires_grad=True)
    run = nbcompile.compile(lambda x: (x.sin() * x).sum())
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        (gradient,) = torch.autograd.grad(run(x), x, create_graph=True)
        gradient.sum().backward()


def test_an_unused_input_has_a_gradient_of_zeros():
    """One backward graph computes all gradients: where eager has None, there are zeros (as in torch.compile)."""
    x, y = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    first, _ = nbcompile.compile(lambda x, y: (x * 2, y * 3))(x, y)
    first.sum().backward()
    assert y.grad.tolist() == [0, 0, 0]


def saved_tensors(backend: str) -> int:
    """The number of tensors that a chain of activations saves for its backward."""
    kept = []
    x = torch.randn(32, 32, requires_grad=True)

    def function(x):
        return F.gelu(F.silu(x.sin().exp() * x.cos()).tanh()).sigmoid().sum()

    with torch.autograd.graph.saved_tensors_hooks(lambda each: kept.append(each) or each, lambda each: each):
        nbcompile.compile(function, backend=backend)(x)
    return len(kept)


def test_recomputation_saves_memory():
    """Cheap values are recomputed in the backward and not saved, as in torch's min-cut partitioner."""
    assert saved_tensors("inductor") < saved_tensors("aot_eager")
    assert saved_tensors("inductor") == 1  # only the input is saved: all else follows from it


@pytest.mark.parametrize("backend", ["aot_eager", "aot_eager_decomp_partition", "inductor"])
@pytest.mark.parametrize("last", [torch.relu, torch.clone, lambda y: y * 2])
def test_what_is_computed_under_no_grad_learns_nothing(backend, last):
    """A graph under no_grad is an inference graph, also if its inputs require grad."""
    weight = torch.nn.Parameter(torch.ones(4))

    def f(x):
        y = (x * weight).sin()
        with torch.no_grad():
            return last(y)

    nbcompile.reset()
    result = nbcompile.compile(f, backend=backend)(torch.randn(3, 4))
    assert (result.requires_grad, result.grad_fn) == (False, None)


@pytest.mark.parametrize("backend", ["aot_eager", "aot_eager_decomp_partition", "inductor"])
def test_what_is_computed_with_gradients_learns_below_no_grad(backend):
    """A graph that begins in no_grad mode and enables gradients for a part gives that part its history."""
    weight = torch.nn.Parameter(torch.ones(4))

    def f(x):
        y = (x * weight).sin()
        with torch.enable_grad():
            z = (x * weight).cos()
        return y, z

    nbcompile.reset()
    x = torch.randn(3, 4)
    compiled = nbcompile.compile(f, backend=backend)
    for _ in range(2):
        with torch.no_grad():
            y, z = compiled(x)
        assert (y.requires_grad, z.requires_grad) == (False, True)
        (gradient,) = torch.autograd.grad(z.sum(), weight)
        torch.testing.assert_close(gradient, -(x * x.sin()).sum(0))


@pytest.mark.parametrize("learns", [True, False])
def test_a_transform_is_left_when_a_tracer_gives_up(learns):
    """If a tracer gives up inside of ``vmap``, no transform stays active in the process."""
    weight = torch.ones(4, 4, requires_grad=learns)

    def f(x):
        return torch.vmap(lambda row: F.linear(row, weight).relu())(x)

    nbcompile.reset()
    result = nbcompile.compile(f)(torch.randn(3, 4))
    assert torch._C._functorch.peek_interpreter_stack() is None
    assert result.requires_grad is learns


def test_a_gradient_with_the_negative_or_conjugate_bit():
    """A backward program resolves the negative and the conjugate bit of a tangent."""
    real, imaginary = torch.randn(4), torch.randn(4)

    def gradient(called, given, inputs):
        inputs = [each.detach().clone().requires_grad_() for each in inputs]
        return torch.autograd.grad(called(*inputs), inputs, given)

    for function, given in (
        (lambda x, y: torch.sin(x) * y, torch._neg_view(torch.randn(4))),
        (lambda x, y: torch.complex(x.sin(), y), torch.randn(4, dtype=torch.complex64).conj()),
        (lambda x, y: torch.view_as_complex(torch.stack((x, y * 2), -1)), torch.randn(4, dtype=torch.complex64).conj()),
    ):
        compiled = nbcompile.compile(function)
        for now in (given.resolve_conj().resolve_neg(), given):
            wanted = gradient(function, now, (real, imaginary))
            torch.testing.assert_close(gradient(compiled, now, (real, imaginary)), wanted)
