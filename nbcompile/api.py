"""What a user calls: compile, explain, reset, disable.

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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import CodeType
from typing import Any, TypeVar

import torch

from nbcompile import backends, config, driver, narrate
from nbcompile.dispatch import hook, skipping
from nbcompile.options import Options
from nbcompile.record import recorder
from nbcompile.record.model import Record
from nbcompile.views import mimebundle
from nbcompile.views.text import render as render_text

Function = TypeVar("Function", bound=Callable[..., Any])
ORIGINAL = "_nbcompile_original"
"""The attribute under which a wrapper keeps what it wraps."""


def compile(  # noqa: A001
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] = "inductor",
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
        backend: a name (``nbcompile.backends.names()``) or ``(GraphModule, example_inputs) -> callable``.
        mode: a preset of the backend.
        options: options of the backend; not together with ``mode``.
        disable: return the function as it is.
        name: how the record calls it.
        recompile_limit: instead of ``config.recompile_limit``.
        isolate_recompiles: share no compiled code, and no limit, with other ``compile`` calls of the function.

    Returns:
        A function that behaves as the given one. For a module: a module that shares its parameters.

    Raises:
        TypeError: ``model`` is not callable.
        errors.InvalidBackend: no backend has this name.
    """
    if mode is not None and options is not None:
        raise RuntimeError("Either mode or options can be specified, but both can't be specified at the same time.")
    more: dict[str, Any] = dict(options or {})
    guard_filter = more.pop("guard_filter_fn", None)
    chosen = Options(fullgraph, dynamic, backend, mode, more, recompile_limit, name, isolate_recompiles, guard_filter)
    if model is None:
        return lambda function: _compile(function, chosen, disable)
    return _compile(model, chosen, disable)


def _compile(model: Any, options: Options, disable: bool) -> Any:
    if not callable(model):
        raise TypeError(f"A callable function is expected, but {type(model)} is provided.")
    if disable or config.disable:
        return model
    backends.lookup(options.backend)  # a name that does not exist is an error now, not at the first call
    if isinstance(model, torch.nn.Module):
        return CompiledModule(model, options)
    original = getattr(model, ORIGINAL, model)
    return _wrap(original, _caught(original, getattr(original, "__code__", None)), options)


def _wrap(original: Callable[..., Any], entry: Callable[..., Any], options: Options) -> Callable[..., Any]:
    """A function that looks like ``original`` and calls ``entry`` with the hook on."""
    key = hook.backend_key(options.backend)
    callback = hook.FrameCallback(
        lambda frame: driver.compile_frame(frame, options, key), key, isolated=options.isolate_recompiles
    )
    call = callback.call

    @functools.wraps(original)
    def compiled(*arguments: Any, **keywords: Any) -> Any:
        return call(entry, arguments, keywords)

    setattr(compiled, ORIGINAL, original)
    hook.skip_code(compiled.__code__)  # type: ignore[attr-defined]
    return compiled


def _caught(fn: Callable[..., Any], code: CodeType | None) -> Callable[..., Any]:
    """A function whose frame the hook looks at: a library's own (``torch.nn.Linear``) is called from one of ours."""
    if code is not None and skipping.code_skip_reason(code) is None:
        skipping.always_look(code)
        return fn

    # The names are torch's: graph inputs are called after them.
    def inner(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    skipping.always_compile(inner.__code__)
    return inner


class CompiledModule(torch.nn.Module):
    """What ``compile(module)`` returns: the module itself, called through the compiler.

    As torch's OptimizedModule: parameters are shared, ``state_dict`` keys get the
    prefix ``_orig_mod.``, other attributes are those of the module.
    """

    def __init__(self, module: torch.nn.Module, options: Options) -> None:
        super().__init__()
        self._orig_mod = module
        called = _caught(module, getattr(type(module).forward, "__code__", None))
        # A user's module is called as it is: the hook meets its forward below torch's own call.
        object.__setattr__(self, "_nbcompile_call", _wrap(module.__call__, called, options))
        self.training = module.training

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        """The module's own call, compiled."""
        return object.__getattribute__(self, "_nbcompile_call")(*arguments, **keywords)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """As :meth:`forward`: hooks of the module run inside."""
        return object.__getattribute__(self, "_nbcompile_call")(*arguments, **keywords)

    def __getattr__(self, name: str) -> Any:
        """Everything else is the module's."""
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        return getattr(self._modules["_orig_mod"], name)

    def train(self, mode: bool = True) -> CompiledModule:
        """Switch the module's mode."""
        super().train(mode)
        return self


@dataclass(frozen=True)
class Explanation:
    """What ``explain(f)(*args)`` returns: the record, and the value that f returned."""

    record: Record
    result: Any = None
    exception: BaseException | None = None

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return mimebundle(self.record)

    def __str__(self) -> str:
        return render_text(self.record)

    @property
    def graph_count(self) -> int:
        """How many graphs were compiled."""
        return sum(frame.graph is not None for frame in self.record.frames)

    @property
    def graph_break_count(self) -> int:
        """How many times a graph ended before its frame."""
        return sum(len(frame.breaks) for frame in self.record.frames)


def explain(function: Callable[..., Any], **arguments: Any) -> Callable[..., Explanation]:
    """Run a function compiled, and tell what happened.

    Args:
        function: a function, a module, or what ``compile`` returned.
        **arguments: of :func:`compile`, where the function is not compiled yet.

    Returns:
        A function with the same arguments that returns an :class:`Explanation`. What the function
        raises is raised, after what was recorded so far was kept in ``error.__notes__``.
    """
    compiled = (
        function
        if hasattr(function, ORIGINAL) or isinstance(function, CompiledModule)
        else compile(function, **arguments)
    )

    def explained(*positional: Any, **keywords: Any) -> Explanation:
        name = getattr(function, "__name__", type(function).__name__)
        pen = new_recorder(name)
        with pen.listening():
            result = compiled(*positional, **keywords)
        return Explanation(pen.record(), result)

    return explained


def new_recorder(function: str) -> recorder.Recorder:
    """A recorder that knows where it runs."""
    return recorder.Recorder(function, narrate.environment(backends.compiler_name()))


def reset() -> None:
    """Forget all compiled code and all that was learnt about functions."""
    hook.reset()


def disable(function: Function | None = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Never compile a function (``recursive``: nor what it calls); calling it breaks the graph."""
    if function is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    return torch.compiler.disable(function, recursive=recursive, reason=reason)
