"""``disable``: functions that are never compiled.

    @nbcompile.disable                       neither this function nor what it calls
    @nbcompile.disable(recursive=False)      only this function: what it calls is compiled
    def log(x): ...

In torch: torch/_dynamo/decorators.py (disable), torch/_dynamo/eval_frame.py (DisableContext). Read next:
nbcompile/dispatch/skipping.py
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch

from nbcompile import errors
from nbcompile.dispatch import hook, skipping
from nbcompile.eval_frame.compiled_module import CompiledModule
from nbcompile.support import wrappers

Function = TypeVar("Function", bound=Callable[..., Any])


def disable(function: Function | None = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Never compile a function (``recursive``: nor what it calls); calling it breaks the graph."""
    if function is None:
        return DisableDecorator(recursive, reason)
    original = _original_of(function)
    if not callable(original):
        raise errors.NotCallable(f"A callable function is expected, but {type(original)} is provided.")
    if recursive and isinstance(original, type):
        return _disable_class(original, reason)
    if recursive and isinstance(original, torch.nn.Module):
        return DisabledModule(original, reason)
    if recursive:

        @functools.wraps(original)
        def disabled(*arguments: Any, **keywords: Any) -> Any:
            with hook.paused():
                return original(*arguments, **keywords)
    else:
        # Only the function itself is not compiled: the hook still sees the frames of the functions that it calls.

        @functools.wraps(original)
        def disabled(*arguments: Any, **keywords: Any) -> Any:
            return skipping.nonrecursive_disable_wrapper(original, arguments, keywords)

    marks = {"disable": True, "disable_recursive": recursive, "disable_reason": reason}
    for name, value in marks.items():
        setattr(disabled, f"_nbcompile_{name}", value)
    if recursive:  # ``compile`` of it compiles the function inside, as in torch
        wrappers.mark(disabled, original)
    return disabled


def _original_of(function: Any) -> Any:
    if isinstance(function, torch.nn.Module):
        return function._orig_mod if isinstance(function, CompiledModule) else function
    return wrappers.innermost(function)


def _disable_class(cls: type, reason: str | None) -> type:
    """Disable what creates and what calls the instances of a class, which stays the class that it is."""
    for name in ("__init__", "__call__"):
        found = next((vars(base)[name] for base in cls.__mro__ if name in vars(base)), None)
        # ``object.__init__`` rejects the arguments of a ``__new__`` where the class has an ``__init__``.
        if callable(found) and found is not object.__init__:
            setattr(cls, name, disable(found, reason=reason))
    return cls


class DisabledModule(CompiledModule):
    """The result of ``disable(module)``: the module itself, called without the compiler.

    In torch: torch/_dynamo/eval_frame.py (OptimizedModule, created by DisableContext as well).
    """

    _runs_compiled = False

    def _become(self, reason: Any) -> None:
        module: Any = self._modules["_orig_mod"]
        object.__setattr__(self, "_nbcompile_chosen", reason)
        object.__setattr__(self, "_nbcompile_call", disable(module.__call__, reason=reason))

    @property
    def dynamo_ctx(self) -> Callable[[Any], Any]:
        """A function that disables another function or module for the same reason."""
        return DisableDecorator(True, self.__dict__["_nbcompile_chosen"])


class DisableDecorator:
    """``@disable(recursive=False)``: a decorator, and no context manager."""

    def __init__(self, recursive: bool, reason: str | None) -> None:
        self.recursive = recursive
        self.reason = reason

    def __call__(self, function: Function) -> Any:
        return disable(function, self.recursive, reason=self.reason)

    def __enter__(self) -> None:
        raise RuntimeError("disable is a decorator: it cannot be used as a context manager")

    def __exit__(self, *error: object) -> None:
        raise NotImplementedError
