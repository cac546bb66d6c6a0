"""The functions that a user calls: compile, explain, reset, disable.

    @nbcompile.compile
    def f(x): ...

    nbcompile.explain(f)(x)      runs f and reports what happened

``compile`` checks its arguments and returns a wrapper. The wrapper switches the frame hook on for the time of a call;
compilation begins when the hook sees a frame for which it has no code.

In torch: torch/__init__.py (compile), torch/compiler/__init__.py. Read next: nbcompile/eval_frame/wrapper.py, then
nbcompile/driver/stages.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from nbcompile import hooks, observe
from nbcompile.eval_frame.compiled_module import CompiledModule, compile_callable
from nbcompile.eval_frame.default_backend import get_default_backend, set_default_backend
from nbcompile.eval_frame.disabling import disable
from nbcompile.eval_frame.wrapper import run
from nbcompile.fast.disk_cache import writer
from nbcompile.fast.hook_table import HOOKS
from nbcompile.options import OWN_NAME, Options
from nbcompile.record import recorder
from nbcompile.support import lazy_import, wrappers
from nbcompile.support.process_state import STATE

if TYPE_CHECKING:
    from nbcompile import backends
    from nbcompile.recording import entries
    from nbcompile.views import explanation
    from nbcompile.views.explanation import Explanation
else:
    backends, entries = lazy_import.module("nbcompile.backends"), lazy_import.module("nbcompile.recording.entries")
    explanation = lazy_import.module("nbcompile.views.explanation")

__all__ = [
    "compile",
    "compile_module_",
    "disable",
    "explain",
    "get_default_backend",
    "listening",
    "new_recorder",
    "reset",
    "run",
    "set_default_backend",
]

hooks.install(HOOKS)
recorder.subscribers.extend(observe.SUBSCRIBERS)


def compile(  # noqa: A001
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] | None = None,
    mode: str | None = None,
    options: Mapping[str, object] | None = None,
    disable: bool = False,
    name: str | None = None,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
) -> Any:
    """Compile a function or an ``nn.Module``; takes the arguments of ``torch.compile``.

    Args:
        model: a function or module; None: returns a decorator.
        fullgraph: the whole function must become one graph; otherwise an error says why it does not.
        dynamic: None: sizes that change become symbolic; True: all are; False: none.
        backend: a name (``nbcompile.backends.names()``) or ``(GraphModule, example_inputs) -> callable``;
            None: :func:`get_default_backend`.
        mode: a preset of the backend.
        options: options of the backend; not together with ``mode``.
        disable: return the function as it is.
        name: how the record calls it.
        recompile_limit: instead of ``config.recompile_limit``.
        isolate_recompiles: share no compiled code, and no limit, with other ``compile`` calls of the function.

    Returns:
        A function that behaves as the given one, or a module that shares the parameters of the given module.

    Raises:
        errors.NotCallable: ``model`` cannot be called.
        TypeError: ``backend`` is neither a name nor callable.
        ValueError: ``dynamic`` or ``recompile_limit`` has a value that is not allowed.
        errors.InvalidBackend: no backend has this name; ``InvalidMode``, ``InvalidBackendOption`` likewise.
    """
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if recompile_limit is not None and (type(recompile_limit) is not int or recompile_limit < 1):
        raise ValueError(f"recompile_limit: expected an integer of at least 1, got {recompile_limit!r}")
    if dynamic not in (None, True, False):
        raise ValueError(f"dynamic: expected True, False or None, got {dynamic!r}")
    backend = get_default_backend() if backend is None else "inductor" if backend == OWN_NAME else backend
    more: dict[str, Any] = dict(options or {})
    guard_filter = more.pop("guard_filter_fn", None)
    chosen = Options(fullgraph, dynamic, backend, mode, more, recompile_limit, name, isolate_recompiles, guard_filter)
    if model is None:
        return lambda function: compile_callable(function, chosen, disable)
    return compile_callable(model, chosen, disable)


def compile_module_(module: torch.nn.Module, **arguments: Any) -> None:
    """Compile a module in place, as ``module.compile()`` does: its class and its ``state_dict`` stay as they are.

    Args:
        module: whose calls are compiled from now on.
        **arguments: of :func:`compile`.

    Raises:
        TypeError: it is no module.
    """
    if not isinstance(module, torch.nn.Module):
        raise TypeError(f"An nn.Module is expected, but {type(module)} is provided.")
    module._compiled_call_impl = compile(module._call_impl, **arguments)


def explain(function: Callable[..., Any], **arguments: Any) -> Callable[..., Explanation]:
    """Run a function compiled, and report what happened.

    A function that is not compiled yet is compiled for this one call, whatever other ``compile`` calls of it
    have in their caches. What ``compile`` returned is called as it is: the report is of what this call adds.

    Args:
        function: a function, a module, or what ``compile`` returned.
        **arguments: of :func:`compile`, where the function is not compiled yet.

    Returns:
        A function with the same arguments that returns an :class:`Explanation`: ``.result`` is what the function
        returned. What it raises is explained, too, and raised by ``.result``.
    """
    compiled = (
        function
        if wrappers.is_compiled_here(function) or isinstance(function, CompiledModule)
        else compile(function, **{"isolate_recompiles": True, **arguments})
    )

    def explained(*positional: Any, **keywords: Any) -> Explanation:
        name = getattr(function, "__name__", type(function).__name__)
        frame_recorder = new_recorder(name, _target(arguments.get("options")))
        try:
            with listening(frame_recorder):
                returned = compiled(*positional, **keywords)
        except Exception as error:  # noqa: BLE001 - it is kept, and raised by ``.result``
            return explanation.Explanation(frame_recorder.record(), exception=error)
        return explanation.Explanation(frame_recorder.record(), returned=returned, latest=frame_recorder.record)

    return explained


def _target(options: object) -> str:
    """Return the target option; "" if there is none. ``compile`` checks the options, which may be anything here."""
    target = options.get("target") if isinstance(options, dict) else ""
    return target if isinstance(target, str) else ""


def new_recorder(function: str, target: str = "") -> recorder.Recorder:
    """Create a recorder with its environment: versions, and the compiler for this machine or for another target."""
    return recorder.Recorder(function, entries.environment(backends.compiler_name(target)))


@contextmanager
def listening(frame_recorder: recorder.Recorder, *, threads: recorder.Threads = "own") -> Iterator[recorder.Recorder]:
    """Record what is compiled inside of the block, in other threads too if asked, and the exception that ends it."""
    with frame_recorder.listening(threads=threads):
        try:
            yield frame_recorder
        except SystemExit:  # ``sys.exit`` ends a program; it is no failure
            raise
        except BaseException as error:
            frame_recorder.raised = entries.raised(error)
            raise


def reset() -> None:
    """Drop all compiled code and all facts recorded about functions; free the memory pooled for results.

    Entries on disk stay; pending writes are finished first.
    """
    writer.flush(timeout=writer.TIMEOUT)
    STATE.reset()
