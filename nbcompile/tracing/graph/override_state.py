"""Override state: which modes and subclasses a call of a function of torch asks at this point of the trace.

    with Logged(): ...                                     a mode: asked before all others
    with torch._C.DisableTorchFunctionSubclass(): ...      the classes of the arguments are not asked
    with torch._C.DisableTorchFunction(): ...              nobody is

The modes that are active around the call are the first of the stack; the graph
runs with all of them set aside, because they were traced through.

In torch: SymbolicTorchFunctionState in torch/_dynamo/variables/torch_function.py.
Read next: nbcompile/tracing/calls/overrides.py
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from nbcompile import torch_internals
from nbcompile.capture.source import FunctionModeSource
from nbcompile.tracing.variables.base import LazyVariable, VariableTracker


class OverrideState:
    """The stack of function modes, and whether modes and classes are asked."""

    def __init__(self) -> None:
        """State of the process right now."""
        self.ask_modes = not torch._C._is_torch_function_all_disabled()
        self.ask_classes = torch._C._is_torch_function_enabled()
        active = torch_internals.function_modes()
        self.around: tuple[VariableTracker, ...] = tuple(
            LazyVariable(mode, FunctionModeSource(index)) for index, mode in enumerate(active)
        )
        """The modes that were active when the frame was called."""
        self.modes: list[VariableTracker] = list(self.around)
        """Those that are active now, the one that is asked first at the end."""

    def in_mode(self) -> bool:
        """True if a mode is asked."""
        return self.ask_modes and bool(self.modes)

    @contextmanager
    def below_mode(self) -> Iterator[VariableTracker]:
        """The mode that is asked; while it answers, it is not active itself."""
        mode = self.modes.pop()
        try:
            yield mode
        finally:
            self.modes.append(mode)

    @contextmanager
    def without_classes(self) -> Iterator[None]:
        """``torch._C.DisableTorchFunctionSubclass``."""
        before, self.ask_classes = self.ask_classes, False
        try:
            yield
        finally:
            self.ask_classes = before
