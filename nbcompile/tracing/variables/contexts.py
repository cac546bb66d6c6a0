"""Context managers: the base class of their trackers, and managers that change no mode of torch.

    with manager as target:    enter(tracer) returns the target
        y = x * 2
                               ExitVariable, on the stack since BEFORE_WITH, calls exit(tracer)

A break inside of the block exits the manager and enters it again in the resume function, with
``recipe_to_enter``. A function that a manager decorates is called inside of it.

In torch: torch/_dynamo/variables/ctx_manager.py. Read next:
nbcompile/tracing/variables/mode_contexts.py
"""

from __future__ import annotations

import contextlib
import inspect
import types
from collections.abc import Sequence
from typing import Any, NoReturn

import torch

from nbcompile.capture.recipe import Call, Constant, FromSource, Recipe
from nbcompile.capture.source import Source
from nbcompile.tracing import breaks
from nbcompile.tracing.protocol import Reconstructor, Tracer
from nbcompile.tracing.variables.base import (
    Arguments,
    Keywords,
    VariableTracker,
    realise,
)
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.containers import BuiltinMethodVariable


class ContextVariable(VariableTracker):
    """A context manager that can be exited at a break and entered again after it."""

    cls: type = object
    keeps_state = True
    """True if the manager stores the previous state on itself: Python enters one from outside, not the tracer."""
    keeps_entry = False
    """True if it stores only one state: entered twice, it does not restore the state before the first entry."""

    def __init__(self, source: Source | None = None) -> None:
        self.source = source

    def python_type(self) -> type:
        return self.cls

    def enter(self, tracer: Tracer) -> VariableTracker:
        """``__enter__``: change the state, in the tracer and in the graph."""
        raise NotImplementedError

    def exit(self, tracer: Tracer) -> None:
        """``__exit__``: restore the state, in the tracer and in the graph."""
        raise NotImplementedError

    def get_attribute(self, tracer: Tracer, name: str) -> VariableTracker:
        if name in ("__enter__", "__exit__", "clone"):
            return BuiltinMethodVariable(self, name)
        return super().get_attribute(tracer, name)

    def call_method(self, tracer: Tracer, name: str, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        if name == "__enter__":
            if self.keeps_state and self.source is not None:  # the user's object would lack the previous state
                raise_unknown_state(self)
            return self.enter(tracer)
        if name == "__exit__":
            self.exit(tracer)
            return ConstantVariable(None)
        if name == "clone":  # the manager that a decorated function enters at each call
            return self.renewed()
        return super().call_method(tracer, name, arguments, keywords)

    def renewed(self) -> ContextVariable:
        """Another manager, created with the same arguments."""
        self.no_method("clone")

    def at_call(self) -> ContextVariable:
        """The manager that a decorated function enters at a call: a new one each time, or this one."""
        return self

    def decorate(self, reconstruction: Reconstructor, function: Recipe) -> Recipe:
        """Recipe of a decorated function."""
        return Call(reconstruction.recipe(self), (function,))

    def recipe_to_enter(self, reconstruction: Reconstructor) -> Recipe:
        """Recipe of the manager that is exited at a break and entered again after it."""
        return reconstruction.recipe(self)

    def recipe_of_entered(self, reconstruction: Reconstructor) -> Recipe:
        """Recipe of a manager that stays entered: its exit restores the state that this one stored."""
        raise breaks.unsupported(breaks.GENERATOR_RECIPE, f"a yield inside of {self.describe()}", name="with")

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        """Use as a decorator: ``@torch.no_grad()`` on a function that the traced code defines."""
        return decorated(tracer, self, arguments[0])


class DecoratedVariable(VariableTracker):
    """A function that a context manager decorates: a call runs inside of the manager."""

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
    """Tracker of a function that a manager decorates.

    A manager of torch that has a ``clone`` is entered around each step of a generator function, not around its call.
    """
    function = realise(tracer, function)
    code = getattr(function, "code", None)
    if context.at_call() is not context and isinstance(code, types.CodeType) and code.co_flags & inspect.CO_GENERATOR:
        around_steps = tracer.wrap(torch.utils._contextlib._wrap_generator, None)
        return tracer.call(around_steps, [BuiltinMethodVariable(context, "clone"), function])
    return DecoratedVariable(context, function)


def raise_unknown_state(manager: ContextVariable) -> NoReturn:
    """Break for an exit of a manager that another frame entered, or a copy of an entered one: its state is unknown."""
    raise breaks.unsupported(breaks.UNSUPPORTED_CONTEXT, manager.describe(), name=manager.cls.__name__)


def expect_distinct(entered: Sequence[ContextVariable]) -> None:
    """Check that no two active blocks have one manager: the resume function would enter two, with a state each."""
    for position, manager in enumerate(entered):
        if manager.keeps_entry and manager in entered[:position]:
            raise_unknown_state(manager)


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
    """A profiler, or a range of one: it has no effect on compiled code, as in torch.

    It does not measure compiled code either: no result of one that the traced code created can be read afterwards.
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


class ExitVariable(VariableTracker):
    """Exit function that BEFORE_WITH leaves on the stack: called at the end of the ``with`` block."""

    def __init__(self, context: VariableTracker) -> None:
        self.context = context

    def describe(self) -> str:
        return f"WithExitFunctionVariable({self.context.describe()})"

    def python_type(self) -> type:
        return type(contextlib.nullcontext().__exit__)

    def recipe(self, reconstruction: Reconstructor) -> Recipe:
        """Recipe of the bound ``__exit__`` of a manager that stays entered: a generator is suspended in its block."""
        context = self.context
        if isinstance(context, ContextVariable):
            manager = context.recipe_of_entered(reconstruction)
        else:
            manager = reconstruction.recipe(context)
        return Call(Constant(_exit_of, "exit_of"), (manager,))

    def call(self, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        if isinstance(self.context, ContextVariable):
            # Managers of torch return None from ``__exit__``: they suppress no exception. The result of a user's
            # ``__exit__`` may suppress it.
            self.context.exit(tracer)
            return ConstantVariable(None)
        return tracer.call_special(self.context, "__exit__", arguments)


def _exit_of(manager: Any) -> Any:
    """Bound exit function that BEFORE_WITH leaves on the stack: it is looked up on the class, not the object."""
    return type(manager).__exit__.__get__(manager)
