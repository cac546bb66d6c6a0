"""Trackers of context managers by class: of those from outside, and of those that the traced code creates.

    from_object(torch.no_grad(), source)               the manager in a global variable
    from_call(torch.autocast, tracer, arguments, {})   ``torch.autocast("cpu")`` in the traced code

In torch: torch/_dynamo/variables/builder.py and torch/_dynamo/variables/torch.py. Read next:
nbcompile/tracing/frame/handlers/control.py
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import torch

from nbcompile import annotations as marks
from nbcompile.capture.source import AttrSource, Source
from nbcompile.support.real_class import is_instance
from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import (
    Arguments,
    Keywords,
    LazyVariable,
    UnknownVariable,
    VariableTracker,
    realise,
)
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.contexts import ContextVariable, NullContextVariable, ProfilerVariable, decorated
from nbcompile.tracing.variables.mode_contexts import (
    WITHOUT_CLASSES,
    WITHOUT_OVERRIDES,
    AutocastVariable,
    EagerGradModeVariable,
    InferenceModeVariable,
    WithoutOverridesVariable,
    grad_mode,
)
from nbcompile.tracing.variables.setting_contexts import Settings, SettingVariable

PROFILERS = (torch.autograd.profiler.record_function, torch.autograd.profiler.profile, torch.profiler.profile)

SETTINGS = ("DynamoConfigPatchProxy", "ErrorOnGraphBreakDecoratorContextManager")
"""Classes of torch that are compared by name: only programs that use them import their module, which is slow."""
UNDERSTOOD = (
    torch.no_grad, torch.enable_grad, torch.set_grad_enabled, torch.inference_mode, torch.autocast,
    contextlib.nullcontext, marks.error_on_graph_break, marks.patch_dynamo_config, Settings,
)  # fmt: skip
"""Classes of managers that may exist before the frame begins."""


def from_object(value: object, source: Source | None) -> ContextVariable | None:
    """The tracker of an existing manager, if its class is supported."""
    if type(value).__module__ == "torch._dynamo.decorators" and type(value).__name__ in SETTINGS:
        return SettingVariable(value, source)
    # Class patterns read ``value.__class__``, which may run code of the program: first the real class is compared.
    if not is_instance(value, UNDERSTOOD):
        return None
    match value:
        case torch.no_grad() | torch.enable_grad():
            manager = grad_mode(type(value), is_instance(value, torch.enable_grad), source, ())
            manager.prior = vars(value).get("prev")
            return manager
        case torch.set_grad_enabled():
            return EagerGradModeVariable(value.mode, value.prev, source)
        case torch.inference_mode():
            return InferenceModeVariable(bool(value.mode), source)
        case torch.autocast():
            return AutocastVariable((value.device, value.fast_dtype, value._enabled, value._cache_enabled), {}, source)
        case contextlib.nullcontext() if "enter_result" in vars(value):  # it is missing while ``__init__`` runs
            address = None if source is None else AttrSource(source, "enter_result")
            held = value.enter_result
            result = UnknownVariable(held, None) if address is None else LazyVariable(held, address)
            return NullContextVariable(result, source)
    if is_instance(value, (marks.error_on_graph_break, marks.patch_dynamo_config)):
        return SettingVariable(value, source)
    if is_instance(value, Settings):
        return SettingVariable(value.value, None if source is None else AttrSource(source, "value"))
    return None


def from_call(cls: type, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker | None:
    """The tracker of a manager that the traced code creates; None for any other class."""
    if cls is contextlib.nullcontext:
        return NullContextVariable(arguments[0] if arguments else keywords.get("enter_result", ConstantVariable(None)))
    if cls in PROFILERS:  # whatever the arguments are
        return ProfilerVariable(cls)
    if cls not in MANAGERS:
        return None
    plain = [
        *(realise(tracer, each) for each in arguments),
        *(realise(tracer, each) for each in keywords.values()),
    ]
    if not all(each.is_constant() for each in plain):
        raise breaks.unsupported(breaks.UNSUPPORTED_CONTEXT, cls.__name__, name=cls.__name__)
    return MANAGERS[cls](
        tracer,
        tuple(each.constant() for each in plain[: len(arguments)]),
        {name: realise(tracer, each).constant() for name, each in keywords.items()},
    )


Maker = Callable[[Tracer, tuple[object, ...], dict[str, object]], VariableTracker]


def _no_grad(cls: type, value: bool) -> Maker:
    """Function that creates the trackers of ``no_grad`` and ``enable_grad``."""

    def make(tracer: Tracer, arguments: tuple[object, ...], keywords: dict[str, object]) -> VariableTracker:
        # ``torch.no_grad(f)`` and ``@torch.no_grad`` without parentheses decorate the function.
        if arguments and callable(arguments[0]):
            return decorated(tracer, grad_mode(cls, value, None, ()), tracer.wrap(arguments[0], None))
        return grad_mode(cls, value, None, ())

    return make


def _set_grad_enabled(tracer: Tracer, arguments: tuple[object, ...], keywords: dict[str, object]) -> VariableTracker:
    # A call takes effect immediately; the exit of a context manager restores the state.
    mode = (*arguments, *keywords.values())[0]
    if not isinstance(mode, bool):
        tracer.raise_exception(TypeError, _error_text(torch._C._set_grad_enabled, mode))
    tracker = EagerGradModeVariable(mode, torch._C.is_grad_enabled())
    tracer.output.state_call(torch._C._set_grad_enabled, (mode,))
    return tracker


def _error_text(setter: Callable[..., object], value: object) -> str:
    """Message of a setter for a value that it does not accept."""
    try:
        setter(value)
    except TypeError as error:
        return str(error)
    raise AssertionError(f"{setter} accepts {value!r}")


def _inference_mode(tracer: Tracer, arguments: tuple[object, ...], keywords: dict[str, object]) -> VariableTracker:
    values = (*arguments, *keywords.values())
    if values and callable(values[0]):
        return decorated(tracer, InferenceModeVariable(True), tracer.wrap(values[0], None))
    return InferenceModeVariable(bool(values[0]) if values else True)


def _autocast(tracer: Tracer, arguments: tuple[object, ...], keywords: dict[str, object]) -> VariableTracker:
    return AutocastVariable(arguments, keywords)


def _autocast_on(device: str) -> Maker:
    """Function that creates the trackers of a class with the device in its name: it has no such parameter."""

    def make(tracer: Tracer, arguments: tuple[object, ...], keywords: dict[str, object]) -> VariableTracker:
        names = ("enabled", "dtype", "cache_enabled")
        return AutocastVariable((device,), {**dict(zip(names, arguments, strict=False)), **keywords})

    return make


MANAGERS: dict[type, Maker] = {
    torch.no_grad: _no_grad(torch.no_grad, False),
    torch.enable_grad: _no_grad(torch.enable_grad, True),
    torch.set_grad_enabled: _set_grad_enabled,
    torch.inference_mode: _inference_mode,
    torch.autocast: _autocast,
    torch.cpu.amp.autocast_mode.autocast: _autocast_on("cpu"),
    torch.cuda.amp.autocast: _autocast_on("cuda"),
    WITHOUT_CLASSES: lambda tracer, arguments, keywords: WithoutOverridesVariable(WITHOUT_CLASSES),
    WITHOUT_OVERRIDES: lambda tracer, arguments, keywords: WithoutOverridesVariable(WITHOUT_OVERRIDES),
}
