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

import importlib
from types import ModuleType


class Later:
    """Stands for a module until it is used."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, attribute: str) -> object:
        return getattr(importlib.import_module(self.name), attribute)


def module(name: str) -> Later | ModuleType:
    """A module, imported at first use."""
    return Later(name)
