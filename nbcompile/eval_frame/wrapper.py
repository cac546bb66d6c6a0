"""The wrapper of a compiled function: it calls the original with the frame hook switched on.

    compiled = nbcompile.compile(f)
    compiled(x)      path(arguments, keywords)      slow_path: the hook sees f's frame
                                                    from the third call on, a fast call replaces slow_path

Which frame the hook sees first is decided here, too: that of a user's function as it is; a library's own
function (``torch.nn.Linear``) is called from a function of nbcompile's.

In torch: torch/_dynamo/eval_frame.py (_TorchDynamoContext.__call__). Read next: nbcompile/eval_frame/stances.py
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import CodeType
from typing import Any

import torch
from torch.compiler import is_dynamo_compiling

from nbcompile import config, errors, hooks, stance as process_stance
from nbcompile.dispatch import hook, library_calls, skipping, tracebacks
from nbcompile.eval_frame import other_tracers, stances
from nbcompile.eval_frame.compiled_autograd import Region
from nbcompile.options import Options
from nbcompile.recording import hit_log
from nbcompile.support import wrappers

OPTIONS = "_nbcompile_options"
"""The attribute under which a wrapper keeps its options."""
MODULE_CALLS = (torch.nn.Module._call_impl, torch.nn.Module._wrapped_call_impl)


def code_of(function: Callable[..., Any]) -> CodeType | None:
    """The code that the user means: of a module's own call, which only runs hooks around it, that of ``forward``."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, torch.nn.Module) and getattr(function, "__func__", None) in MODULE_CALLS:
        function = owner.forward
    return getattr(function, "__code__", None)


def find_first_function(fn: Callable[..., Any], code: CodeType | None) -> Callable[..., Any]:
    """Function whose frame the hook sees first.

    Frames of libraries are skipped. So a library's own function (``torch.nn.Linear``) is called from one of ours.
    """
    with config.with_torch_settings():
        wrapped = config.wrap_top_frame
    # A frame of a skipped file is never seen by the hook. One of ours calls the function, and that frame is compiled.
    if code is not None and skipping.code_skip_reason(code) is None and not wrapped:
        skipping.always_look(code)
        return fn
    return library_calls.caller_of(fn)


def wrap(
    original: Callable[..., Any], first_function: Callable[..., Any], options: Options, region: Region | None = None
) -> Callable[..., Any]:
    """A function that looks like ``original`` and calls ``first_function`` with the hook on, in a region if given."""
    callback = stances.compiling(options)
    call, stance, default = callback.call, process_stance.stance, process_stance.DEFAULT
    listeners = hit_log.listeners

    def slow_path(arguments: Any, keywords: Any) -> Any:
        # torch.compile traces this function, and with it the original, or its hook gets the original's frame.
        if is_dynamo_compiling() or hook.is_of_other_compiler():
            return original(*arguments, **keywords)
        if other_tracers.is_active():
            return other_tracers.call(visible, original, arguments, keywords)
        if stance() is not default:
            return _under_stance(original, first_function, options, arguments, keywords)
        if listeners:
            return hit_log.logged(call, first_function, arguments, keywords)
        if installer is not None:
            if installer.knows_every_entry():  # past the recompile limit: the hook would find what the fast call found
                return first_function(*arguments, **keywords)
            installer.note(arguments, keywords)
        return call(first_function, arguments, keywords)

    path: hooks.Path = slow_path

    # ``compiled`` calls whatever ``path`` is: once a fast call is installed, nothing of the slow path runs before it.
    def install(faster: hooks.Path) -> None:
        nonlocal path
        path = faster

    # Those of ``fast/`` also on the reference path, which may be left later: the installer looks at each call.
    installer = hooks.installed().call_installer(first_function, callback, slow_path, install)

    @functools.wraps(original)
    def compiled(*arguments: Any, **keywords: Any) -> Any:
        try:
            return path(arguments, keywords)
        except BaseException as error:
            tracebacks.hide_ours(error)
            raise

    visible = compiled if region is None else _inside(region, compiled)
    wrappers.mark(visible, original)
    setattr(visible, OPTIONS, options)
    # The wrapper itself must not be compiled.
    hook.skip_code(compiled.__code__)  # type: ignore[attr-defined]
    return visible


def _inside(region: Region, call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def compiled(*arguments: Any, **keywords: Any) -> Any:
        with region():
            return call(*arguments, **keywords)

    return compiled


def _under_stance(
    original: Callable[..., Any], first_function: Callable[..., Any], options: Options, arguments: Any, keywords: Any
) -> Any:
    stance = process_stance.stance()
    if stance[0] == "force_eager":
        with hook.paused():
            return original(*arguments, **keywords)
    return stances.callback(options, stance, getattr(original, "__code__", None)).call(
        first_function, arguments, keywords
    )


def run(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Call a compiled function with its existing cache entries: nothing is compiled."""
    if not callable(fn):
        raise errors.NotCallable(f"A callable function is expected, but {type(fn)} is provided.")
    options = getattr(fn, OPTIONS) if wrappers.is_compiled_here(fn) else Options()
    original = wrappers.innermost(fn)
    return _wrap_call(original, stances.callback(options, ("eager_on_recompile", None), None))


def _wrap_call(original: Callable[..., Any], callback: hook.FrameCallback) -> Callable[..., Any]:
    @functools.wraps(original)
    def ran(*arguments: Any, **keywords: Any) -> Any:
        return callback.call(original, arguments, keywords)

    return ran
