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

from nbcompile import errors
from nbcompile.dispatch import hook, skipping
from nbcompile.eval_frame import wrapper

Function = TypeVar("Function", bound=Callable[..., Any])


def disable(function: Function | None = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Never compile a function (``recursive``: nor what it calls); calling it breaks the graph."""
    if function is None:
        return DisableDecorator(recursive, reason)
    original = wrapper.original_of(function)
    if not callable(original):
        raise errors.NotCallable(f"A callable function is expected, but {type(original)} is provided.")
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
    return disabled


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
