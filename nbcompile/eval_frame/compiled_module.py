"""``CompiledModule``: the result of ``compile(module)``, which shares the module's parameters and attributes.

    model = nbcompile.compile(net)
    model.weight is net.weight                True
    list(model.state_dict())                  ["_orig_mod.weight", ...]
    isinstance(model, type(net))              False; ``torch._dynamo.OptimizedModule``: True, once that is loaded

In torch: torch/_dynamo/eval_frame.py (OptimizedModule). Read next: nbcompile/eval_frame/wrapper.py
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import torch

from nbcompile import config, errors
from nbcompile.eval_frame import compiled_autograd, wrapper
from nbcompile.eval_frame.default_backend import expect_backend
from nbcompile.options import Options
from nbcompile.support import wrappers


def compile_callable(model: Any, options: Options, disable: bool = False) -> Any:
    """Wrap a function or a module, so that its calls are compiled.

    Raises:
        errors.NotCallable: it is neither; and the errors of a backend that does not exist.
    """
    if not callable(model):
        raise errors.NotCallable(f"A callable function is expected, but {type(model)} is provided.")
    if disable or config.disable:
        return model
    expect_backend(options.backend, options.mode, options.backend_options)
    if isinstance(model, torch.nn.Module):
        if isinstance(model, CompiledModule) and not model._runs_compiled:  # a disabled module
            return compile_callable(model._modules["_orig_mod"], options)
        return CompiledModule(model, options)
    original = wrappers.innermost(model)
    first_function = wrapper.find_first_function(original, wrapper.code_of(original))
    return wrapper.wrap(original, first_function, options, _backward_region(options))


def _backward_region(options: Options) -> compiled_autograd.Region | None:
    return compiled_autograd.region(functools.partial(compile_callable, options=options), options.dynamic)


class CompiledModule(torch.nn.Module):
    """The result of ``compile(module)``: the module itself, called through the compiler.

    As torch's OptimizedModule: parameters are shared, ``state_dict`` keys get the
    prefix ``_orig_mod.``, other attributes are those of the module. Libraries that ask
    ``isinstance(model, torch._dynamo.OptimizedModule)`` are answered that it is one (``__class__``).
    """

    _runs_compiled = True

    def __init__(self, module: torch.nn.Module, options: Any) -> None:
        super().__init__()
        # Past ``__setattr__``, which would store it in the module itself.
        self._modules["_orig_mod"] = module
        self.__dict__.pop("training", None)  # the module's: it has one mode
        self._become(options)

    def _become(self, options: Any) -> None:
        module = self._modules["_orig_mod"]
        assert module is not None
        # Past ``__setattr__`` as well; and in the instance's dict, so that it is found before ``__getattr__``.
        object.__setattr__(self, "_nbcompile_chosen", options)
        called = wrapper.find_first_function(module, getattr(type(module).forward, "__code__", None))
        # A user's module is called directly: the hook sees its ``forward`` below torch's own ``__call__``.
        call = wrapper.wrap(module.__call__, called, options, _backward_region(options))
        call.__wrapped__ = module.forward  # type: ignore[attr-defined]  # whose signature `inspect` is to find
        object.__setattr__(self, "_nbcompile_call", call)

    @property
    def __class__(self) -> Any:
        """The class that ``isinstance`` accepts as well as the type: torch's own, once it is loaded."""
        return getattr(sys.modules.get("torch._dynamo.eval_frame"), "OptimizedModule", type(self))

    @__class__.setter
    def __class__(self, cls: type) -> None:
        """Become an object of another class: of a subclass of torch's (FSDP2 does that), a subclass of this one."""
        reported: Any = self.__class__
        if not issubclass(cls, CompiledModule):
            bases = tuple(type(self) if base is reported else base for base in cls.__bases__)
            own = {name: value for name, value in vars(cls).items() if name not in ("__dict__", "__weakref__")}
            cls = type(cls.__name__, bases, own)
        vars(object)["__class__"].__set__(self, cls)

    @property
    def dynamo_ctx(self) -> Callable[[Any], Any]:
        """A function that compiles another function or module with the options of this one."""
        return functools.partial(compile_callable, options=self.__dict__["_nbcompile_chosen"])

    def __reduce__(self) -> Any:
        """Create a copy of the real type: ``__class__`` may be torch's."""
        # ``copy`` and ``pickle`` read ``__class__``, and would create an object of torch's class.
        return object.__new__, (type(self),), self.__getstate__()

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a copy or pickle, which compiles its own module again."""
        # The compiled call is a closure over the caches of this process: a copy creates its own.
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
        """Call another function instead, as it is: libraries put conversions of results around it."""
        object.__setattr__(self, "_nbcompile_call", function)

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """Call the module as :meth:`forward` does: hooks of the module run inside, those of this wrapper around it."""
        own = self.__dict__
        # ``Module.__call__`` runs hooks; where this wrapper has none, it would only cost time.
        if own["_forward_hooks"] or own["_forward_pre_hooks"] or own["_backward_hooks"] or own["_backward_pre_hooks"]:
            return super().__call__(*arguments, **keywords)
        return own["_nbcompile_call"](*arguments, **keywords)

    def __getattr__(self, name: str) -> Any:
        """Read every other attribute from the module."""
        if name == "_orig_mod":
            return self._modules["_orig_mod"]
        return getattr(self._modules["_orig_mod"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute of the module, since the module is what runs; ``_orig_mod`` belongs to the wrapper."""
        # ``_modules`` is missing only while ``Module.__init__`` runs, which stores the wrapper's own attributes.
        if name in ("forward", "__class__"):
            object.__setattr__(self, name, value)
        elif name in self.__dict__ or (name != "_orig_mod" and "_modules" not in self.__dict__):
            super().__setattr__(name, value)
        elif name == "_orig_mod":
            self._modules[name] = value
        else:
            setattr(self._modules["_orig_mod"], name, value)

    def __delattr__(self, name: str) -> None:
        """Delete an attribute of the module."""
        delattr(self._modules["_orig_mod"], name)

    def __dir__(self) -> list[str]:
        """Names of the wrapper, and of the module that it wraps."""
        return sorted({*super().__dir__(), *dir(self._modules["_orig_mod"])})

    def __len__(self) -> int:
        """Return the length of the module, if it has one."""
        return len(self._modules["_orig_mod"])  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        """Return the truth of the module: one without a length is true."""
        return bool(self._modules["_orig_mod"])

    def train(self, mode: bool = True) -> CompiledModule:
        """Switch the module's mode."""
        super().train(mode)
        return self
