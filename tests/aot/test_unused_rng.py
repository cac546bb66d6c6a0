"""Random numbers that no node reads are drawn all the same: the generator is in eager's state afterwards."""

import pytest
import torch

import nbcompile
from nbcompile import backends
from nbcompile.aot import unused_rng
from nbcompile.backends.registry import lookup


def of_a_shape(x):
    return x + 1, torch.rand_like(x).shape


def in_place(x):
    return x + 1, torch.empty(3).normal_().shape


def into_a_view(x):
    noise = torch.zeros(2, 4)
    noise[0].uniform_()
    return x + 1, noise.dim()


def in_place_like_an_input(x):
    return x + 1, x.new_empty(3).normal_().shape, torch.empty_like(x).uniform_().dim()


def of_a_distribution(x):
    normal = torch.distributions.Normal(x.mean(), x.std() + 1)
    return x * 2, normal.rsample((2,)).shape, torch.distributions.Categorical(logits=x).sample((2,)).shape


def of_a_dropout(x):
    return x + 1, torch.nn.functional.dropout(x).shape


def into_an_out(x):
    numbers = torch.empty(4)
    torch.rand(4, out=numbers)
    return x + 1, numbers.shape


def read(x):
    return x + torch.rand_like(x), torch.nn.functional.dropout(x)


def into_what_is_read(x):
    noise = torch.zeros(2, 4)
    noise[0].uniform_()
    return x + noise.sum()


def into_an_input(x, y):
    y[0].normal_()
    return x * 2


def added_to_an_input(x, y):
    y += torch.rand_like(y)
    return x * 2


def unread_without_drawing(x):
    return x + 1, x.exp().sum(-1).shape, torch.nn.functional.dropout(x, training=False).shape


def under_a_transform(x):
    return torch.func.vmap(lambda row: row.clone().add_(1).sum())(x), torch.func.grad(lambda t: t.sin().sum())(x)


UNREAD = (of_a_shape, in_place, into_a_view, in_place_like_an_input, of_a_distribution, of_a_dropout, into_an_out)
READ = (read, into_what_is_read, into_an_input, added_to_an_input, unread_without_drawing, under_a_transform)


def arguments(function, **more):
    x = torch.linspace(-1, 1, 12).reshape(3, 4).requires_grad_(more.get("grad", False))
    return (x, torch.ones(3, 4)) if function in (into_an_input, added_to_an_input) else (x,)


@pytest.mark.parametrize("backend", ["inductor", "aot_eager"])
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("function", [*UNREAD, *READ])
def test_the_generator_goes_on_as_after_eager(function, grad, backend):
    """The results, and the next random number, equal eager's."""
    found = []
    for each in (function, nbcompile.compile(function, backend=backend)):
        torch.manual_seed(0)
        results = each(*arguments(function, grad=grad))
        found.append((results, torch.rand(3)))
    torch.testing.assert_close(*found, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("function", [*UNREAD, *READ])
def test_only_graphs_with_unread_draws_run_as_captured(function):
    """Only a graph with an unread random number runs as captured; other unread values are no reason."""
    seen = []

    def look(module, examples):
        seen.append(unused_rng.has_unused_rng(module))
        return backends.lookup("inductor")(module, examples)

    nbcompile.compile(function, backend=look)(*arguments(function))
    assert seen == [function in UNREAD]


def test_a_user_backend_keeps_gradients_in_a_graph_that_ends_without():
    """A node that only sets a mode draws nothing: running it early would leave gradients disabled for the compiler."""

    def program(x):
        y = x * 2
        torch.set_grad_enabled(False)
        return y

    x = torch.ones(2, requires_grad=True)
    with torch.enable_grad():
        y = nbcompile.compile(program, backend=lambda module, examples: lookup("inductor")(module, examples))(x)
        assert y.requires_grad and not torch.is_grad_enabled()
