"""Functions that change the state of the process: called while tracing, and a node of the graph.

    torch.use_deterministic_algorithms(True)
    with sdpa_kernel(SDPBackend.MATH): ...
    torch.set_default_dtype(torch.float64)     no ATen operator: such a graph falls back to eager
    torch.set_default_device("cpu")            a function mode, which is inlined; called after the graph has run

In torch: torch/_dynamo/variables/torch.py. Read next: nbcompile/tracing/effects/process_state.py
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.attention
from torch.utils._device import DeviceContext

from nbcompile.tracing import breaks
from nbcompile.tracing.calls.annotations import DeferredCall
from nbcompile.tracing.calls.folding import fold
from nbcompile.tracing.calls.registry import handles
from nbcompile.tracing.graph.process_results import guard_autocast_dtype
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.sequences import ListVariable

ATTENTION: Any = torch.nn.attention


@handles(torch._C._set_grad_enabled)
def _set_grad_mode(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    """Libraries whose own context managers save and restore the mode call it instead of torch.no_grad."""
    tracer.call(tracer.wrap(torch.set_grad_enabled, None), arguments, keywords)
    return ConstantVariable(None)


@handles(torch.use_deterministic_algorithms)
def _use_deterministic(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    given = {name: realise(tracer, each).constant() for name, each in keywords.items()}
    mode = realise(tracer, arguments[0]).constant() if arguments else given["mode"]
    target = torch._C._set_deterministic_algorithms
    tracer.output.state_call(target, (mode,), {"warn_only": given.get("warn_only", False)})
    return ConstantVariable(None)


@handles(torch.set_default_dtype)
def _set_default_dtype(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    (dtype,) = (realise(tracer, each).constant() for each in (*arguments, *keywords.values()))
    tracer.output.state_call(torch.set_default_dtype, (dtype,))
    return ConstantVariable(None)


@handles(torch.set_default_device)
def _set_default_device(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    given = [realise(tracer, each) for each in (*arguments, *keywords.values())]
    modes = tracer.overrides.modes
    # As DeviceContext.__enter__ (torch/utils/_device.py): the mode of the default
    # device is at the bottom of the stack, below those that a with block has entered.
    if modes and issubclass(modes[0].python_type(), DeviceContext):
        modes.pop(0)
    device: Any = given[0].constant()
    if device is not None:
        modes.insert(0, tracer.wrap(DeviceContext(device), None))
    tracer.output.may_change(None)
    tracer.side_effects.deferred.append(DeferredCall(torch.set_default_device, given, {}))
    return ConstantVariable(None)


@handles(torch.get_default_device)
def _get_default_device(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    modes = (realise(tracer, each) for each in tracer.overrides.modes)
    of_device = next((each for each in modes if issubclass(each.python_type(), DeviceContext)), None)
    if of_device is None:
        return ConstantVariable(torch.get_default_device())
    device: Any = realise(tracer, of_device.get_attribute(tracer, "device")).constant()
    # As torch.get_default_device: a device without an index has that of a tensor which is created there.
    return ConstantVariable(torch.tensor([], device=device).device)


@handles(torch.get_autocast_dtype)
def _get_autocast_dtype(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    dtype = fold(tracer, torch.get_autocast_dtype, arguments, keywords)
    if not guard_autocast_dtype(tracer, realise(tracer, [*arguments, *keywords.values()][0]).constant()):
        why = "module: torch, skip reason: the dtype of autocast on this device has no guard"
        raise breaks.unsupported(breaks.SKIPPED_FUNCTION, why, name="get_autocast_dtype", file=torch.__file__)
    return dtype


@handles(ATTENTION._cur_sdpa_kernel_backends)
def _attention_backends(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    given = [realise(tracer, each).constant() for each in (*arguments, *keywords.values())]
    backends = ATTENTION._cur_sdpa_kernel_backends(*given)
    tracer.assume_constant_result(ATTENTION._cur_sdpa_kernel_backends, given, {}, backends)
    return ListVariable([ConstantVariable(each) for each in backends])


@handles(ATTENTION._sdpa_kernel)
def _set_attention_backends(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    requested, by_order = (realise(tracer, each) for each in arguments)
    backends: list[Any] = [realise(tracer, each).constant() for each in requested.unpack(tracer)]
    # A backend has no literal in the code of a graph: each is read by its name.
    named = [
        tracer.output.apply("call_function", ATTENTION._backend_from_string, (backend.name,), {}, example=backend)
        for backend in backends
    ]
    ATTENTION._sdpa_kernel(backends, by_order.constant())
    given = (named, by_order.constant())
    tracer.output.apply("call_function", ATTENTION._sdpa_kernel, given, {}, example=True)
    return ConstantVariable(None)
