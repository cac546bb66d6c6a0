"""Functions that ``compile`` and ``disable`` return: which function is inside, and which functions only look alike.

    compiled = nbcompile.compile(f)             original(compiled) is f
    @functools.wraps(compiled)
    def twice(x): return 2 * compiled(x)        original(twice) is None, though ``wraps`` copied all attributes

A wrapper has its own identity among its attributes, so a copy of the attributes does not make another function one.

In torch: torch/_dynamo/eval_frame.py (innermost_fn). Read next: nbcompile/eval_frame/wrapper.py
"""

from __future__ import annotations

from typing import Any

ORIGINAL = "_nbcompile_original"
"""The attribute under which a wrapper keeps the function that it wraps."""
_IDENTITY = "_nbcompile_wrapper_id"

_OF_TORCH = ("_torchdynamo_orig_callable", "_torchdynamo_wrapper_id")
"""The same two in torch."""
_DISABLED = ("_nbcompile_disable", "_torchdynamo_disable")


def mark(wrapper: Any, original: Any) -> None:
    """Make a function the wrapper of another one."""
    setattr(wrapper, ORIGINAL, original)
    setattr(wrapper, _IDENTITY, id(wrapper))
    # With torch's names, torch.compile(wrapper) compiles the original, instead of a call of our code.
    for name, value in zip(_OF_TORCH, (original, id(wrapper)), strict=True):
        setattr(wrapper, name, value)


def original(function: Any) -> Any:
    """The callable inside a wrapper that ``compile`` looks into; None for any other value, such as a bound method."""
    attributes = getattr(function, "__dict__", {}) if not hasattr(function, "__self__") else {}
    # ``disable(recursive=False)`` excludes the code of the function inside, whatever wraps it.
    if not attributes.get("_torchdynamo_disable_recursive", True):
        return None
    # Older versions of torch set no identity.
    for callable_name, identity in ((ORIGINAL, _IDENTITY), _OF_TORCH):
        if callable_name in attributes and attributes.get(identity, id(function)) == id(function):
            return attributes[callable_name]
    return None


def innermost(function: Any) -> Any:
    """The callable inside of all wrappers; the value itself if it is no wrapper."""
    inner = original(function)
    return function if inner is None else innermost(inner)


def is_compiled(function: Any) -> bool:
    """True for a function that ``nbcompile.compile`` or ``torch.compile`` returned, and for a method of one."""
    function = getattr(function, "__func__", function)
    return original(function) is not None and not is_disabled(function)


def is_compiled_here(function: Any) -> bool:
    """True for a function that ``nbcompile.compile`` returned, and for a method of one."""
    return is_compiled(function) and ORIGINAL in getattr(function, "__dict__", {})


def is_disabled(function: Any) -> bool:
    """True for a function that ``nbcompile.disable`` or ``torch.compiler.disable`` returned."""
    attributes = getattr(function, "__dict__", {})
    return any(attributes.get(name) for name in _DISABLED)
