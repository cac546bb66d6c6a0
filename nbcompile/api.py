"""The functions that a user calls: compile, explain, reset, disable.

    @nbcompile.compile
    def f(x): ...

    nbcompile.explain(f)(x)      runs f and tells what happened

A wrapper turns the frame hook on for the time of the call; everything else
happens when the hook meets a frame that it has no code for.

In torch: torch/_dynamo/eval_frame.py (optimize, OptimizedModule). Read next:
nbcompile/driver.py
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import CodeType, MethodType
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from nbcompile import annotations as marks, config, errors, hooks, observe, stances
from nbcompile.dispatch import hook, library_calls, skipping, tracebacks
from nbcompile.fast import call_path, output_pool
from nbcompile.fast.disk_cache import writer
from nbcompile.fast.hook_table import HOOKS
from nbcompile.observe import torch_logs
from nbcompile.options import OWN_BACKENDS, OWN_NAME, Options
from nbcompile.record import recorder
from nbcompile.recording import hit_log
from nbcompile.support import lazy_import

if TYPE_CHECKING:
    from nbcompile import backends
    from nbcompile.recording import entries
    from nbcompile.views import explanation
    from nbcompile.views.explanation import Explanation
else:
    backends, entries = lazy_import.module("nbcompile.backends"), lazy_import.module("nbcompile.recording.entries")
    explanation = lazy_import.module("nbcompile.views.explanation")

hooks.install(HOOKS)
Function = TypeVar("Function", bound=Callable[..., Any])
OPTIONS = "_nbcompile_options"
MODULE_CALLS = (torch.nn.Module._call_impl, torch.nn.Module._wrapped_call_impl)
ORIGINAL = "_nbcompile_original"
"""The attribute under which a wrapper keeps what it wraps."""


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
        A function that behaves as the given one. For a module: a module that shares its parameters.

    Raises:
        errors.NotCallable: ``model`` is.
        TypeError: ``backend`` is neither a name nor callable.
        ValueError: ``dynamic`` or ``recompile_limit`` is something else than said.
        errors.InvalidBackend: no backend has this name; ``InvalidMode``, ``InvalidBackendOption`` likewise.
    """
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    if recompile_limit is not None and (type(recompile_limit) is not int or recompile_limit < 1):
        raise ValueError(f"recompile_limit is a number of versions, at least 1, and cannot be {recompile_limit!r}")
    if dynamic not in (None, True, False):
        raise ValueError(f"dynamic is True, False or None, and cannot be {dynamic!r}")
    backend = get_default_backend() if backend is None else "inductor" if backend == OWN_NAME else backend
    more: dict[str, Any] = dict(options or {})
    guard_filter = more.pop("guard_filter_fn", None)
    chosen = Options(fullgraph, dynamic, backend, mode, more, recompile_limit, name, isolate_recompiles, guard_filter)
    if model is None:
        return lambda function: _compile(function, chosen, disable)
    return _compile(model, chosen, disable)


def _compile(model: Any, options: Options, disable: bool) -> Any:
    if not callable(model):
        raise errors.NotCallable(f"A callable function is expected, but {type(model)} is provided.")
    if disable or config.disable:
        return model
    # A name that does not exist is an error now, not at the first call.
    _expect_known(options.backend)
    if options.backend == "inductor" and (options.mode or options.backend_options):
        backends.read_settings(options.mode, options.backend_options)
    if isinstance(model, torch.nn.Module):
        return CompiledModule(model, options)
    original = _original(model)
    return _wrap(original, _caught(original, _code_of(original)), options)


def _original(function: Any) -> Any:
    """The callable inside a wrapper of nbcompile's; a method that is bound to an object stays bound."""
    return function if isinstance(function, MethodType) else getattr(function, ORIGINAL, function)


