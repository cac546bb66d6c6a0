"""Sequences of sizes and numbers give eager mode's results with every backend, and their guards hold."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._dynamo
from torch.fx.experimental import symbolic_shapes
from torch.fx.experimental.symbolic_shapes import ConstraintViolationError

import nbcompile
from nbcompile.record import recorder

pytestmark = pytest.mark.usefixtures("nothing_compiled")


def halves(x: torch.Tensor, k: float) -> Any:
    return x * k, k * 2, k + 1 if k > 1 else k - 1


def turned(x: torch.Tensor) -> torch.Tensor:
    x.t_()
    return x * x.shape[0]


def branches(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] == 10:
        return x * 2
    return x * 200 if x.shape[0] <= 30 else x + 1


def changed(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x[:] = y.sum(0)
    y.mul_(2)
    return x + y.shape[0]


random = torch.randn
PROGRAMS: dict[str, tuple[Callable[..., Any], list[tuple[Any, ...]]]] = {
    "sizes": (
        lambda x: x * x.shape[0] + x.size(1),
        [(random(n, m),) for n, m in ((3, 3), (4, 4), (5, 6), (1, 2), (0, 3))],
    ),
    "floats": (halves, [(random(2), k) for k in (0.5, 1.5, 2.5, -1.0, 0.0)]),
    "ints": (lambda x, k: x[:k].sum(0) * k, [(random(9, 2), k) for k in (3, 4, 1, 0, 8)]),
    "in place": (turned, [(random(n, m),) for n, m in ((2, 3), (4, 3), (5, 7))]),
    "two inputs": (changed, [(random(3), random(n, 3)) for n in (2, 3, 4)]),
    "branches": (branches, [(random(n),) for n in (10, 20, 30, 40, 50)]),
    "strides": (lambda x: x * 2 + 1, [(random(4, 6),), (random(6, 4).t(),), (random(8, 12)[::2, ::2],)]),
    "data": (lambda x: (x.nonzero() * 2, x[x > 0] + 1), [(random(n),) for n in (3, 4, 5)]),
}


@pytest.mark.parametrize("dynamic", [None, True, False])
@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_sequence_of_sizes_or_numbers_gives_eagers_results(name: str, backend: str, dynamic: bool | None) -> None:
    """Results and arguments afterwards equal eager mode's, with the captured graph and with generated code."""
    function, calls = PROGRAMS[name]
    compiled = nbcompile.compile(function, backend=backend, dynamic=dynamic)
    for arguments in calls:
        theirs, ours = copy.deepcopy(arguments), copy.deepcopy(arguments)
        torch.testing.assert_close(compiled(*ours), function(*theirs))
        torch.testing.assert_close(ours, theirs)


def _graphs(function: Callable[..., Any], calls: list[Callable[[Any], Any]], **options: Any) -> int:
    frame_recorder = recorder.Recorder("test")
    compiled = nbcompile.compile(function, backend="eager", **options)
    with frame_recorder.listening():
        for call in calls:
            call(compiled)
    return sum(frame.graph is not None for frame in frame_recorder.frames)


@pytest.mark.parametrize("dynamic", [None, True, False])
def test_a_marked_dim_is_dynamic_whatever_else_is_said(dynamic: bool | None) -> None:
    """``mark_dynamic`` takes precedence over ``dynamic=False``."""

    def marked(n: int) -> Callable[[Any], Any]:
        def call(compiled: Any) -> Any:
            x = torch.ones(n)
            torch._dynamo.mark_dynamic(x, 0)
            return compiled(x)

        return call

    assert _graphs(lambda x: x * x.shape[0], [marked(4), marked(5), marked(6)], dynamic=dynamic) == 1


def test_a_marked_dim_that_is_specialised_is_an_error() -> None:
    """A marked size that becomes a constant raises an error, as in torch.compile."""
    compiled = nbcompile.compile(lambda x: x * torch.ones(5), backend="eager")
    x = torch.ones(5)
    torch._dynamo.mark_dynamic(x, 0)
    with pytest.raises(ConstraintViolationError, match="marked L\\['x'\\].size\\(\\)\\[0\\] as dynamic"):
        compiled(x)


