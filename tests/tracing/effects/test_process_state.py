"""State of the process that tracing restores."""

from __future__ import annotations

import pytest
import torch

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
