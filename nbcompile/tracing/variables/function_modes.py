"""A torch function mode: an object that is asked about every call of a function of torch.

    with Logged():            pushed on the stack of modes (tracing/graph/override_state.py)
        torch.sin(x)          Logged.__torch_function__(torch.sin, (), (x,)), traced through

Where entering and leaving it is no more than that, a graph may break inside of
it: the rest of the frame enters it again.

In torch: TorchFunctionModeVariable in torch/_dynamo/variables/torch_function.py.
Read next: nbcompile/tracing/calls/overrides.py
"""

from __future__ import annotations

import inspect

from torch.overrides import TorchFunctionMode

from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import VariableTracker
from nbcompile.tracing.variables.contexts import ContextVariable
from nbcompile.tracing.variables.objects import ObjectVariable


class FunctionModeVariable(ObjectVariable, ContextVariable):
    """A mode whose class does not say itself how it is entered and left."""

    has_fixed_class = True
    keeps_state = False

    def enter(self, tracer: Tracer) -> VariableTracker:
        push(tracer, self)
        return self

    def exit(self, tracer: Tracer) -> None:
        pop(tracer)


def is_plain_mode(cls: type) -> bool:
    """True if entering and leaving a mode of a class is to push and pop it."""
    return issubclass(cls, TorchFunctionMode) and all(
        inspect.getattr_static(cls, name) is inspect.getattr_static(TorchFunctionMode, name)
        for name in ("__enter__", "__exit__")
    )


def push(tracer: Tracer, mode: VariableTracker) -> None:
    """Push a mode: it is asked from now on, before the others."""
    tracer.overrides.modes.append(mode)


def pop(tracer: Tracer) -> VariableTracker:
    """The mode that was pushed last is not asked any more."""
    modes = tracer.overrides.modes
    if not modes or modes[-1] in tracer.overrides.around:
        raise breaks.unsupported(
            breaks.UNSUPPORTED_CONTEXT, "a torch function mode from outside is left", name="a torch function mode"
        )
    return modes.pop()
