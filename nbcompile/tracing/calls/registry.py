"""The tables of handlers and polyfills, by callable.

    @handles(len)
    def _len(tracer, arguments, keywords): ...

    polyfills.zip_  is traced instead of zip

torch's annotations are recognised by name, so that none of them is imported.

In torch: @register decorators all over torch/_dynamo/variables. Read next:
builtins.py, torch_functions.py, library.py
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType

from nbcompile.support.real_class import is_instance
from nbcompile.tracing import breaks
from nbcompile.tracing.variables.base import VariableTracker
from nbcompile.tracing.variables.known_callables import Handler

# The keys are addresses (``id``), as a value may have a ``__hash__`` of its own or none. Each row
# also holds its value: were it freed, another object could get its address, and with it the handler.
_HANDLERS: dict[object, tuple[object, Handler]] = {}
_NAMED: dict[tuple[str, str], Handler] = {}
_OF_CLASSES: dict[type, Callable[..., VariableTracker]] = {}
_POLYFILLS: dict[object, tuple[object, FunctionType]] = {}


def handles(*values: object) -> Callable[[Handler], Handler]:
    """Register a handler of one or several callables."""

    def register(function: Handler) -> Handler:
        for value in values:
            assert _key(value) not in _HANDLERS, f"{value} has two handlers"
            _HANDLERS[_key(value)] = (value, function)
        return function

    return register


def handles_named(module: str, *names: str) -> Callable[[Handler], Handler]:
    """Register a handler by module and name, for a callable that must not (or cannot) be imported here."""

    def register(function: Handler) -> Handler:
        for name in names:
            assert (module, name) not in _NAMED, f"{module}.{name} has two handlers"
            _NAMED[module, name] = function
        return function

    return register


def handles_instances(cls: type) -> Callable[[Callable[..., VariableTracker]], Callable[..., VariableTracker]]:
    """Register a handler of all callable instances of a class; its first argument is the instance."""

    def register(function: Callable[..., VariableTracker]) -> Callable[..., VariableTracker]:
        assert cls not in _OF_CLASSES, f"instances of {cls} have two handlers"
        _OF_CLASSES[cls] = function
        return function

    return register


def add_polyfill(value: object, function: object) -> None:
    """Register a polyfill. It is used only if the function has no handler (wrapping/callables.py): for a function that
    is folded if its arguments are known, use :func:`folding.folds_or_traces`.
    """
    assert isinstance(function, FunctionType)
    assert _key(value) not in _POLYFILLS, f"{value} has two polyfills"
    _POLYFILLS[_key(value)] = (value, function)


def handler(value: object) -> Handler | None:
    """The handler of a callable, or None."""
    found = _HANDLERS.get(_key(value))
    if found is not None:
        return found[1]
    for cls, function in _OF_CLASSES.items():
        if cls in type(value).__mro__:  # isinstance() would read the ``__class__`` of the object
            return functools.partial(function, value)
    if is_instance(value, FunctionType) or is_instance(value, type):
        return _NAMED.get((value.__module__ or "", value.__qualname__))
    return None


def polyfill(value: object) -> FunctionType | None:
    """The polyfill of a callable, or None."""
    found = _POLYFILLS.get(_key(value))
    return None if found is None else found[1]


def disabled(value: FunctionType) -> breaks.Unsupported | None:
    """Reason why a function that ``torch.compiler.disable`` (or nbcompile's ``disable``) wraps breaks the graph."""
    if not getattr(value, "_torchdynamo_disable", False) and not getattr(value, "_nbcompile_disable", False):
        return None
    original = getattr(value, "_torchdynamo_orig_callable", getattr(value, "__wrapped__", value))
    name = getattr(original, "__qualname__", str(original))
    reason = getattr(value, "_torchdynamo_disable_msg", None) or getattr(value, "_nbcompile_disable_reason", None)
    recursive = getattr(value, "_torchdynamo_disable_recursive", getattr(value, "_nbcompile_disable_recursive", True))
    kind = breaks.DISABLED_FUNCTION if recursive else breaks.DISABLED_INLINE
    return breaks.unsupported(kind, str(original), name=name, reason=reason)


def is_compiled_module(value: object) -> bool:
    """True for a result of ``torch.compile`` for a module: the module inside it is traced."""
    kind = type(value)
    return (kind.__module__, kind.__qualname__) == ("torch._dynamo.eval_frame", "OptimizedModule")


def requires_one_graph(value: object) -> bool:
    """True if a wrapper of ``nbcompile.compile`` was created with ``fullgraph=True``: a break in it is an error."""
    return bool(getattr(getattr(value, "_nbcompile_options", None), "fullgraph", False))


def _key(value: object) -> object:
    # dict.fromkeys is a new object at each look-up: its class and name are the same.
    if is_instance(value, BuiltinFunctionType) and is_instance(value.__self__, type):
        return (id(value.__self__), value.__name__)
    return id(value)
