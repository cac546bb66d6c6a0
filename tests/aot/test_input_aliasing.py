"""Inputs that share memory through a wrapper's parts are written and read in the user's order.

In torch: test/functorch/test_aotdispatch.py (TestAOTModuleSimplified). Read next: tests/aot/test_compile.py
"""

from __future__ import annotations

import pytest
import torch
from torch.testing._internal.two_tensor import TwoTensor

import nbcompile
from nbcompile.aot import input_aliasing


def two(a: torch.Tensor | None = None) -> TwoTensor:
    return TwoTensor(torch.ones(3) if a is None else a, torch.full((3,), 2.0))


def part_is_written(x: TwoTensor) -> torch.Tensor:
    x.a.add_(1)
    return x * 2


def whole_is_written(x: TwoTensor) -> tuple[torch.Tensor, torch.Tensor]:
    part = x.a
    x.mul_(3)
    return part + 1, x + 1


def one_of_two_that_share(x: TwoTensor, y: TwoTensor) -> tuple[torch.Tensor, torch.Tensor]:
    x.add_(1)
    return x * 2, y * 2


def part_and_plain(x: TwoTensor, plain: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    plain.add_(1)
    return x * 2, plain * 2


def shared() -> tuple[TwoTensor, TwoTensor]:
    a = torch.ones(3)
    return two(a), two(a)


def with_plain() -> tuple[TwoTensor, torch.Tensor]:
    a = torch.ones(4)
    return two(a[:3]), a


def nested() -> tuple[TwoTensor, torch.Tensor]:
    a = torch.ones(3)
    return TwoTensor(two(a), two()), a


CASES = [
    (part_is_written, lambda: (two(),)),
    (whole_is_written, lambda: (two(),)),
    (one_of_two_that_share, shared),
    (part_and_plain, with_plain),
    (part_and_plain, nested),
]


def flat(value: object) -> list[list[float]]:
    if isinstance(value, TwoTensor):
        return [*flat(value.a), *flat(value.b)]
    return [value.tolist()] if isinstance(value, torch.Tensor) else [each for one in value for each in flat(one)]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize(("function", "make"), CASES)
def test_results_and_inputs_are_as_in_eager(function, make, backend, dynamic):
    """torch.compile reads the old part: such graphs run as they were captured."""
    ours, theirs = make(), make()
    compiled = nbcompile.compile(function, backend=backend, dynamic=dynamic)
    assert flat(compiled(*ours)) == flat(function(*theirs))
    assert flat(ours) == flat(theirs)


def test_what_shares_nothing_is_compiled():
    """A wrapper beside other tensors, and plain tensors that are views of each other."""
    base = torch.ones(4)
    assert not input_aliasing.has_aliased_wrapper([two(), two(), base, base[1:]])
    assert input_aliasing.has_aliased_wrapper([two(base[:3]), base[2:]])


def apart() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ones(3), torch.arange(4.0)


def prefix() -> tuple[torch.Tensor, torch.Tensor]:
    base = torch.arange(4.0)
    return base[:3], base


def beside() -> tuple[torch.Tensor, torch.Tensor]:
    base = torch.arange(8.0)
    return base[:3], base[4:]


def across() -> tuple[torch.Tensor, torch.Tensor]:
    base = torch.arange(8.0)
    return base[:3], base[2:6]


def write_second(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    y.add_(1)
    return x * 2, y * 3


def write_both(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    x.mul_(2)
    y[:3].add_(x.clone())
    return x + 1, y


def write_with_gradient(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    with torch.no_grad():
        y.add_(1)
    return x * 2, (x * y[:3]).sum() * WEIGHT


WEIGHT = torch.tensor(2.0, requires_grad=True)
PAIRS = (apart, prefix, beside, across)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("function", [write_second, write_both, write_with_gradient])
@pytest.mark.parametrize("first", PAIRS)
def test_inputs_that_overlap_in_some_calls(first, function, backend, dynamic):
    """One compiled graph serves calls whose inputs overlap and calls whose inputs do not, whichever came first."""
    compiled = nbcompile.compile(function, backend=backend, dynamic=dynamic)
    for make in (first, *PAIRS, first):
        ours, theirs = make(), make()
        assert flat(compiled(*ours)) == flat(function(*theirs))
        assert flat(ours) == flat(theirs)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize(
    "view", [lambda x: x.view_as(x), lambda x: x.chunk(1)[0], lambda x: x.broadcast_to(x.shape), lambda x: x[1:]]
)
def test_a_view_of_a_written_input_that_begins_inside_of_its_storage(view, backend):
    """It lies where the input does, also if its sizes are symbolic (torch: at the beginning of the storage)."""

    def f(x):
        x.div_(1.5)
        return view(x)

    compiled = nbcompile.compile(f, backend=backend, dynamic=True)
    for start in (3, 1, 0, 4):
        one, other = torch.arange(10.0)[start : start + 4], torch.arange(10.0)[start : start + 4]
        found, expected = compiled(one), f(other)
        assert torch.equal(found, expected)
        assert found.data_ptr() - one.data_ptr() == expected.data_ptr() - other.data_ptr()
        assert torch.equal(one, other)
