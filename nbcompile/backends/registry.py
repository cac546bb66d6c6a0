"""Backends by name: those of builtin.py, registered ones, and those of installed packages.

    lookup("inductor")(graph_module, example_inputs)     a callable over the graph's inputs
    @register                                            a backend of the user's own, by its name

In torch: torch/_dynamo/backends/registry.py. Read next: nbcompile/backends/builtin.py
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
from collections.abc import Callable, Mapping, Sequence
from types import BuiltinFunctionType
from typing import Any

import torch
import torch.fx

from nbcompile import errors, torch_internals
from nbcompile.aot import runtime_wrapper
from nbcompile.record import recorder
from nbcompile.runtime.program import PythonWrapper
from nbcompile.support.process_state import STATE, Lifetime

Backend = Callable[..., Callable[..., Any]]
"""``(graph_module, example_inputs) -> callable``; may take ``mode=`` and ``options=`` as well."""

ENTRY_POINTS = "torch_dynamo_backends"
_CHECKS = ("eager_noexcept", "eager_debug")
_registered: dict[str, Backend] = STATE.add("backends.registry._registered", {}, Lifetime.PROCESS)


def lookup(
    backend: str | Backend, *, mode: str | None = None, options: Mapping[str, object] | None = None
) -> Callable[[torch.fx.GraphModule, Sequence[Any]], Callable[..., Any]]:
    """The backend of this name (or the given one), with its failures reported as ``BackendCompilerFailed``.

    Raises:
        errors.InvalidBackend: no backend has this name.
    """
    function = _by_name(backend) if isinstance(backend, str) else backend
    # A backend of the user's need not take them: they are passed only where the caller gave them.
    keywords = {key: value for key, value in (("mode", mode), ("options", options)) if value}
    own = _is_ours(function)

    # Its name and text, but not its ``__dict__``: that of an object that is a backend holds the object's state.
    @functools.wraps(function, updated=())
    def compile_with(graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        draft = recorder.draft()
        if draft is not None:
            draft.write_graph(backend=backend_name(backend))
        try:
            # Backends of ours open a tracing context themselves, where AOTAutograd needs one (aot/aot_autograd.py).
            context = contextlib.nullcontext() if own else torch_internals.tracing_context(graph_module)
            with torch_internals.kept_grad_mode(), context:
                compiled = function(graph_module, example_inputs, **keywords)
        except Exception as error:
            raise errors.BackendCompilerFailed(backend_name(backend), error) from error
        if not callable(compiled):
            wrong = TypeError(f"the backend returned {compiled!r}, which cannot be called")
            raise errors.BackendCompilerFailed(backend_name(backend), wrong)
        return hidden(compiled)

    return compile_with


def hidden(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """The frame hook looks at no Python that runs inside a compiled graph (the graph's own code, say)."""
    owner = getattr(compiled, "__self__", None)
    if isinstance(compiled, BuiltinFunctionType) or isinstance(owner, PythonWrapper):
        return compiled  # C, or Python that is hidden already
    if getattr(compiled, "__code__", None) in runtime_wrapper.HIDDEN_FROM_HOOK:
        return compiled

    def call(*arguments: Any) -> Any:
        return compiled(*arguments)

    torch_internals.hide_from_hook(call.__code__)
    return call


class OperatorFailure(Exception):
    """An operator of the program fails, and not the backend that compiled it."""


def has_own_errors(backend: str | Backend) -> bool:
    """True if a backend's callable may raise what the program would not: it is none of ours, or one that checks."""
    function = _by_name(backend) if isinstance(backend, str) else backend
    return not _is_ours(function) or backend_name(function) in _CHECKS


def _is_ours(backend: Backend) -> bool:
    # A function may have no module: what ``exec`` defines has None.
    return (getattr(backend, "__module__", None) or "").startswith("nbcompile.")


def reporting_failures(compiled: Callable[..., Any], graph_module: torch.fx.GraphModule) -> Callable[..., Any]:
    """A compiled graph that raises ``OperatorFailure`` for the program's errors, and the backend's own as they are.

    The graph, which only computes, runs as it was captured to find out.
    """
    as_captured = torch_internals.forward_of(graph_module)

    def call(*arguments: Any) -> Any:
        try:
            return compiled(*arguments)
        except errors.GraphRaised:
            raise
        except Exception:
            try:
                as_captured(*arguments)
            except Exception as error:
                raise OperatorFailure from error
            raise

    return hidden(call)


def specialised(
    general: Callable[..., Any],
    wished: Sequence[tuple[int, Callable[[int], bool]]],
    compile_for: Callable[..., Callable[..., Any]],
) -> Callable[..., Any]:
    """A compiled graph that is specialized, by another compilation, for the sizes that the user requested.

    Args:
        general: for any size.
        wished: positions of inputs that are sizes, each with a predicate, which is true of the requested sizes.
        compile_for: compiles the graph for given inputs; called once for each predicate, at the first call that
            satisfies it.
    """
    special: dict[int, Callable[..., Any]] = {}

    def choose(*inputs: Any) -> Any:
        for number, (position, condition) in enumerate(wished):
            if condition(inputs[position]):
                if number not in special:
                    special[number] = compile_for(*inputs)
                return special[number](*inputs)
        return general(*inputs)

    return hidden(choose)


def backend_name(backend: str | Backend) -> str:
    """The name of a backend in messages and in the record."""
    if isinstance(backend, str):
        return backend
    if isinstance(backend, functools.partial):
        return backend_name(backend.func)
    return str(getattr(backend, "__name__", type(backend).__name__))


def register(function: Backend | None = None, name: str | None = None) -> Any:
    """Make a backend known by name: ``@register`` or ``register(function, name="mine")``.

    Raises:
        ValueError: another backend has this name.
    """
    if function is None:
        return functools.partial(register, name=name)
    key = name or backend_name(function)
    if _registered.get(key, function) is not function:
        raise ValueError(f"there is a backend named {key!r} already")
    _registered[key] = function
    return function


def names() -> tuple[str, ...]:
    """Every backend that ``lookup`` knows, those of installed packages included."""
    return tuple(sorted({*_registered, *_entry_points()}))


def _by_name(name: str) -> Backend:
    if name not in _registered:
        found = _entry_points().get(name)
        if found is None:
            raise errors.InvalidBackend(name, names())
        # The package is imported when its backend is requested by name, not when the backends are listed.
        _registered[name] = found.load()
    return _registered[name]


def _entry_points() -> dict[str, importlib.metadata.EntryPoint]:
    return {point.name: point for point in importlib.metadata.entry_points(group=ENTRY_POINTS)}
