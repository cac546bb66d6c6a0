"""Small values are inlined into the kernels that read them."""

import pytest
import torch

import nbcompile
from nbcompile.scheduling import inline
from tests.support.lowered import programs


def scaled(*inputs):
    """An optimizer step: each tensor is scaled by a separate factor, computed from one element."""
    half = len(inputs) // 2
    return tuple(x * (1 - y * 0.9) for x, y in zip(inputs[:half], inputs[half:], strict=True))


def given(count):
    return (*(torch.randn(8) for _ in range(count)), *(torch.randn(1) for _ in range(count)))


def test_a_number_is_computed_by_its_reader():
    """The factor is not stored."""
    _, plan = programs(scaled, *given(3))
    assert sum(len(kernel.writes) for kernel in plan.kernels()) == 3
    assert not any(kernel.scratch for kernel in plan.kernels())


def test_more_tensors_are_not_looked_through_for_each(monkeypatch):
    """The number of calls of ``reads`` grows linearly with the number of tensors."""
    looks = []
    real = inline.reads
    monkeypatch.setattr(inline, "reads", lambda buffer: looks.append(1) or real(buffer))
    counts = []
    for count in (10, 20):
        looks.clear()
        programs(scaled, *given(count))
        counts.append(len(looks))
    assert counts[1] <= 2.2 * counts[0], counts


OVERWRITTEN = {
    "divided": lambda a: a.div_(a[0] + 1),
    "copied": lambda a: a.copy_(a[0] * 2),
    "a slice": lambda a: (a.mul_(a), a[1:].copy_(a[0]))[0],
    "set": lambda a: (a.mul_(a), a.__setitem__(slice(1, None), a[:1]))[0],
    "every second": lambda a: (a.mul_(2), a.__setitem__(slice(1, 4, 2), a[2]))[0],
    "masked": lambda a: (a.mul_(a), a.masked_fill_(torch.arange(a.shape[-1]) > 0, a.view(-1)[0].clone()))[0],
    "a chain": lambda a: a.copy_((a[:1] * 2 + 1).expand_as(a) + a),
}


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("shape", [(33,), (5, 7), (300, 70)], ids=str)
@pytest.mark.parametrize("name", OVERWRITTEN)
def test_what_a_kernel_overwrites_is_computed_before(name: str, shape: tuple[int, ...]) -> None:
    """`a.div_(a[0] + 1)` divides all elements by the value of the first one before the call."""
    found = (torch.arange(torch.Size(shape).numel()) % 13 + 3).view(shape).double()
    expected = found.clone()
    OVERWRITTEN[name](expected)
    nbcompile.compile(OVERWRITTEN[name])(found)
    assert torch.equal(found, expected)
