"""Guards on results of functions about the process that GLOBAL_STATE does not compare: each call evaluates the
function.

    with torch.autocast("cpu"): ...     the dtype that autocast begins with, though autocast was off at the entry

In torch: nothing; such results are constants of the graph there. Read next: nbcompile/tracing/calls/folding.py
"""

from __future__ import annotations

from collections.abc import Callable

from nbcompile import torch_internals
from nbcompile.capture.guard import GuardKind
from nbcompile.capture.source import AttrSource, ModuleSource, NoArgsCallSource
from nbcompile.tracing.protocol import Tracer


def guard_result(tracer: Tracer, function: Callable[[], object], answer: object) -> None:
    """Guard the result of a module's function, evaluated when the frame is entered."""
    address = NoArgsCallSource(AttrSource(ModuleSource(function.__module__), function.__name__))
    kind = GuardKind.BOOL_MATCH if isinstance(answer, bool) else GuardKind.EQUALS_MATCH
    tracer.guard(address, GuardKind.NONE_MATCH if answer is None else kind, answer)


def guard_autocast_dtype(tracer: Tracer, device: object) -> bool:
    """Guard the dtype of autocast on a type of device: GLOBAL_STATE compares it only where autocast is on. Return
    whether the type of device has such a guard.
    """
    guarded = isinstance(device, str) and device in torch_internals.AUTOCAST_DTYPES
    if isinstance(device, str) and guarded:
        guard_result(tracer, torch_internals.AUTOCAST_DTYPES[device], tracer.output.autocast_dtypes[device])
    return guarded
