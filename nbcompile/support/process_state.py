"""Process state: one object that knows all that modules remember between calls, and one ``reset``.

    _logged: set[object] = STATE.add("observe.torch_logs._logged", set(), Lifetime.RESET)
    STATE.parts()       [StatePart("observe.torch_logs._logged", {...}, Lifetime.RESET), ...]
    STATE.reset()       calls the functions that are marked with @STATE.on_reset; ``nbcompile.reset()`` does this

A module keeps its part under its own name, so that a look-up costs what it always did. No other variable of a
module may change after its import, but for tables that imports fill; tests/test_house.py holds modules to that. What
``functools.cache`` keeps is no state: it is a function's result, and the same at each call.

In torch: torch/_dynamo/__init__.py (reset) names the caches that it clears one by one. Read next:
nbcompile/dispatch/cache.py
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar

Value = TypeVar("Value")
Forget = TypeVar("Forget", bound=Callable[[], None])


class Lifetime(Enum):
    """The time for which a part of the state means something."""

    RESET = "until nbcompile.reset()"
    OWNER = "as long as the object that it describes: a weak reference, or taken out when that ends"
    TASK = "as long as something is being done: a compile, a build, a call, a block"
    PROCESS = "as long as the process: a setting or a mark of the user's, a number that is never given twice"


@dataclass(frozen=True, slots=True)
class StatePart:
    """One object that changes while the process runs."""

    name: str
    """Module and variable, without ``nbcompile.``."""
    value: object
    lifetime: Lifetime


class ProcessState:
    """All parts, by name, and the functions that forget."""

    def __init__(self) -> None:
        self._parts: dict[str, StatePart] = {}
        self._forget: list[Callable[[], None]] = []

    def add(self, name: str, value: Value, lifetime: Lifetime) -> Value:
        """Register an object, and return it; a name that is added again has a new object from then on."""
        self._parts[name] = StatePart(name, value, lifetime)
        return value

    def on_reset(self, forget: Forget) -> Forget:
        """Mark a function that empties the parts of its module; :meth:`reset` calls it."""
        self._forget.append(forget)
        return forget

    def reset(self) -> None:
        """Clear the state with the lifetime of a reset; modules that were never imported have no state."""
        for forget in self._forget:
            forget()

    def parts(self) -> list[StatePart]:
        """All registered parts, by name."""
        return [self._parts[name] for name in sorted(self._parts)]


STATE = ProcessState()
"""The state of this process."""
