"""The symbolic shape environment of a trace: how it is created, and its data-dependent sizes.

    env = new_shape_env()
    with scalar_outputs(env): ...       `x.item()` is a symbol without a value

In torch: torch/fx/experimental/symbolic_shapes.py (ShapeEnv). Read next: nbcompile/torch_internals/symbols.py
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import logging
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch._guards
import torch._logging._internal
import torch.fx

from nbcompile.torch_internals.logs import give_up_trace, is_trace_open
from nbcompile.torch_internals.modules import symbolic_shapes


def new_shape_env(scalar_outputs: bool, output_shapes: bool, on_guard: Callable[[Any], None]) -> Any:
    """A new ShapeEnv, which creates the symbolic sizes of one frame and collects their guards.

    Args:
        scalar_outputs: True if numbers that are known only at run time (``item()``) are symbols, too.
        output_shapes: True if sizes that are known only at run time (``nonzero()``) are.
        on_guard: a method that is called with each condition that becomes a guard.
    """
    _begin_structured_trace()
    # A RecursionError at the exit of a context manager of torch can leave guards suppressed in the whole thread.
    symbolic_shapes().TLS.suppress_guards = False
    shape_env = symbolic_shapes().ShapeEnv(
        allow_scalar_outputs=scalar_outputs, allow_dynamic_output_shape_ops=output_shapes
    )
    # ShapeEnv logs each guard here, with the user's line in torch.compile; here the tracer knows the line.
    # A graph refers to its ShapeEnv, which must not keep the tracer alive, and with it the call that was traced.
    listener = weakref.WeakMethod(on_guard)

    def record_guard(prefix: str, condition: Any, forcing_spec: bool) -> None:
        listen = listener()
        # Conditions of FakeTensor's cache on its own entries are evaluated, and logged, but do not become guards.
        if listen is not None and "suppressed" not in prefix:
            listen(condition)

    shape_env._log_guard = record_guard
    # Torch stores the user's frame with each symbol, for its logs. The search for it skips files by name, those of
    # torch's tracer and code generator among them, which would be imported only for their names.
    if _can_log_without_a_frame():
        shape_env._get_user_frame = lambda: None
    return shape_env


@functools.cache
def _can_log_without_a_frame() -> bool:
    """True if torch can print the origin of a guard without a stored frame (2.11 cannot)."""
    try:
        return bool(str(torch._guards.SLoc(None, None)))
    except AttributeError:
        return False


def _begin_structured_trace() -> None:
    # The first record shows torch that no trace is requested (TORCH_TRACE): it then writes none until its logs are
    # set. Torch's own first record has a stack, for whose C++ part torch's code generator would be imported, or a
    # fake tensor of a subclass, which cannot be printed.
    if is_trace_open():
        return
    try:
        torch._logging._internal.trace_structured(
            "artifact",
            lambda: {"name": "nbcompile", "encoding": "string"},
            payload_fn=lambda: "compiled by nbcompile",
            suppress_context=True,
        )
    except OSError as error:  # the handler opens its file when the first record comes
        give_up_trace()
        logging.getLogger("nbcompile").warning("TORCH_TRACE: nothing is written: %s", error)


def allow_scalar_outputs(shape_env: Any, allowed: bool = True) -> bool:
    """Let ``item()`` of a fake tensor be a new symbol from here on; return the previous setting."""
    before: bool = shape_env.settings.allow_scalar_outputs
    shape_env.settings = dataclasses.replace(shape_env.settings, allow_scalar_outputs=allowed)
    return before


@contextlib.contextmanager
def scalar_outputs(shape_env: Any) -> Iterator[None]:
    """Let ``item()`` of a fake tensor be a new symbol in the block."""
    before = allow_scalar_outputs(shape_env)
    try:
        yield
    finally:
        allow_scalar_outputs(shape_env, before)


def note_unbacked_symbols(shape_env: Any, node: torch.fx.Node, example: object) -> bool:
    """Store on a node the unbacked symbols that appear in its result first.

    False: there are new symbols that do not appear in the result, so that no node could define them.
    """
    # Symbols that an operator created while it ran, and that no node has shown so far.
    if shape_env.pending_fresh_unbacked_symbols:
        try:
            bindings = symbolic_shapes().compute_unbacked_bindings(shape_env, example)
        except symbolic_shapes().PendingUnbackedSymbolNotFound:
            shape_env.pending_fresh_unbacked_symbols.clear()
            return False
        if bindings:
            node.meta["unbacked_bindings"] = bindings
    return True


def drop_new_symbols(shape_env: Any) -> None:
    """Drop the new symbols of an abandoned trace: no node defines them, and the next trace must not search for them."""
    if shape_env is not None:
        shape_env.pending_fresh_unbacked_symbols.clear()
        shape_env.ignorable_fresh_unbacked_symbols.clear()


def insert_runtime_asserts(module: torch.fx.GraphModule, shape_env: Any, name: str) -> None:
    """Compute each symbolic number once from the inputs; add assertions for conditions that only the run can check."""
    asserts = importlib.import_module("torch.fx.passes.runtime_assert")
    with torch._C._EnableTorchFunction():  # functions such as torch.sym_sum are given nodes of the graph
        asserts.insert_deferred_runtime_asserts(module, shape_env, name)
