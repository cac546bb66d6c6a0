"""Forward-mode AD around a compiled function: compiled code would drop the tangents of its inputs."""

import pytest
import torch
import torch.autograd.forward_ad as forward_ad

import nbcompile

torch.manual_seed(0)
LINEAR, CONVOLUTION, NORM = torch.nn.Linear(6, 5), torch.nn.Conv1d(4, 3, 3), torch.nn.LayerNorm(6)
WEIGHT, BATCH = torch.randn(6, 5), torch.randn(2, 6, 3)


def product(x):
    return (x.sin() @ WEIGHT).tanh()


def linear(x):
    return LINEAR(x).relu()


def convolution(x):
    return CONVOLUTION(x).sigmoid()


def batched(x):
    return torch.bmm(torch.stack([x, x + 1]), BATCH)


def normed(x):
    return NORM(x) * x.softmax(-1)


def embedded(x):
    return torch.nn.functional.embedding(torch.tensor([1, 3]), x).exp()


def added(x):
    return torch.addmm(WEIGHT[0, :5], x, WEIGHT)


PROGRAMS = [product, linear, convolution, batched, normed, embedded, added]
X, T = torch.randn(4, 6), torch.randn(4, 6)


def differentiated(function):
    with forward_ad.dual_level():
        value, tangent = forward_ad.unpack_dual(function(forward_ad.make_dual(X, T)))
        return value.clone(), tangent.clone()


@pytest.mark.parametrize("backend", ["inductor", "aot_eager", "eager"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_tangents_of_a_compiled_function(program, backend):
    """The tangents equal eager's, before and after calls without tangents, which use the compiled code."""
    compiled = nbcompile.compile(program, backend=backend)
    expected = differentiated(program)
    for _ in range(4):
        torch.testing.assert_close(compiled(X), program(X))
    for _ in range(4):
        torch.testing.assert_close(differentiated(compiled), expected)
    for _ in range(2):
        torch.testing.assert_close(compiled(X), program(X))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_tangents_at_the_first_call(program):
    """A call without a forward-mode level recompiles, and does not use the code of the first call."""
    compiled = nbcompile.compile(program)
    torch.testing.assert_close(differentiated(compiled), differentiated(program))
    torch.testing.assert_close(compiled(X), program(X))
    torch.testing.assert_close(differentiated(compiled), differentiated(program))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize(
    "transform",
    [
        lambda f: torch.func.jvp(f, (X,), (T,)),
        lambda f: torch.func.jacfwd(f)(X),
        lambda f: torch.vmap(lambda t: torch.func.jvp(f, (X,), (t,)))(torch.stack([T, T * 2])),
        lambda f: torch.func.linearize(f, X)[1](T),
    ],
    ids=["jvp", "jacfwd", "vmap", "linearize"],
)
def test_transforms_of_forward_mode(program, transform):
    """Forward-mode transforms give eager's result around a compiled function, and inside of one."""
    expected = transform(program)
    torch.testing.assert_close(transform(nbcompile.compile(program)), expected)
    torch.testing.assert_close(nbcompile.compile(lambda: transform(program))(), expected)


def entered(x):
    level = forward_ad.enter_dual_level()
    return forward_ad.make_dual(x * 2, T + level).sin(), x + level


def left(x):
    y = x.cos()
    forward_ad.exit_dual_level()
    return y * 2


def called(function, *, enters):
    """Results and tangents of a function that exits a level that its caller entered."""
    x = X
    if not enters:
        forward_ad.enter_dual_level()
        x = forward_ad.make_dual(X, T)
    results = function(x)
    level = forward_ad._current_level
    if enters:
        results = [tuple(forward_ad.unpack_dual(result)) for result in results]
        forward_ad.exit_dual_level()
    return results, level


@pytest.mark.parametrize("backend", ["inductor", "aot_eager", "eager"])
@pytest.mark.parametrize("program", [entered, left], ids=lambda program: program.__name__)
def test_a_level_that_a_compiled_function_enters_or_leaves(program, backend):
    """A level that a compiled function enters or exits is in eager's state after each call, and not only the first."""
    expected = called(program, enters=program is entered)
    compiled = nbcompile.compile(program, backend=backend)
    for _ in range(4):
        torch.testing.assert_close(called(compiled, enters=program is entered), expected)


def unpacks(x):
    y = x.sin()
    return y * 2, forward_ad.unpack_dual(y).tangent is None


def unpacks_after_a_break(x):
    y = x.sin()
    torch._dynamo.graph_break()
    tangent = forward_ad.unpack_dual(y).tangent
    return y if tangent is None else y + tangent


@pytest.mark.parametrize("backend", ["inductor", "aot_eager", "eager"])
@pytest.mark.parametrize("program", [unpacks, unpacks_after_a_break], ids=lambda program: program.__name__)
def test_a_compiled_function_that_asks_for_a_tangent(program, backend):
    """A compiled function that asks for a tangent gets the tangent of its argument, if there is one."""
    compiled = nbcompile.compile(program, backend=backend)
    with forward_ad.dual_level():
        x = forward_ad.make_dual(X, T)
        for _ in range(3):
            for argument in (x, X):
                torch.testing.assert_close(compiled(argument), program(argument))
    torch.testing.assert_close(compiled(X), program(X))
