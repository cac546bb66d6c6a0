"""Modules that are imported when something of them is used first.

    if TYPE_CHECKING:
        from nbcompile import driver
    else:
        driver = later.module("nbcompile.driver")      nothing is imported yet
    driver.compile_frame(...)                          now it is

Only doors wait for what stands behind them: a person who loads nbcompile, or a process whose functions were
compiled by an earlier one, needs neither SymPy nor the tracer nor the views. Inside a storey, imports stand at the
top and are real.

In torch: torch/_dynamo/utils.py imports most of torch. Read next: nbcompile/first_call.py
"""

from __future__ import annotations

import gc
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

FROZEN = 1000
"""Whoever freezes what there is has frozen more: a bare interpreter has some thousands. Python 3.12 keeps its own
immortal objects, 375, where the frozen ones are."""


class Later:
    """Stands for a module until it is used."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._module: ModuleType | None = None

    def __getattr__(self, attribute: str) -> object:
        if self._module is None:
            with importing():
                self._module = importlib.import_module(self.name)
        return getattr(self._module, attribute)


def module(name: str) -> Later | ModuleType:
    """A module, imported at first use."""
    return Later(name)


@contextmanager
def importing() -> Iterator[None]:
    """For modules, which stay: what they made joins the oldest generation without being looked through."""
    with collector_paused():
        yield
        if gc.get_freeze_count() < FROZEN:  # else somebody keeps objects frozen, and unfreezing would thaw them
            gc.freeze()
            gc.unfreeze()


@contextmanager
def collector_paused() -> Iterator[None]:
    """For what makes many objects that stay: collections meanwhile would look through the user's whole heap in vain."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
