"""Override state: the modes and subclasses whose overrides a call of a torch function runs at this point of the trace.

    with Logged(): ...                                     a mode: called before all others
    with torch._C.DisableTorchFunctionSubclass(): ...      overrides of the arguments' classes are disabled
    with torch._C.DisableTorchFunction(): ...              all overrides are disabled

The modes that are active around the call are the first of the stack; the graph
runs with all of them set aside, because they were traced through.

In torch: SymbolicTorchFunctionState in torch/_dynamo/variables/torch_function.py.
Read next: nbcompile/tracing/calls/overrides.py
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

import torch

Mode = TypeVar("Mode")


class OverrideState(Generic[Mode]):
    """The stack of function modes, and whether overrides of modes and of classes are enabled."""

    def __init__(self, active: Iterable[Mode]) -> None:
        """State of the process right now.

        Args:
            active: the function modes of the process, innermost last.
        """
        self.modes_enabled = not torch._C._is_torch_function_all_disabled()
        self.classes_enabled = torch._C._is_torch_function_enabled()
        self.around = tuple(active)
        """The modes that were active when the frame was called."""
        self.modes = list(self.around)
        """The active ones; the one that is called first is the last."""

    def in_mode(self) -> bool:
        """True if a mode is active and enabled."""
        return self.modes_enabled and bool(self.modes)

    @contextmanager
    def below_mode(self) -> Iterator[Mode]:
        """The innermost mode, which is inactive while its own override runs."""
        mode = self.modes.pop()
        try:
            yield mode
        finally:
            self.modes.append(mode)

    @contextmanager
    def without_classes(self) -> Iterator[None]:
        """``torch._C.DisableTorchFunctionSubclass``."""
        before, self.classes_enabled = self.classes_enabled, False
        try:
            yield
        finally:
            self.classes_enabled = before
