"""Context managers that change a mode of torch: gradients, inference, autocast, overrides.

Entry changes the state of the tracer *and* adds a node for the change to the graph,
so that it applies to operators inside twice: now, on fake values, and in every run.

    with torch.no_grad():      node torch._C._set_grad_enabled(False)
        y = x * 2              node mul
                               node torch._C._set_grad_enabled(True)

In torch: torch/_dynamo/variables/ctx_manager.py. Read next:
nbcompile/tracing/variables/context_table.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from nbcompile.capture.recipe import Call, Constant, FromSource, Recipe
from nbcompile.capture.source import Source
from nbcompile.tracing.graph.process_results import guard_autocast_dtype
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import (
    Arguments,
    Keywords,
    VariableTracker,
)
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.contexts import ContextVariable, raise_unknown_state


class StateVariable(ContextVariable):
    """A mode that is set on entry and restored on exit: grad mode, inference mode..."""

    keeps_entry = True

    def __init__(
        self,
        cls: type,
        value: object,
        get: Callable[[], object],
        set: Callable[..., object],
        source: Source | None = None,
        arguments: tuple[object, ...] | None = None,
    ) -> None:
        super().__init__(source)
        self.cls = cls
        self.value = value
        self.get = get
        self.set = set
        self.arguments = (value,) if arguments is None else arguments
        # One previous mode, as on the manager itself: ``with m: with m: ...`` restores the mode of the inner entry.
        self.prior: object = False if cls is torch.no_grad else None
        self.depth = 0
        """Number of entries of the traced code without an exit."""

    def describe(self) -> str:
        return f"GradModeVariable({self.cls.__name__}, {self.value})"

    def renewed(self) -> ContextVariable:
        return StateVariable(self.cls, self.value, self.get, self.set, None, self.arguments)

    def at_call(self) -> ContextVariable:
        return self.renewed()

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        known = name == "prev" and self.prior is not None
        return ConstantVariable(self.prior) if known else super().get_attribute(tracer, name)

    def enter(self, tracer: Tracer) -> VariableTracker:
        self.prior = self.get()
        self.depth += 1
        self._apply(tracer, self.value)
        return ConstantVariable(None)

    def exit(self, tracer: Tracer) -> None:
        if self.prior is None:
            raise_unknown_state(self)
        self.depth -= 1
        self._apply(tracer, self.prior)

    def recipe_of_entered(self, reconstruction: Reconstructor) -> Recipe:
        if self.source is not None or self.depth != 1:
            return super().recipe_of_entered(reconstruction)
        return self.recipe(reconstruction)

    def _apply(self, tracer: Tracer, value: object) -> None:
        # The mode changes for the operators that are traced next, and a node changes it at run time.
        tracer.output.state_call(self.set, (value,))

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        if self.source is not None:
            return FromSource(self.source)
        manager = self.recipe_to_enter(reconstruction)
        if self.prior is (False if self.cls is torch.no_grad else None):  # the initial value of a new manager
            return manager
        return reconstruction.shared(self, lambda: Call(Constant(_entered, "entered"), (manager, Constant(self.prior))))

    def recipe_to_enter(self, reconstruction: Reconstructor) -> Recipe:
        if self.source is not None:
            return FromSource(self.source)
        return Call(Constant(self.cls, self.cls.__name__), tuple(Constant(each) for each in self.arguments))


def grad_mode(
    cls: type, value: bool, source: Source | None = None, arguments: tuple[object, ...] | None = None
) -> StateVariable:
    """``torch.no_grad()``, ``torch.enable_grad()``, ``torch.set_grad_enabled(value)``."""
    return StateVariable(cls, value, torch._C.is_grad_enabled, torch._C._set_grad_enabled, source, arguments)


def _entered(manager: Any, prior: bool) -> Any:
    """A manager of the grad mode, in its state after the entry."""
    manager.prev = prior
    return manager


class EagerGradModeVariable(StateVariable):
    """``torch.set_grad_enabled(mode)``: changes the mode when it is created, restores it on exit."""

    def __init__(self, mode: bool, prior: bool, source: Source | None = None) -> None:
        super().__init__(torch.set_grad_enabled, mode, torch._C.is_grad_enabled, torch._C._set_grad_enabled, source)
        self.mode = mode
        self.before = prior

    def renewed(self) -> ContextVariable:
        # The previous mode is the current one; the manager is entered immediately, so the mode is not set here.
        return EagerGradModeVariable(bool(self.mode), torch._C.is_grad_enabled())

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        known = {"mode": self.mode, "prev": self.before}
        return ConstantVariable(known[name]) if name in known else super().get_attribute(tracer, name)

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        self._apply(tracer, self.before)  # a decorator has no effect on the rest of the frame
        return super().call(tracer, arguments, keywords)

    def decorate(self, reconstruction: Reconstructor, function: Recipe) -> Recipe:
        return Call(Constant(_decorated_by_mode, "decorated"), (Constant(self.mode), function))

    def recipe_of_entered(self, reconstruction: Reconstructor) -> Recipe:
        return self.recipe(reconstruction)  # it has stored the previous mode at its creation

    def recipe_to_enter(self, reconstruction: Reconstructor) -> Recipe:
        return self.recipe(reconstruction)

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        if self.source is not None:
            return FromSource(self.source)
        return Call(Constant(_recreated_grad_mode, "set_grad_enabled"), (Constant(self.mode), Constant(self.before)))

    def enter(self, tracer: Tracer) -> VariableTracker:
        # ``set_grad_enabled`` sets the mode when it is created and again when it is entered; its exit restores the mode
        # from before it was created.
        self._apply(tracer, self.value)
        return ConstantVariable(None)

    def exit(self, tracer: Tracer) -> None:
        self._apply(tracer, self.before)


def _recreated_grad_mode(mode: bool, prior: bool) -> torch.set_grad_enabled:
    """The manager in its state after creation: another constructor call would change the mode again."""
    # The constructor of ``set_grad_enabled`` sets the mode, so it is bypassed.
    manager: torch.set_grad_enabled = object.__new__(torch.set_grad_enabled)
    manager.prev, manager.mode = prior, mode
    return manager


def _decorated_by_mode(mode: bool, function: Callable[..., object]) -> Callable[..., object]:
    """The decorated function: a call of the decorator itself would restore the mode again."""
    return torch.utils._contextlib.context_decorator(_recreated_grad_mode(mode, mode).clone, function)


_AUTOCAST = ("device_type", "dtype", "enabled", "cache_enabled")

_AUTOCAST_DEFAULTS = {"dtype": None, "enabled": True, "cache_enabled": None}


class AutocastVariable(ContextVariable):
    """``torch.autocast(...)``."""

    cls = torch.autocast
    keeps_state = False  # the previous state is read by its own exit only
    keeps_entry = True

    def __init__(
        self, arguments: tuple[object, ...], keywords: dict[str, object], source: Source | None = None
    ) -> None:
        super().__init__(source)
        self.arguments = arguments
        self.keywords = keywords
        self.entered: tuple[object, torch.fx.Node] | None = None
        """The last entry, which each exit undoes, as the manager itself stores only one state."""
        self.depth = 0

    def describe(self) -> str:
        return f"AutocastModeVariable({(*self.arguments, *self.keywords.values())[0]})"

    def enter(self, tracer: Tracer) -> VariableTracker:
        # In the order of the constructor, with its defaults: the node in the graph takes all four by position.
        given = {**dict(zip(_AUTOCAST, self.arguments, strict=False)), **self.keywords}
        settings = tuple({**_AUTOCAST_DEFAULTS, **given}[name] for name in _AUTOCAST)
        if settings[1] is None:
            guard_autocast_dtype(tracer, settings[0])
        self.entered = tracer.output.enter_autocast(settings)
        self.depth += 1
        return self

    def exit(self, tracer: Tracer) -> None:
        if self.entered is None:
            raise_unknown_state(self)
        self.depth -= 1
        tracer.output.exit_autocast(*self.entered)

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        if self.depth:
            raise_unknown_state(self)
        if self.source is not None:
            return FromSource(self.source)
        return Call(
            Constant(self.cls, "autocast"),
            tuple(Constant(each) for each in self.arguments),
            tuple((name, Constant(value)) for name, value in self.keywords.items()),
        )


class InferenceModeVariable(ContextVariable):
    """``torch.inference_mode(mode)``."""

    cls = torch.inference_mode
    keeps_entry = True

    def __init__(self, mode: bool, source: Source | None = None) -> None:
        super().__init__(source)
        self.mode = mode
        self.entered: tuple[object, torch.fx.Node] | None = None

    def describe(self) -> str:
        return f"InferenceModeVariable({self.mode})"

    def renewed(self) -> ContextVariable:
        return InferenceModeVariable(self.mode)

    def at_call(self) -> ContextVariable:
        return self.renewed()

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        return ConstantVariable(self.mode) if name == "mode" else super().get_attribute(tracer, name)

    def enter(self, tracer: Tracer) -> VariableTracker:
        if self.entered is not None:
            raise_unknown_state(self)
        self.entered = tracer.output.enter_inference_mode(self.mode)
        return ConstantVariable(None)

    def exit(self, tracer: Tracer) -> None:
        if self.entered is None:
            raise_unknown_state(self)
        tracer.output.exit_inference_mode(*self.entered)
        self.entered = None

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        if self.entered is not None:
            raise_unknown_state(self)
        if self.source is not None:
            return FromSource(self.source)
        return Call(Constant(self.cls, "inference_mode"), (Constant(self.mode),))


WITHOUT_CLASSES: Any = torch._C.DisableTorchFunctionSubclass

WITHOUT_OVERRIDES: Any = torch._C.DisableTorchFunction


class WithoutOverridesVariable(ContextVariable):
    """``torch._C.DisableTorchFunction()``: functions of torch call no override; ``...Subclass()``: they call modes."""

    keeps_state = False
    keeps_entry = True

    def __init__(self, cls: type, source: Source | None = None) -> None:
        super().__init__(source)
        self.cls = cls
        self.before: tuple[bool, bool] | None = None

    def describe(self) -> str:
        return "TorchFunctionDisableVariable()"

    def enter(self, tracer: Tracer) -> VariableTracker:
        state = tracer.overrides
        self.before = state.classes_enabled, state.modes_enabled
        state.classes_enabled = False
        # The inner context can only disable more: it never enables a mode that the outer one has disabled.
        state.modes_enabled &= self.cls is WITHOUT_CLASSES
        return ConstantVariable(None)

    def exit(self, tracer: Tracer) -> None:
        if self.before is None:
            raise_unknown_state(self)
        state = tracer.overrides
        state.classes_enabled, state.modes_enabled = self.before

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        if self.source is not None:
            return FromSource(self.source)
        return Call(Constant(self.cls, self.cls.__name__))
