"""Context managers that tracing understands: grad mode, autocast, nullcontext.

Entering one changes the state of the tracer *and* puts the change into the
graph, so that operators traced inside see it twice: now, on fake values, and in
every run.

    with torch.no_grad():      node torch._C._set_grad_enabled(False)
        y = x * 2              node mul
                               node torch._C._set_grad_enabled(True)

In torch: torch/_dynamo/variables/ctx_manager.py. Read next:
nbcompile/tracing/frame/handlers/control.py
"""

from __future__ import annotations

import contextlib
import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch

from nbcompile import annotations as marks, config
from nbcompile.capture.recipe import Call, Constant, FromSource, Recipe
from nbcompile.capture.source import AttrSource, Source
from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import (
    Arguments,
    Keywords,
    LazyVariable,
    UnknownVariable,
    VariableTracker,
    realise,
)
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.containers import BuiltinMethodVariable


class ContextVariable(VariableTracker):
    """A context manager that can be left at a break and entered again after it."""

    cls: type = object
    keeps_state = True
    """True if the manager remembers on itself what it found: Python enters one from outside, not the tracer."""
    keeps_entry = False
    """True if its one state belongs to the last entry: entered twice, it does not restore what the first one found."""

    def __init__(self, source: Source | None = None) -> None:
        self.source = source

    def python_type(self) -> type:
        return self.cls

    def enter(self, tracer: Tracer) -> VariableTracker:
        """``__enter__``: change the state, in the tracer and in the graph."""
        raise NotImplementedError

    def exit(self, tracer: Tracer) -> None:
        """``__exit__``: restore it likewise."""
        raise NotImplementedError

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        if name in ("__enter__", "__exit__", "clone"):
            return BuiltinMethodVariable(self, name)
        return super().get_attribute(tracer, name)

    def call_method(self, tracer: Tracer, name: str, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        if name == "__enter__":
            if self.keeps_state and self.source is not None:  # the user's object would not have what it found
                _refuse_state(self)
            return self.enter(tracer)
        if name == "__exit__":
            self.exit(tracer)
            return ConstantVariable(None)
        if name == "clone":  # what a decorated function enters at each call
            return self.renewed()
        return super().call_method(tracer, name, arguments, keywords)

    def renewed(self) -> ContextVariable:
        """Another manager, made of the same arguments."""
        self.no_method("clone")

    def at_call(self) -> ContextVariable:
        """The manager that a decorated function enters at a call: another one each time, or this one."""
        return self

    def decorate(self, reconstruction: Reconstructor, function: Recipe) -> Recipe:
        """Recipe of a decorated function."""
        return Call(reconstruction.recipe(self), (function,))

    def recipe_to_enter(self, reconstruction: Reconstructor) -> Recipe:
        """Recipe of what is left at a break, and entered again after it."""
        return reconstruction.recipe(self)

    def recipe_of_entered(self, reconstruction: Reconstructor) -> Recipe:
        """Recipe of a manager that stays entered: its exit puts back what this one found."""
        raise breaks.unsupported(breaks.GENERATOR_RECIPE, f"a yield inside of {self.describe()}", name="with")

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        """Use as a decorator: ``@torch.no_grad()`` on a function that the traced code defines."""
        return decorated(tracer, self, arguments[0])


class DecoratedVariable(VariableTracker):
    """A function that a context manager decorates: called, it runs inside of it."""

    def __init__(self, context: ContextVariable, function: VariableTracker) -> None:
        self.context = context
        self.function = function

    def python_type(self) -> type:
        return self.function.python_type()

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        # `@torch.no_grad()` enters a clone of itself at each call: the function may call itself.
        context = self.context.at_call()
        context.enter(tracer)
        try:
            return tracer.call(self.function, arguments, keywords)
        finally:
            context.exit(tracer)

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        return self.context.decorate(reconstruction, reconstruction.recipe(self.function))


def decorated(tracer: Tracer, context: ContextVariable, function: VariableTracker) -> VariableTracker:
    """A function in a manager; of a generator function, a manager with clones is entered around each step."""
    function = realise(tracer, function)
    code = getattr(function, "code", None)
    if context.at_call() is not context and isinstance(code, types.CodeType) and code.co_flags & inspect.CO_GENERATOR:
        around_steps = tracer.wrap(torch.utils._contextlib._wrap_generator, None)
        return tracer.call(around_steps, [BuiltinMethodVariable(context, "clone"), function])
    return DecoratedVariable(context, function)


def strict(function: VariableTracker) -> VariableTracker:
    """A function in which a break is an error."""
    return DecoratedVariable(SettingVariable(marks.error_on_graph_break(True)), function)


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
        # One mode, as the manager itself has: ``with m: with m: ...`` ends in what the inner entry found.
        self.prior: object = False if cls is torch.no_grad else None
        self.depth = 0
        """Entries without their exit, of the traced code."""

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
            _refuse_state(self)
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
        if self.prior is (False if self.cls is torch.no_grad else None):  # as a new one has it
            return manager
        return reconstruction.shared(self, lambda: Call(Constant(_entered, "entered"), (manager, Constant(self.prior))))

    def recipe_to_enter(self, reconstruction: Reconstructor) -> Recipe:
        if self.source is not None:
            return FromSource(self.source)
        return Call(Constant(self.cls, self.cls.__name__), tuple(Constant(each) for each in self.arguments))


_AUTOCAST = ("device_type", "dtype", "enabled", "cache_enabled")
_AUTOCAST_DEFAULTS = {"dtype": None, "enabled": True, "cache_enabled": None}


class AutocastVariable(ContextVariable):
    """``torch.autocast(...)``."""

    cls = torch.autocast
    keeps_state = False  # what it found is only looked at by its own exit
    keeps_entry = True

    def __init__(
        self, arguments: tuple[object, ...], keywords: dict[str, object], source: Source | None = None
    ) -> None:
        super().__init__(source)
        self.arguments = arguments
        self.keywords = keywords
        self.entered: tuple[object, torch.fx.Node] | None = None
        """The last entry, which each exit undoes: the manager itself has one state, too."""
        self.depth = 0

    def describe(self) -> str:
        return f"AutocastModeVariable({(*self.arguments, *self.keywords.values())[0]})"

    def enter(self, tracer: Tracer) -> VariableTracker:
        # In the order of the constructor, with its defaults: the node in the graph takes all four by position.
        given = {**dict(zip(_AUTOCAST, self.arguments, strict=False)), **self.keywords}
        settings = tuple({**_AUTOCAST_DEFAULTS, **given}[name] for name in _AUTOCAST)
        self.entered = tracer.output.enter_autocast(settings)
        self.depth += 1
        return self

    def exit(self, tracer: Tracer) -> None:
        if self.entered is None:
            _refuse_state(self)
        self.depth -= 1
        tracer.output.exit_autocast(*self.entered)

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        if self.depth:
            _refuse_state(self)
        if self.source is not None:
            return FromSource(self.source)
        return Call(
            Constant(self.cls, "autocast"),
            tuple(Constant(each) for each in self.arguments),
            tuple((name, Constant(value)) for name, value in self.keywords.items()),
        )


def _refuse_state(manager: ContextVariable) -> NoReturn:
    """Refuse to leave a manager that another frame entered, or to make one that is entered: its state is not known."""
    raise breaks.unsupported(breaks.UNSUPPORTED_CONTEXT, manager.describe(), name=manager.cls.__name__)


def expect_distinct(entered: Sequence[ContextVariable]) -> None:
    """Refuse a break in two blocks of one manager: the rest of the frame would enter two, with a state each."""
    for position, manager in enumerate(entered):
        if manager.keeps_entry and manager in entered[:position]:
            _refuse_state(manager)


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
            _refuse_state(self)
        self.entered = tracer.output.enter_inference_mode(self.mode)
        return ConstantVariable(None)

    def exit(self, tracer: Tracer) -> None:
        if self.entered is None:
            _refuse_state(self)
        tracer.output.exit_inference_mode(*self.entered)
        self.entered = None

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        if self.entered is not None:
            _refuse_state(self)
        if self.source is not None:
            return FromSource(self.source)
        return Call(Constant(self.cls, "inference_mode"), (Constant(self.mode),))


class NullContextVariable(ContextVariable):
    """``contextlib.nullcontext(result)``."""

    cls: type = contextlib.nullcontext
    keeps_state = False

    def __init__(self, result: VariableTracker, source: Source | None = None) -> None:
        super().__init__(source)
        self.result = result

    def describe(self) -> str:
        return "NullContextVariable()"

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        is_result = name == "enter_result" and self.cls is contextlib.nullcontext
        return realise(tracer, self.result) if is_result else super().get_attribute(tracer, name)

    def enter(self, tracer: Tracer) -> VariableTracker:
        return realise(tracer, self.result)

    def exit(self, tracer: Tracer) -> None:
        return

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        if self.source is not None:
            return FromSource(self.source)
        return Call(Constant(self.cls, "nullcontext"), (reconstruction.recipe(self.result),))

    def recipe_of_entered(self, reconstruction: Reconstructor) -> Recipe:
        return self.recipe_to_enter(reconstruction)


class ProfilerVariable(NullContextVariable):
    """A profiler, or a range of one: of no meaning for what is compiled, as in torch.

    It measures nothing of it either: one that the traced code made is nothing that anybody could ask afterwards.
    """

    def __init__(self, cls: type, source: Source | None = None) -> None:
        super().__init__(ConstantVariable(None), source)
        self.cls = cls

    def describe(self) -> str:
        return f"ProfilerContextVariable({self.cls.__name__})"

    def enter(self, tracer: Tracer) -> VariableTracker:
        return self

    def renewed(self) -> ContextVariable:
        return ProfilerVariable(self.cls)

    def recipe_to_enter(self, reconstruction: Reconstructor) -> Recipe:
        return (
            super().recipe_to_enter(reconstruction)
            if self.source is not None
            else Call(Constant(contextlib.nullcontext, "nullcontext"))
        )

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        if self.source is not None:
            return FromSource(self.source)
        raise breaks.unsupported(breaks.PROFILER_ESCAPES, self.describe(), name=self.cls.__name__)


class Settings:
    """``patch_dynamo_config(...)`` as a residual program enters it: both torch's settings and ours change."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.prior: list[dict[str, object]] = []

    def __enter__(self) -> None:
        # Settings that torch has and this compiler does not are left to torch.
        changes = {name: each for name, each in self.value.changes.items() if name in config.DEFAULTS}
        self.prior.append({name: getattr(config, name) for name in changes})
        self.value.__enter__()
        _set(changes)

    def __exit__(self, *error: object) -> None:
        _set(self.prior.pop())
        self.value.__exit__(*error)

    def __call__(self, function: Any) -> Any:
        return marks.inside(self, function)


WITHOUT_CLASSES: Any = torch._C.DisableTorchFunctionSubclass
WITHOUT_OVERRIDES: Any = torch._C.DisableTorchFunction


class WithoutOverridesVariable(ContextVariable):
    """``torch._C.DisableTorchFunction()``: functions of torch ask nobody; ``...Subclass()``: modes alone."""

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
        self.before = state.ask_classes, state.ask_modes
        state.ask_classes = False
        # The inner context may only switch more off: it never asks a mode that the outer one has switched off.
        state.ask_modes &= self.cls is WITHOUT_CLASSES
        return ConstantVariable(None)

    def exit(self, tracer: Tracer) -> None:
        if self.before is None:
            _refuse_state(self)
        state = tracer.overrides
        state.ask_classes, state.ask_modes = self.before

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        if self.source is not None:
            return FromSource(self.source)
        return Call(Constant(self.cls, self.cls.__name__))


class SettingVariable(ContextVariable):
    """``torch._dynamo.error_on_graph_break(True)``, ``patch_dynamo_config(...)``: how the code inside is traced."""

    keeps_state = False

    def __init__(self, value: object, source: Source | None = None) -> None:
        super().__init__(source)
        self.cls = type(value)
        self.value = value
        self.prior: list[tuple[bool, dict[str, object]]] = []

    def describe(self) -> str:
        return f"{self.cls.__name__}()"

    def enter(self, tracer: Tracer) -> VariableTracker:
        output = tracer.output
        changes = {name: each for name, each in getattr(self.value, "changes", {}).items() if name in config.DEFAULTS}
        self.prior.append((output.errors_on_break, {name: getattr(config, name) for name in changes}))
        output.errors_on_break = getattr(self.value, "error_on_graph_break", output.errors_on_break)
        _set(changes)
        return ConstantVariable(None)

    def exit(self, tracer: Tracer) -> None:
        tracer.output.errors_on_break, changed = self.prior.pop()
        _set(changed)

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        value = super().recipe(reconstruction) if self.source is not None else Constant(self.value, self.cls.__name__)
        return Call(Constant(Settings, "Settings"), (value,)) if hasattr(self.value, "changes") else value


def _set(changes: dict[str, object]) -> None:
    for name, value in changes.items():
        setattr(config, name, value)


def _entered(manager: Any, prior: bool) -> Any:
    """A manager of the grad mode as it is once it is entered."""
    manager.prev = prior
    return manager


def _exit_of(manager: Any) -> Any:
    """Bound exit function that BEFORE_WITH leaves on the stack: the class is asked, not the object."""
    return type(manager).__exit__.__get__(manager)


class ExitVariable(VariableTracker):
    """Exit function that BEFORE_WITH leaves on the stack: called at the end of the ``with`` block."""

    def __init__(self, context: VariableTracker) -> None:
        self.context = context

    def describe(self) -> str:
        return f"WithExitFunctionVariable({self.context.describe()})"

    def python_type(self) -> type:
        return type(contextlib.nullcontext().__exit__)

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        """The bound function, of a manager that stays entered: a generator waits inside of its block."""
        context = self.context
        if isinstance(context, ContextVariable):
            manager = context.recipe_of_entered(reconstruction)
        else:
            manager = reconstruction.recipe(context)
        return Call(Constant(_exit_of, "exit_of"), (manager,))

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        if isinstance(self.context, ContextVariable):
            # Managers of torch return None from ``__exit__``: they suppress no exception. A user's ``__exit__`` may,
            # and its result says so.
            self.context.exit(tracer)
            return ConstantVariable(None)
        return tracer.call_special(self.context, "__exit__", arguments)


def grad_mode(
    cls: type, value: bool, source: Source | None = None, arguments: tuple[object, ...] | None = None
) -> StateVariable:
    """``torch.no_grad()``, ``torch.enable_grad()``, ``torch.set_grad_enabled(value)``."""
    return StateVariable(cls, value, torch._C.is_grad_enabled, torch._C._set_grad_enabled, source, arguments)


PROFILERS = (torch.autograd.profiler.record_function, torch.autograd.profiler.profile, torch.profiler.profile)
SETTINGS = ("DynamoConfigPatchProxy", "ErrorOnGraphBreakDecoratorContextManager")
"""torch's classes by name: whoever made one has imported them."""


def from_object(value: object, source: Source | None) -> ContextVariable | None:
    """The tracker of an existing manager, if it is of a kind that is understood."""
    match value:
        case torch.no_grad() | torch.enable_grad():
            manager = grad_mode(type(value), isinstance(value, torch.enable_grad), source, ())
            manager.prior = vars(value).get("prev")
            return manager
        case torch.set_grad_enabled():
            return EagerGradModeVariable(value.mode, value.prev, source)
        case torch.inference_mode():
            return InferenceModeVariable(bool(value.mode), source)
        case torch.autocast():
            return AutocastVariable((value.device, value.fast_dtype, value._enabled, value._cache_enabled), {}, source)
        case contextlib.nullcontext() if "enter_result" in vars(value):  # without, while its ``__init__`` runs
            address = None if source is None else AttrSource(source, "enter_result")
            held = value.enter_result
            result = UnknownVariable(held, None) if address is None else LazyVariable(held, address)
            return NullContextVariable(result, source)
    if isinstance(value, (marks.error_on_graph_break, marks.patch_dynamo_config)):
        return SettingVariable(value, source)
    if isinstance(value, Settings):
        return SettingVariable(value.value, None if source is None else AttrSource(source, "value"))
    if type(value).__module__ == "torch._dynamo.decorators" and type(value).__name__ in SETTINGS:
        return SettingVariable(value, source)
    return None


def from_call(cls: type, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker | None:
    """The tracker of a manager that the traced code makes; None for any other class."""
    if cls is contextlib.nullcontext:
        return NullContextVariable(arguments[0] if arguments else keywords.get("enter_result", ConstantVariable(None)))
    if cls in PROFILERS:  # whatever it is to measure
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
    def make(tracer: Tracer, arguments: tuple[object, ...], keywords: dict[str, object]) -> VariableTracker:
        # ``torch.no_grad(f)`` and ``@torch.no_grad`` without parentheses decorate the function.
        if arguments and callable(arguments[0]):
            return decorated(tracer, grad_mode(cls, value, None, ()), tracer.wrap(arguments[0], None))
        return grad_mode(cls, value, None, ())

    return make


def _set_grad_enabled(tracer: Tracer, arguments: tuple[object, ...], keywords: dict[str, object]) -> VariableTracker:
    # Called, it takes effect at once; used as a context manager, its exit restores.
    mode = (*arguments, *keywords.values())[0]
    if not isinstance(mode, bool):
        tracer.raise_exception(TypeError, _refusal(torch._C._set_grad_enabled, mode))
    tracker = EagerGradModeVariable(mode, torch._C.is_grad_enabled())
    tracer.output.state_call(torch._C._set_grad_enabled, (mode,))
    return tracker


def _refusal(setter: Callable[..., object], value: object) -> str:
    """Message of a setter for a value that it does not accept."""
    try:
        setter(value)
    except TypeError as error:
        return str(error)
    raise AssertionError(f"{setter} accepts {value!r}")


def _remade_grad_mode(mode: bool, prior: bool) -> torch.set_grad_enabled:
    """The manager as it was made: to make it once more would change the mode once more."""
    # The constructor of ``set_grad_enabled`` sets the mode, so it is bypassed.
    manager: torch.set_grad_enabled = object.__new__(torch.set_grad_enabled)
    manager.prev, manager.mode = prior, mode
    return manager


def _decorated_by_mode(mode: bool, function: Callable[..., object]) -> Callable[..., object]:
    """The function as the manager decorated it: the decorator itself would restore the mode once more."""
    return torch.utils._contextlib.context_decorator(_remade_grad_mode(mode, mode).clone, function)


class EagerGradModeVariable(StateVariable):
    """``torch.set_grad_enabled(mode)``: changes the mode when it is made, restores it on exit."""

    def __init__(self, mode: bool, prior: bool, source: Source | None = None) -> None:
        super().__init__(torch.set_grad_enabled, mode, torch._C.is_grad_enabled, torch._C._set_grad_enabled, source)
        self.mode = mode
        self.before = prior

    def renewed(self) -> ContextVariable:
        # The mode that it finds is that of now; it is entered at once, and so need not be set here.
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
        return self.recipe(reconstruction)  # it has what it found from when it was made

    def recipe_to_enter(self, reconstruction: Reconstructor) -> Recipe:
        return self.recipe(reconstruction)

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        if self.source is not None:
            return FromSource(self.source)
        return Call(Constant(_remade_grad_mode, "set_grad_enabled"), (Constant(self.mode), Constant(self.before)))

    def enter(self, tracer: Tracer) -> VariableTracker:
        # ``set_grad_enabled`` sets the mode when it is made and again when it is entered; its exit restores the mode
        # from before it was made.
        self._apply(tracer, self.value)
        return ConstantVariable(None)

    def exit(self, tracer: Tracer) -> None:
        self._apply(tracer, self.before)


def _inference_mode(tracer: Tracer, arguments: tuple[object, ...], keywords: dict[str, object]) -> VariableTracker:
    values = (*arguments, *keywords.values())
    if values and callable(values[0]):
        return decorated(tracer, InferenceModeVariable(True), tracer.wrap(values[0], None))
    return InferenceModeVariable(bool(values[0]) if values else True)


def _autocast(tracer: Tracer, arguments: tuple[object, ...], keywords: dict[str, object]) -> VariableTracker:
    return AutocastVariable(arguments, keywords)


def _autocast_on(device: str) -> Maker:
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