def test_the_bounds_of_a_mark_are_guarded() -> None:
    """A size outside the bounds of ``mark_dynamic(x, 0, min=2, max=8)`` raises an error."""
    compiled = nbcompile.compile(lambda x: x * 2, backend="eager")
    for size, rejected in ((4, False), (8, False), (9, True)):
        x = torch.ones(size)
        torch._dynamo.mark_dynamic(x, 0, min=2, max=8)
        if rejected:
            with pytest.raises(ConstraintViolationError, match="9 not in range"):
                compiled(x)
        else:
            compiled(x)


def test_a_backend_sees_inputs_as_they_were_before_tracing() -> None:
    """The example inputs do not have a shape that the traced code changed in place."""
    seen: list[Any] = []

    def backend(module: torch.fx.GraphModule, examples: list[Any]) -> Any:
        seen.append([each.dim() for each in examples if isinstance(each, torch.Tensor)])
        return module.forward

    def f(x: torch.Tensor) -> torch.Tensor:
        x.unsqueeze_(0)
        return x + x.shape[1]

    compiled = nbcompile.compile(f, backend=backend, dynamic=True)
    assert compiled(torch.ones(3)).shape == (1, 3)
    assert seen == [[1]]


def reshaped(x: torch.Tensor) -> torch.Tensor:
    x.unsqueeze_(0)
    return x


def squeezed(x: torch.Tensor) -> torch.Tensor:
    x.squeeze_()
    return x + 1


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("function", [reshaped, squeezed])
def test_a_view_that_gets_other_sizes_in_place(function: Callable[..., Any], backend: str) -> None:
    """A view stays in the memory of its base; a tensor that is not a view fails the guard, without an error."""
    compiled = nbcompile.compile(function, backend=backend, dynamic=True)
    memory = torch.arange(90.0)
    inputs: list[Callable[[], torch.Tensor]] = [
        lambda: memory.view(6, 15)[:, 3:],
        lambda: memory.view(5, 18)[:, 4:],
        lambda: memory[:60].view(4, 15)[:, 1:],
        lambda: torch.ones(0).set_(memory.untyped_storage(), 3, (4, 5), (10, 1)),
    ]
    for make in inputs:
        one, other = make(), make()
        expected, found = function(other), compiled(one)
        assert torch.equal(found, expected)
        assert (found.stride(), found.storage_offset()) == (expected.stride(), expected.storage_offset())
        assert (one.shape, one.stride(), one.storage_offset()) == (other.shape, other.stride(), other.storage_offset())


def test_what_is_forbidden_in_a_graph_is_an_error() -> None:
    """``mark_dynamic`` inside a compiled function raises an error, as a forbidden function does."""

    @torch._dynamo.forbid_in_graph
    def forbidden(x: torch.Tensor) -> torch.Tensor:
        return x

    def marks(x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.mark_dynamic(x, 0)
        return x * 2

    for function in (lambda x: forbidden(x) + 1, marks):
        with pytest.raises(AssertionError, match="forbidden callable"):
            nbcompile.compile(function, backend="eager")(torch.ones(3))


def test_guards_that_were_left_suppressed():
    """torch's switch that suppresses guards is off while a frame is traced, even if an exception left it on."""
    symbolic_shapes.TLS.suppress_guards = True
    try:
        f = nbcompile.compile(lambda x, n: [x * i for i in range(n)], backend="eager")
        assert [len(f(torch.ones(3), n)) for n in (2, 3, 1, 4)] == [2, 3, 1, 4]
    finally:
        symbolic_shapes.TLS.suppress_guards = False


@pytest.mark.parametrize("numbers", [(3, 4, 2**63, 5, 2**70, -(2**64)), (2**63, 2**63 + 1, 5, 6, 2**65)])
def test_an_int_beyond_int64_is_a_constant(numbers):
    """An int that does not fit into an int64 is a constant, and needs a separate cache entry."""

    def f(x, k):
        return x + k % 7, k + 1

    compiled = nbcompile.compile(f)
    for k in numbers:
        result, expected = compiled(torch.ones(2), k), f(torch.ones(2), k)
        assert torch.equal(result[0], expected[0]) and result[1] == expected[1]
