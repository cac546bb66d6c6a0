"""Small values that many elements need are computed where they are needed."""

import torch

from nbcompile.scheduling import inline
from tests.support.lowered import programs


def scaled(*inputs):
    """A step of an optimizer, so to say: each tensor by a number of its own, computed from one element."""
    half = len(inputs) // 2
    return tuple(x * (1 - y * 0.9) for x, y in zip(inputs[:half], inputs[half:], strict=True))


def given(count):
    return (*(torch.randn(8) for _ in range(count)), *(torch.randn(1) for _ in range(count)))


def test_a_number_is_computed_by_its_reader():
    """Nothing is stored for it."""
    _, plan = programs(scaled, *given(3))
    assert sum(len(kernel.writes) for kernel in plan.kernels()) == 3
    assert not any(kernel.scratch for kernel in plan.kernels())


def test_more_tensors_are_not_looked_through_for_each(monkeypatch):
    """Twice as many take twice as many looks."""
    looks = []
    real = inline.reads
    monkeypatch.setattr(inline, "reads", lambda buffer: looks.append(1) or real(buffer))
    counts = []
    for count in (10, 20):
        looks.clear()
        programs(scaled, *given(count))
        counts.append(len(looks))
    assert counts[1] <= 2.2 * counts[0], counts
