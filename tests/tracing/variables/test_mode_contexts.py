"""Context managers of modes: the mode before, the mode that they restore, and their attributes afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch

import nbcompile
from tests.support.oracle import disagreement, tried

graph_break = torch._dynamo.graph_break
enabled = torch.is_grad_enabled


def _product(x):
    return x.reshape(1, 2) @ x.reshape(2, 1)


def _entered_twice(x):
    manager = torch.no_grad()
    with manager:
        with manager:
            inner = enabled()
        outer = enabled()
    return inner, outer, enabled(), x * 2


def _entered_twice_with_a_break(x):
    manager = torch.no_grad()
    with manager:
        with manager:
            y = x * 2
            graph_break()
        outer = enabled()
    return y, outer, enabled()


def _overrides_entered_twice(x):
    manager = torch._C.DisableTorchFunctionSubclass()
    with manager, manager:
        y = x * 2
    return y, torch._C._is_torch_function_enabled()


def _by_hand_around_a_break(x):
    manager = torch.no_grad()
    manager.__enter__()
    y = x * 2
    graph_break()
    inside = enabled(), x * 3
    manager.__exit__(None, None, None)
    return y, inside, enabled()


def _autocast_by_hand_around_a_break(x):
    manager = torch.autocast("cpu", dtype=torch.bfloat16)
    manager.__enter__()
    y = _product(x)
    graph_break()
    z = _product(x)
    manager.__exit__(None, None, None)
    return y, z, torch.is_autocast_enabled("cpu")


def _inference_by_hand_around_a_break(x):
    manager = torch.inference_mode()
    manager.__enter__()
    y = x * 2
    graph_break()
    z = x * 2
    manager.__exit__(None, None, None)
    return y.is_inference(), z.is_inference(), torch.is_inference_mode_enabled()


def _autocast_gives_itself(x):
    manager = torch.autocast("cpu", dtype=torch.bfloat16)
    with manager as target:
        y = _product(x)
    return y, manager is target, target is None


def _attributes(x):
    manager, other = torch.no_grad(), torch.enable_grad()
    before = manager.prev, hasattr(other, "prev"), hasattr(manager, "mode")
    with manager, other:
        y = x * 2
    return before, manager.prev, other.prev, y


def _seen_after_a_break(x):
    manager = torch.no_grad()
    with manager:
        y = x * 2
    graph_break()
    return manager.prev, y, manager


def _generator_function(x):
    @torch.no_grad()
    def steps(value):
        yield enabled()
        yield value * 2

    iterator = steps(x)
    return next(iterator), enabled(), next(iterator)


def _generator_function_without_parentheses(x):
    @torch.inference_mode
    def steps():
        yield torch.is_inference_mode_enabled()
        yield torch.is_inference_mode_enabled()

    iterator = steps()
    return next(iterator), torch.is_inference_mode_enabled(), next(iterator), x * 2


def _generator_function_in_autocast(x):
    @torch.autocast("cpu", dtype=torch.bfloat16)
    def steps():
        yield torch.is_autocast_enabled("cpu")

    return list(steps()), x * 2


def _function_that_calls_itself(x):
    @torch.no_grad()
    def halve(value, times):
        return halve(value / 2, times - 1) if times else (value, enabled())

    return halve(x, 3), enabled(), x * 2


def _set_grad_enabled_decorates(x):
    @torch.set_grad_enabled(False)
    def double(value):
        return value * 2, enabled()

    after_decoration = enabled()
    with torch.no_grad():
        inside = double(x), enabled()
    return after_decoration, double(x), inside, enabled()


def _set_grad_enabled_decorates_before_a_break(x):
    @torch.set_grad_enabled(False)
    def double(value):
        return value * 2, enabled()

    torch.set_grad_enabled(False)
    y = x * 2
    graph_break()
    between = enabled()
    torch.set_grad_enabled(True)
    return y, between, double(x), enabled()


PROGRAMS = [
    _entered_twice,
    _entered_twice_with_a_break,
    _overrides_entered_twice,
    _by_hand_around_a_break,
    _autocast_by_hand_around_a_break,
    _inference_by_hand_around_a_break,
    _autocast_gives_itself,
    _attributes,
    _seen_after_a_break,
    _generator_function,
    _generator_function_without_parentheses,
    _generator_function_in_autocast,
    _function_that_calls_itself,
    _set_grad_enabled_decorates,
    _set_grad_enabled_decorates_before_a_break,
]


@pytest.fixture
def overrides() -> Iterator[Callable[[], None]]:
    """A function that restores ``__torch_function__``: in torch, a manager that is entered twice leaves it disabled."""
    before = torch._C._get_torch_function_state()
    yield lambda: torch._C._set_torch_function_state(before)
    torch._C._set_torch_function_state(before)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__.strip("_"))
def test_modes_are_those_of_eager_mode(program, overrides):
    """Results, modes during and after the blocks, and attributes of the managers are eager mode's."""

    def scenario(compiled):
        function = compiled(program)
        for requires_grad in (False, True, True):
            overrides()
            with torch.enable_grad():
                yield tried(function, torch.tensor([1.0, 2.0], requires_grad=requires_grad))
                yield enabled(), torch.is_autocast_enabled("cpu"), torch.is_inference_mode_enabled()

    assert not disagreement(scenario)


def test_autocast_entered_twice_stays_on():
    """The outer exit restores the mode that the inner entry stored, so autocast stays on, as in eager mode."""

    def function(x):
        manager = torch.autocast("cpu", dtype=torch.bfloat16)
        with manager, manager:
            y = _product(x)
        after = torch.is_autocast_enabled("cpu"), _product(x)
        torch.set_autocast_enabled("cpu", False)
        return y, after

    def scenario(compiled):
        yield compiled(function)(torch.tensor([1.0, 2.0]))
        yield torch.is_autocast_enabled("cpu")

    assert not disagreement(scenario)


def test_a_manager_of_the_user_keeps_what_it_found():
    """A manager that is entered in a compiled function and exited outside restores the mode before its entry."""
    manager = torch.no_grad()

    def enter(x):
        manager.__enter__()
        return x * 2

    with torch.enable_grad():
        nbcompile.compile(enter, backend="eager")(torch.ones(2))
        inside = enabled()
        manager.__exit__(None, None, None)
        assert (inside, enabled()) == (False, True)
