"""Inputs that share memory with the inner tensors of a wrapper are written and read in program order.

In torch: test/functorch/test_aotdispatch.py (TestAOTModuleSimplified). Read next: tests/aot/test_compile.py
"""

from __future__ import annotations

import random
from collections.abc import Callable

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
    """torch.compile reads the old value of the inner tensor; our graph runs as captured, and equals eager mode."""
    ours, theirs = make(), make()
    compiled = nbcompile.compile(function, backend=backend, dynamic=dynamic)
    assert flat(compiled(*ours)) == flat(function(*theirs))
    assert flat(ours) == flat(theirs)


def test_what_shares_nothing_is_compiled():
    """Graphs whose inputs share no memory with a wrapper are compiled, also if plain tensors alias each other."""
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
    """The view has the storage offset of the input, also with symbolic sizes (in torch.compile it has offset 0)."""

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


def _checked(check: input_aliasing.AliasCheck) -> Callable[..., str]:
    return input_aliasing.with_alias_check(lambda *_: "compiled", lambda *_: "captured", check)


@pytest.mark.parametrize("static", [True, False])
def test_overlaps_are_those_of_comparing_all_pairs(static: bool) -> None:
    """For random views of one storage, the graph runs as captured exactly if a mutated view overlaps another one."""
    memory = torch.zeros(64)
    for seed in range(300):
        choose = random.Random(seed)
        spans = [(start := choose.randrange(60), choose.randrange(start, min(64, start + 6))) for _ in range(6)]
        tensors, count = [memory[start:stop] for start, stop in spans], choose.randrange(1, 6)
        check = input_aliasing.alias_check(range(count), tensors)
        if not static:
            check = input_aliasing.AliasCheck(
                *(tuple((at, None) for at, _ in part) for part in (check.written, check.read))
            )
        ranges = [(tensor.data_ptr(), tensor.data_ptr() + 4 * tensor.numel()) for tensor in tensors]
        overlap = any(
            one[0] < other[1] and other[0] < one[1]
            for at, one in enumerate(ranges[:count])
            for other in ranges[at + 1 :]
        )
        if all(start < stop for start, stop in spans):
            assert _checked(check)(*tensors) == ("captured" if overlap else "compiled")
        elif overlap:
            assert _checked(check)(*tensors) == "captured"


def test_an_answer_holds_for_the_same_addresses_only() -> None:
    """The answer of the last call is a cache hit only for inputs at the same addresses."""
    memory = torch.zeros(8)
    call = _checked(input_aliasing.alias_check([0], [memory[:4], memory[4:]]))
    apart, over = (memory[:4], memory[4:]), (memory[:4], memory[3:7])
    found = [call(*inputs) for inputs in (apart, apart, over, over, apart)]
    assert found == ["compiled", "compiled", "captured", "captured", "compiled"]


def test_extents_of_symbolic_sizes_are_read_at_each_call() -> None:
    """At the same addresses, a longer input may overlap another one."""
    memory = torch.zeros(8)
    call = _checked(input_aliasing.AliasCheck(((0, None),), ((1, None),)))
    assert call(memory[:4], memory[4:]) == "compiled"
    assert call(memory[:5], memory[4:]) == "captured"


def test_many_inputs_at_the_same_addresses_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step over the same parameters compares their addresses, and does not compare the ranges again."""
    compared = []
    overlap = input_aliasing._overlap
    monkeypatch.setattr(input_aliasing, "_overlap", lambda *given: compared.append(1) or overlap(*given))
    tensors = [torch.zeros(4) for _ in range(50)]
    call = _checked(input_aliasing.alias_check(range(25), tensors))
    assert [call(*tensors) for _ in range(5)] == ["compiled"] * 5
    assert len(compared) == 1
