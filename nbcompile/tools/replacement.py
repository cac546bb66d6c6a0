"""nbcompile instead of torch.compile, for a whole program and every library that it uses.

    nbcompile.install()                              from now on; nbcompile.uninstall() undoes it
    python -m nbcompile --replace train.py           the same for a program that is not changed
    TrainingArguments(torch_compile_backend="nbcompile")     of transformers, once installed

torch's functions remain the same objects and get other code, so that ours also runs where one of them was imported
before (``from torch import compile``) or wrapped by a library (Lightning stores the arguments).

A program may set an option that only Inductor has: it has no effect, and one warning names it. accelerate has its own
list of backends, to which ours is added (``EnumFinder``).

In torch: torch/__init__.py (compile), torch/compiler/__init__.py. Read next: nbcompile/api.py
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import inspect
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch
import torch.compiler

from nbcompile import api, backends, errors
from nbcompile.options import OWN_BACKENDS, OWN_NAME
from nbcompile.support.process_state import STATE, Lifetime

ACCELERATE, ITS_BACKENDS = "accelerate.utils.dataclasses", "DynamoBackend"
"""The enumeration of accelerate with the backends that it accepts."""
_originals: dict[str, tuple[FunctionType, FunctionType]] = STATE.add(
    "tools.replacement._originals", {}, Lifetime.PROCESS
)
"""The replaced functions of torch, each with a copy that has the original code; empty without a replacement."""


def install() -> None:
    """Replace torch.compile by nbcompile, until :func:`uninstall`; a second call changes nothing."""
    if _originals:
        return
    for owner, name, ours in REPLACED:
        function = inspect.unwrap(getattr(owner, name))
        original = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__)
        original.__kwdefaults__ = function.__kwdefaults__
        _originals[name] = function, original
        # The new code takes any arguments; ``inspect.signature`` still returns torch's.
        function.__signature__ = inspect.signature(function)
        function.__code__ = _code_calling(ours)
    loaded = sys.modules.get(ACCELERATE)
    if loaded is None:
        sys.meta_path.insert(0, EnumFinder())
    else:
        add_backend(loaded)


def uninstall() -> None:
    """Restore torch's functions; already compiled functions remain compiled by nbcompile."""
    for function, original in _originals.values():
        function.__code__ = original.__code__
        del function.__signature__  # type: ignore[attr-defined]
    _originals.clear()
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, EnumFinder)]


def is_installed() -> bool:
    """True between :func:`install` and :func:`uninstall`."""
    return bool(_originals)


def compile_for_torch(*arguments: Any, **keywords: Any) -> Any:
    """``nbcompile.compile`` for arguments that were chosen for torch.compile."""
    bound = inspect.signature(api.compile).bind(*arguments, **keywords).arguments
    backend = bound.get("backend") or api.get_default_backend()
    if backend in OWN_BACKENDS or backend == OWN_NAME:
        bound["options"] = _known_options(bound.get("options")) or None
    return api.compile(**bound)


def reset_both() -> None:
    """Reset torch.compile and nbcompile."""
    _originals["reset"][1]()
    api.reset()


def listed_backends(exclude_tags: Sequence[str] | None = ("debug", "experimental")) -> list[str]:
    """Names of our backends; those for debugging only if no tag is excluded."""
    return [name for name in backends.names() if not exclude_tags or name in ("inductor", OWN_NAME)]


def _known_options(options: Mapping[str, object] | None) -> dict[str, object]:
    known = {"guard_filter_fn", *(field.name for field in fields(backends.BackendOptions))}
    for name in (options or {}).keys() - known:
        _warn_of_option(name)
    return {name: value for name, value in (options or {}).items() if name in known}


@functools.cache
def _warn_of_option(name: str) -> None:
    text = f"the option {name!r} of torch.compile is not one of nbcompile's: it has no effect"
    warnings.warn(errors.OptionWarning(text), stacklevel=4)


REPLACED: tuple[tuple[ModuleType, str, Callable[..., Any]], ...] = (
    (torch, "compile", compile_for_torch),
    (torch.compiler, "reset", reset_both),
    (torch.compiler, "list_backends", listed_backends),
)


def _code_calling(ours: Callable[..., Any]) -> CodeType:
    """Code for a function of torch, which runs with torch's globals: it calls a function of this module."""
    # The code runs with torch's globals, where our names are undefined. It has no free variables either: a function
    # without a closure accepts no code that needs one.
    words = "*arguments, **keywords"
    text = f"lambda {words}: __import__('sys').modules[{__name__!r}].{ours.__name__}({words})"
    code: CodeType = eval(compile(text, __file__, "eval")).__code__
    return code


def add_backend(module: ModuleType) -> None:
    """Make accelerate's enumeration accept our name, as it accepts those of its list."""
    kind: Any = getattr(module, ITS_BACKENDS, None)
    if kind is None or OWN_NAME.upper() in kind._value2member_map_:
        return
    # An enumeration with members has no subclasses. ``DynamoBackend(value)`` looks the value up in this
    # map: enter it there.
    member = str.__new__(kind, OWN_NAME.upper())
    member._name_ = member._value_ = OWN_NAME.upper()
    kind._value2member_map_[member._value_] = member


class EnumFinder(importlib.abc.MetaPathFinder):
    """Finder that adds our name when accelerate's enumeration is imported, and then removes itself."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The specification of the other finders, with a loader that adds the name."""
        if name != ACCELERATE:
            return None
        sys.meta_path.remove(self)
        found = importlib.machinery.PathFinder.find_spec(name, path)
        if found is not None and found.loader is not None:
            run = found.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                add_backend(module)

            found.loader.exec_module = exec_module  # type: ignore[method-assign]
        return found
