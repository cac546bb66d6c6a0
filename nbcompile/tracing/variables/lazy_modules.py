"""Modules whose parameters get their sizes from the first input: ``nn.LazyLinear``.

    layer = nn.LazyLinear(4)
    layer(x)          x: (2, 3), so the real weight becomes (4, 3), the class nn.Linear; then the trace restarts

The real parameters are created while tracing, by the module's own method, for an
input without data. Eager creates them at this point, too.

In torch: torch/_dynamo/utils.py (initialize_lazy_module). Read next:
nbcompile/tracing/variables/nn_module.py
"""

from __future__ import annotations

from typing import Any, NoReturn

import torch
from torch.nn.modules.lazy import LazyModuleMixin

from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.tensor import TensorVariable


def is_unshaped(module: object) -> bool:
    """True if a module has uninitialised parameters."""
    return isinstance(module, LazyModuleMixin) and bool(module.has_uninitialized_params())  # type: ignore[misc]


def shape(tracer: Tracer, module: Any, arguments: Arguments, keywords: Keywords) -> NoReturn:
    """Initialise the parameters of the real module.

    Raises:
        RestartAnalysis: they were initialised.
    """
    if not all(_has_sizes(realise(tracer, each)) for each in (*arguments, *keywords.values())):
        raise breaks.unsupported(breaks.UNSUPPORTED_CALL, f"{type(module).__name__}(...)", name=type(module).__name__)
    given = tuple(_without_data(realise(tracer, each)) for each in arguments)
    named = {name: _without_data(realise(tracer, each)) for name, each in keywords.items()}
    # On tensors without data: only sizes and types matter, and nothing is computed.
    module._infer_parameters(module, given, named)
    raise breaks.RestartAnalysis


def _has_sizes(value: VariableTracker) -> bool:
    return isinstance(value, TensorVariable) or value.is_constant()


def _without_data(value: VariableTracker) -> object:
    if not isinstance(value, TensorVariable):
        return value.constant()
    return torch.empty([int(size) for size in value.example.shape], dtype=value.example.dtype, device="meta")
