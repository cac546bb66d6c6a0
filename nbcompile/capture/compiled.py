"""One cache entry: a check and the code that runs when it holds.

In torch: torch/_dynamo/types.py (GuardedCode). Read next:
nbcompile/dispatch/hook.py
"""

from __future__ import annotations

from dataclasses import dataclass
from types import CodeType
from typing import Protocol

from nbcompile.capture.guard import Guard
from nbcompile.capture.resolution import Scope
from nbcompile.record.model import FailedGuard


class Check(Protocol):
    """All guards of one entry, executable."""

    root: object
    """torch's ``RootGuardManager``: what the hook evaluates in C++."""

    @property
    def guards(self) -> tuple[Guard, ...]:
        """All of them, in the order of checking."""

    def holds(self, scope: Scope) -> bool:
        """Evaluate once, here and now."""

    def failure(self, scope: Scope, compile_id: str) -> FailedGuard | None:
        """The first guard that fails, with the value that differed; None if all hold."""

    def failures(self, scope: Scope, compile_id: str) -> tuple[FailedGuard, ...]:
        """Every guard that fails."""


@dataclass(slots=True)
class CompiledFrame:
    """The driver's result for one frame, which the hook receives."""

    compile_id: str
    code: CodeType
    check: Check
    backend: object
