"""Calls of a compiled function while another tracer of torch's runs.

    torch.jit.trace(compiled, x)          RuntimeError, as for a function of torch.compile
    torch.fx.symbolic_trace(compiled)     the same; as written with config.error_on_nested_fx_trace = False
    torch.export.export(model, (x,))      as written: the operators of the function are exported
    make_fx(compiled)(x)                  as written, also inside of torch.func.linearize; torch.compile's: RuntimeError

Such a tracer records the operators that a function calls. Compiled code calls none that it can see, and its results
would be constants of the trace. A function of a notebook's cell, which the user did not compile by name, always runs
as written.

In torch: compile_wrapper in torch/_dynamo/eval_frame.py. Read next: nbcompile/eval_frame/stances.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.compiler import is_exporting
from torch.fx._symbolic_trace import is_fx_symbolic_tracing
from torch.fx.experimental.proxy_tensor import get_proxy_mode

from nbcompile import config, errors
from nbcompile.dispatch import hook

AS_WRITTEN = "_nbcompile_traced_as_written"
"""The attribute of a wrapper that other tracers never raise for."""


_is_jit_tracing = torch._C._is_tracing


def is_active() -> bool:
    """Return whether torch.jit.trace, torch.fx or torch.export traces the calls of this process."""
    # Functions, not the flags that they return, which not every version of torch has in a module.
    return _is_jit_tracing() or is_fx_symbolic_tracing() or is_exporting()


def call(compiled: Callable[..., Any], original: Callable[..., Any], arguments: Any, keywords: Any) -> Any:
    """Call the original function, with no frame compiled.

    Raises:
        errors.NestedTrace: the tracer is torch.jit.trace or symbolic_trace, and the function was compiled by name.
    """
    if not getattr(compiled, AS_WRITTEN, False):
        name = getattr(original, "__qualname__", type(original).__name__)
        with config.with_torch_settings():
            raises = config.error_on_nested_fx_trace
        if _is_jit_tracing():
            raise errors.NestedTrace("torch.jit.trace", name)
        if is_fx_symbolic_tracing() and raises and get_proxy_mode() is None:
            raise errors.NestedTrace("torch.fx", name)
    with hook.paused():
        return original(*arguments, **keywords)