def _code_of(function: Callable[..., Any]) -> CodeType | None:
    """The code that the user means: of a module's own call, which only runs hooks around it, that of ``forward``."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, torch.nn.Module) and getattr(function, "__func__", None) in MODULE_CALLS:
        function = owner.forward
    return getattr(function, "__code__", None)


def _expect_known(backend: str | Callable[..., Any]) -> None:
    if not isinstance(backend, str) and not callable(backend):
        raise TypeError(f"A backend is a name or a callable, and cannot be {backend!r}")
    if backend not in OWN_BACKENDS:
        backends.lookup(backend)


def _wrap(original: Callable[..., Any], entry: Callable[..., Any], options: Options) -> Callable[..., Any]:
    """A function that looks like ``original`` and calls ``entry`` with the hook on."""
    callback = stances.compiling(options)
    call, stance, default = callback.call, marks.stance, marks.DEFAULT
    watching = recorder.watching

    def slow_path(arguments: Any, keywords: Any) -> Any:
        if stance() is not default:
            return _under_stance(original, entry, options, arguments, keywords)
        if watching:
            return hit_log.logged(call, entry, arguments, keywords)
        if installer is not None:
            installer.note(arguments, keywords)
        return call(entry, arguments, keywords)

    path: Callable[[Any, Any], Any] = slow_path

    def install(faster: Callable[[Any, Any], Any]) -> None:
        nonlocal path
        path = faster

    installer = call_path.installer(entry, callback, slow_path, install)

    @functools.wraps(original)
    def compiled(*arguments: Any, **keywords: Any) -> Any:
        try:
            return path(arguments, keywords)
        except BaseException as error:
            tracebacks.hide_ours(error)
            raise

    setattr(compiled, ORIGINAL, original)
    setattr(compiled, OPTIONS, options)
    hook.skip_code(compiled.__code__)  # type: ignore[attr-defined]
    return compiled


def _under_stance(
    original: Callable[..., Any], entry: Callable[..., Any], options: Options, arguments: Any, keywords: Any
) -> Any:
    stance = marks.stance()
    if stance[0] == "force_eager":
        with hook.paused():
            return original(*arguments, **keywords)
    return stances.callback(options, stance, getattr(original, "__code__", None)).call(entry, arguments, keywords)


def run(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Call a compiled function with what is compiled already: nothing new is."""
    if not callable(fn):
        raise errors.NotCallable(f"A callable function is expected, but {type(fn)} is provided.")
    options = getattr(fn, OPTIONS, Options())
    original = getattr(fn, ORIGINAL, fn)
    return _wrap_call(original, stances.callback(options, ("eager_on_recompile", None), None))


def _wrap_call(original: Callable[..., Any], callback: hook.FrameCallback) -> Callable[..., Any]:
    @functools.wraps(original)
    def ran(*arguments: Any, **keywords: Any) -> Any:
        return callback.call(original, arguments, keywords)

    return ran


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


recorder.subscribers.extend(observe.SUBSCRIBERS)

_default_backend: list[str | Callable[..., Any]] = ["inductor"]


def set_default_backend(backend: str | Callable[..., Any] | None) -> None:
    """The backend of every later ``compile`` that names none; None: ``"inductor"`` again.

    Raises:
        errors.InvalidBackend: no backend has this name.
    """
    chosen = "inductor" if backend is None else backend
    _expect_known(chosen)
    _default_backend[0] = chosen


def get_default_backend() -> str | Callable[..., Any]:
    """The backend of a ``compile`` that names none."""
    return _default_backend[0]


def _caught(fn: Callable[..., Any], code: CodeType | None) -> Callable[..., Any]:
    """A function whose frame the hook looks at: a library's own (``torch.nn.Linear``) is called from one of ours."""
    with config.with_torchs():
        wrapped = config.wrap_top_frame
    if code is not None and skipping.code_skip_reason(code) is None and not wrapped:
        skipping.always_look(code)
        return fn
    return library_calls.caller_of(fn)


