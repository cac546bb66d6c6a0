"""Graphs that only compute their results, without side effects."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from nbcompile.tracing.graph.purity import Purity


def seen(function, *inputs):
    """True if the operators of a function only compute their results."""
    purity = Purity()

    class See(TorchDispatchMode):
        def __torch_dispatch__(self, operator, types, arguments=(), keywords=None):
            purity.see(operator, arguments, keywords or {})
            return operator(*arguments, **(keywords or {}))

    with See():
        function(*inputs)
    assert purity.operators
    return purity.holds(inputs)


@torch.library.custom_op("nbcompile_purity::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@pytest.mark.parametrize(
    ("function", "only_computes"),
    [
        (lambda x: x.sin() + x, True),
        (lambda x: (x * 2).add_(1), True),
        (lambda x: x.add_(1), False),
        (lambda x: x[1:].mul_(2), False),
        (lambda x: torch.sin(x, out=x), False),
        (lambda x: torch.add(x, 1, out=torch.empty(3)), True),
        (lambda x: torch.rand_like(x), False),
        (lambda x: x.clone().uniform_(), False),
        (doubled, False),
    ],
    ids=["pure", "own memory", "an input", "a view", "out=input", "out=new", "random", "random in place", "custom"],
)
def test_what_others_can_see(function, only_computes):
    """Mutations of inputs, random numbers, and operators of other libraries are visible outside."""
    assert seen(function, torch.ones(3)) == only_computes


def test_statistics_of_batch_norm_are_written():
    """Batch norm in training mode mutates its statistics, although its schema does not say so."""
    statistics = torch.zeros(3), torch.ones(3)
    function = lambda x: torch.batch_norm(x, None, None, *statistics, True, 0.1, 1e-5, False)  # noqa: E731
    assert not seen(function, torch.randn(4, 3))


@pytest.mark.parametrize(
    ("target", "operators", "only_computes"),
    [
        ("register_hook", 0, False),
        ("requires_grad_", 0, False),
        ("add_", 1, True),
        ("detach_", 0, False),
        ("dim", 0, True),
    ],
)
def test_methods_without_an_operator(target, operators, only_computes):
    """A mutating method that runs no operator has an effect that no operator shows."""
    purity = Purity()
    purity.note_call(target, {}, operators)
    assert purity.computes == only_computes


def test_a_function_of_the_users_is_not_looked_into():
    """A user's function is not analysed; a function of torch is judged by its operators."""
    purity = Purity()
    purity.note_call(torch.nn.functional.relu, {}, 1)
    assert purity.computes
    purity.note_call(test_a_function_of_the_users_is_not_looked_into, {}, 1)
    assert not purity.computes
