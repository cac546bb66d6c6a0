"""State of the process that tracing restores."""

from __future__ import annotations

import contextlib

import pytest
import torch

import nbcompile
from nbcompile.tracing.effects.process_state import kept


@pytest.mark.parametrize(("read", "change"), [
    (torch.is_grad_enabled, lambda: torch.set_grad_enabled(False)),
    (torch.get_default_dtype, lambda: torch.set_default_dtype(torch.float64)),
    (lambda: torch.is_autocast_enabled("cpu"), lambda: torch.set_autocast_enabled("cpu", True)),
    (lambda: torch.get_autocast_dtype("cpu"), lambda: torch.set_autocast_dtype("cpu", torch.float16)),
    (torch.are_deterministic_algorithms_enabled, lambda: torch.use_deterministic_algorithms(True)),
], ids=["grad mode", "default dtype", "autocast", "autocast dtype", "deterministic"])  # fmt: skip
def test_what_is_changed_inside_is_put_back(read, change):
    """The state is restored also after an exception, with which a trace starts again."""
    before = read()
    with pytest.raises(ZeroDivisionError), kept():
        change()
        assert read() != before
        raise ZeroDivisionError
    assert read() == before


def _jvp(x):
    return torch.func.jvp(lambda s: s @ torch.ones(5), (x,), (x,))


TRANSFORMS = {
    "jvp": _jvp,
    "vmap": torch.vmap(lambda s: s @ torch.ones(5)),
    "grad": torch.func.grad(lambda s: s),
    "jvp in vmap": torch.vmap(_jvp),
}
MODES = {
    "inference_mode": torch.inference_mode,
    "suspended": lambda: torch.inference_mode(False),
    "no_grad": torch.no_grad,
}


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", TRANSFORMS)
def test_an_error_in_a_transform_leaves_the_modes_around_it(name, mode):
    """The transform is left before the mode in which it began, however the trace ends."""

    def function(x):
        with MODES[mode]():
            return TRANSFORMS[name](x)

    def caught(x):
        try:
            return function(x)
        except RuntimeError as error:
            return type(error).__name__

    for each in (function, caught):
        with pytest.raises(RuntimeError) if each is function else contextlib.nullcontext():
            nbcompile.compile(each, backend="eager")(torch.ones(2, 3))
        assert not torch.is_inference_mode_enabled() and torch.is_grad_enabled()
        assert torch._C._functorch.get_dynamic_layer_stack_depth() == 0