class CompiledModule(torch.nn.Module):
    """The result of ``compile(module)``: the module itself, called through the compiler.

    As torch's OptimizedModule: parameters are shared, ``state_dict`` keys get the
    prefix ``_orig_mod.``, other attributes are those of the module. Libraries that ask
    ``isinstance(model, torch._dynamo.OptimizedModule)`` are told that it is one (``__class__``).
    """

    def __init__(self, module: torch.nn.Module, options: Options) -> None:
        super().__init__()
        self._modules["_orig_mod"] = module
        self.__dict__.pop("training", None)  # the module's: it has one mode
        self._become(options)

    def _become(self, options: Options) -> None:
        module = self._modules["_orig_mod"]
        assert module is not None
        object.__setattr__(self, "_nbcompile_chosen", options)
        called = _caught(module, getattr(type(module).forward, "__code__", None))
        # A user's module is called as it is: the hook meets its forward below torch's own call.
        call = _wrap(module.__call__, called, options)
        call.__wrapped__ = module.forward  # type: ignore[attr-defined]  # whose signature `inspect` is to find
        object.__setattr__(self, "_nbcompile_call", call)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """The class that ``isinstance`` sees beside the type: torch's own, once it is loaded and may be asked for."""
        return getattr(sys.modules.get("torch._dynamo.eval_frame"), "OptimizedModule", type(self))

    @property
    def dynamo_ctx(self) -> Callable[[Any], Any]:
        """A function that compiles another function or module with the options of this one."""
        return functools.partial(_compile, options=self.__dict__["_nbcompile_chosen"], disable=False)

    def __reduce__(self) -> Any:
        """Make a copy of the type: ``__class__`` may be torch's."""
        return object.__new__, (type(self),), self.__getstate__()

    def __getstate__(self) -> dict[str, Any]:
        """A copy (or a pickle) compiles the copy of the module anew."""
        state = {**self.__dict__}
        del state["_nbcompile_call"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._become(state["_nbcompile_chosen"])

    @property
    def forward(self) -> Callable[..., Any]:
        """The module's own call, compiled; it has the signature of the module's ``forward``."""
        compiled: Callable[..., Any] = self.__dict__["_nbcompile_call"]
        return compiled

    @forward.setter
    def forward(self, function: Callable[..., Any]) -> None:
        """Call another function in its place, as it is: libraries put conversions of results around it."""
        object.__setattr__(self, "_nbcompile_call", function)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call the module as :meth:`forward` does: hooks of the module run inside, those of this wrapper around it."""
        own = self.__dict__
        if own["_forward_hooks"] or own["_forward_pre_hooks"] or own["_backward_hooks"] or own["_backward_pre_hooks"]:
            return super().__call__(*arguments, **keywords)
        return own["_nbcompile_call"](*arguments, **keywords)

    def __getattr__(self, name: str) -> Any:
        """Everything else is the module's."""
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        return getattr(self._modules["_orig_mod"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute of the module, which is what runs; ``_orig_mod`` is this wrapper's own."""
        if name == "forward":
            object.__setattr__(self, name, value)
        elif name in self.__dict__ or (name != "_orig_mod" and "_modules" not in self.__dict__):
            super().__setattr__(name, value)
        elif name == "_orig_mod":
            self._modules[name] = value
        else:
            setattr(self._modules["_orig_mod"], name, value)

    def __delattr__(self, name: str) -> None:
        """Delete an attribute, as setting does."""
        delattr(self._modules["_orig_mod"], name)

    def __dir__(self) -> list[str]:
        """The module's names, too."""
        return sorted({*super().__dir__(), *dir(self._modules["_orig_mod"])})

    def __len__(self) -> int:
        """The module's, if it has one."""
        return len(self._modules["_orig_mod"])  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        """The module's: one without a length is true."""
        return bool(self._modules["_orig_mod"])

    def train(self, mode: bool = True) -> CompiledModule:
        """Switch the module's mode."""
        super().train(mode)
        return self


def explain(function: Callable[..., Any], **arguments: Any) -> Callable[..., Explanation]:
    """Run a function compiled, and tell what happened.

    A function that is not compiled yet is compiled for this one call, whatever other ``compile`` calls of it
    have in their caches. What ``compile`` returned is called as it is: what is told is what this call adds.

    Args:
        function: a function, a module, or what ``compile`` returned.
        **arguments: of :func:`compile`, where the function is not compiled yet.

    Returns:
        A function with the same arguments that returns an :class:`Explanation`: ``.result`` is what the function
        returned. What it raises is explained, too, and raised by ``.result``.
    """
    compiled = (
        function
        if hasattr(function, ORIGINAL) or isinstance(function, CompiledModule)
        else compile(function, **{"isolate_recompiles": True, **arguments})
    )

    def explained(*positional: Any, **keywords: Any) -> Explanation:
        name = getattr(function, "__name__", type(function).__name__)
        pen = new_recorder(name)
        try:
            with listening(pen):
                returned = compiled(*positional, **keywords)
        except Exception as error:  # noqa: BLE001 - it is kept, for whoever wants the result
            return explanation.Explanation(pen.record(), exception=error)
        return explanation.Explanation(pen.record(), returned=returned)

    return explained


def new_recorder(function: str) -> recorder.Recorder:
    """A recorder that knows where it runs."""
    return recorder.Recorder(function, entries.environment(backends.compiler_name()))


@contextmanager
def listening(pen: recorder.Recorder) -> Iterator[recorder.Recorder]:
    """Record what is compiled inside of the block, and the exception that ends it."""
    with pen.listening():
        try:
            yield pen
        except SystemExit:  # a program's way to end
            raise
        except BaseException as error:
            pen.raised = entries.raised(error)
            raise


def reset() -> None:
    """Forget all compiled code and all that was learnt about functions; give back the memory kept for results.

    What is in the store stays there, and what is on its way there arrives first.
    """
    writer.flush(timeout=writer.TIMEOUT)
    hook.reset()
    torch_logs.reset()
    output_pool.clear()


def disable(function: Function | None = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Never compile a function (``recursive``: nor what it calls); calling it breaks the graph."""
    if function is None:
        return _Disable(recursive, reason)
    original = _original(function)
    if not callable(original):
        raise errors.NotCallable(f"A callable function is expected, but {type(original)} is provided.")
    if recursive:

        @functools.wraps(original)
        def disabled(*arguments: Any, **keywords: Any) -> Any:
            with hook.paused():
                return original(*arguments, **keywords)
    else:

        @functools.wraps(original)
        def disabled(*arguments: Any, **keywords: Any) -> Any:
            return skipping.nonrecursive_disable_wrapper(original, arguments, keywords)

    told = {"disable": True, "disable_recursive": recursive, "disable_reason": reason}
    for name, value in told.items():
        setattr(disabled, f"_nbcompile_{name}", value)
    return disabled


class _Disable:
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
