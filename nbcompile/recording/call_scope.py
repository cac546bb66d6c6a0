"""Scope of a hypothetical call: the names of a frame, as Python would bind them.

    def f(x, *rest, k=1): ...        scope_of(f.__code__, f, (1, 2, 3), {})
                                     x: 1    rest: (2, 3)    k: 1    and the cells of the closure

Guards are evaluated over a scope. So the cache entry that a call would hit can be found without running a frame.

In torch: nothing; guards see only frames. Read next: nbcompile/capture/source.py
"""

from __future__ import annotations

import builtins
import inspect
from collections.abc import Mapping, Sequence
from types import CodeType, MethodType
from typing import Any

from nbcompile.capture.resolution import Scope


def scope_of(code: CodeType, function: Any, arguments: Sequence[object], keywords: Mapping[str, object]) -> Scope:
    """Bind the arguments of a call of a function, a method or a module whose code this is.

    Raises:
        TypeError: the function takes other arguments.
        ValueError: a variable of the closure is not assigned yet.
    """
    if not hasattr(function, "__code__"):  # of a module, its forward is compiled
        function = MethodType(type(function).forward, function)
    if isinstance(function, MethodType):
        # As in the frame: ``self`` may also be the first of ``*args``.
        function, arguments = function.__func__, (function.__self__, *arguments)
    # The code's own parameters, also if the function has another signature (``functools.wraps``).
    bound = inspect.signature(function, follow_wrapped=False).bind(*arguments, **keywords)
    bound.apply_defaults()
    values: dict[str, Any] = dict(bound.arguments)
    free = zip(code.co_freevars, getattr(function, "__closure__", None) or (), strict=False)
    values.update({name: cell.cell_contents for name, cell in free})
    return Scope(code, values, getattr(function, "__globals__", {}), vars(builtins))
