"""Lazy import: a module is imported when an attribute of it is first used.

    if TYPE_CHECKING:
        from nbcompile.driver import stages
    else:
        stages = lazy_import.module("nbcompile.driver.stages")      nothing is imported yet
    stages.compile_frame(...)                                      now it is

Only entry points import lazily: a person who loads nbcompile, or a process whose functions were compiled by an
earlier one, needs neither SymPy nor the tracer nor the views. Inside a package, imports are at the top and eager.

In torch: torch/_dynamo/utils.py imports most of torch. Read next: nbcompile/eval_frame/first_call.py
"""

from __future__ import annotations

import gc
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

FROZEN = 1000
"""Number of frozen objects above which the application itself called ``gc.freeze()``: a bare interpreter has some
thousands of objects. Python 3.12 counts its own immortal objects, 375, as frozen."""


class LazyModule:
    """Proxy for a module that is imported at the first look-up of an attribute."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._module: ModuleType | None = None

    def __getattr__(self, attribute: str) -> object:
        if self._module is None:
            with importing():
                self._module = importlib.import_module(self.name)
        return getattr(self._module, attribute)


def module(name: str) -> LazyModule | ModuleType:
    """A module, imported at first use."""
    return LazyModule(name)


@contextmanager
def importing() -> Iterator[None]:
    """Move objects created by an import to the oldest generation of the collector without a traversal: modules stay."""
    with collector_paused():
        yield
        if gc.get_freeze_count() < FROZEN:  # else the application froze objects, and unfreeze() would undo that
            # freeze moves all objects to the permanent generation, unfreeze moves them from there to the oldest one.
            gc.freeze()
            gc.unfreeze()


@contextmanager
def collector_paused() -> Iterator[None]:
    """Disable the collector while many long-lived objects are created: collections would traverse the heap in vain."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
