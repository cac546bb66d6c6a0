"""A torch function mode: an object that overrides every call of a function of torch.

    with Logged():            pushed on the stack of modes (tracing/graph/override_state.py)
        torch.sin(x)          Logged.__torch_function__(torch.sin, (), (x,)), traced through

If entry and exit only push and pop the mode, a graph may break inside of it: the
resume function enters it again.

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
    """A mode whose class does not override entry and exit."""

    has_fixed_class = True
    keeps_state = False

    def enter(self, tracer: Tracer) -> VariableTracker:
        push(tracer, self)
        return self

    def exit(self, tracer: Tracer) -> None:
        pop(tracer)


def is_plain_mode(cls: type) -> bool:
    """True if entry and exit of a mode of a class only push and pop it."""
    return issubclass(cls, TorchFunctionMode) and all(
        inspect.getattr_static(cls, name) is inspect.getattr_static(TorchFunctionMode, name)
        for name in ("__enter__", "__exit__")
    )


def push(tracer: Tracer, mode: VariableTracker) -> None:
    """Push a mode: it is called from now on, before the others."""
    tracer.overrides.modes.append(mode)


def pop(tracer: Tracer) -> VariableTracker:
    """Pop the mode that was pushed last."""
    modes = tracer.overrides.modes
    if not modes or modes[-1] in tracer.overrides.around:
        raise breaks.unsupported(
            breaks.UNSUPPORTED_CONTEXT, "a torch function mode from outside is left", name="a torch function mode"
        )
    return modes.pop()
