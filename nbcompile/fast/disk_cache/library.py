"""The functions of torch as this process has them: the entries of a process that replaced one are no others'.

    state()                        "9f0c...", equal in every process with the same torch
    torch.relu = torch.cos         another text
    torch.relu = my_function       NotStorable: torch.relu is replaced

What a program itself reads is guarded. But ``F.relu`` calls ``torch.relu``, and the trace of ``F.relu``, one node of a
graph, has no guard on what its Python reads: with another ``torch.relu`` no entry is loaded, and none is stored.

In torch: nothing. Read next: nbcompile/fast/disk_cache/keys.py
"""

from __future__ import annotations

import functools
import operator
import sys
import types
import zlib
from collections.abc import Iterator
from typing import Any

import torch

from nbcompile.capture.literals import NotStorable
from nbcompile.fast.disk_cache.descriptions import codes_of, content_of, is_trusted, module_of, without_torchs_compiler
from nbcompile.support.process_state import STATE, Lifetime

NAMESPACES = (
    "torch", "torch._C._fft", "torch._C._linalg", "torch._C._nested", "torch._C._nn", "torch._C._sparse",
    "torch._C._special", "torch._VF", "torch._jit_internal", "torch._lowrank", "torch.amp.autocast_mode",
    "torch.autograd", "torch.autograd.function", "torch.autograd.functional", "torch.autograd.graph",
    "torch.distributions.kl", "torch.distributions.utils", "torch.fft", "torch.functional", "torch.linalg",
    "torch.nn._reduction", "torch.nn.functional", "torch.nn.init", "torch.nn.modules.module",
    "torch.nn.modules.utils", "torch.nn.utils.clip_grad", "torch.nn.utils.parametrizations",
    "torch.nn.utils.parametrize", "torch.nn.utils.rnn", "torch.optim.optimizer", "torch.overrides",
    "torch.random", "torch.sparse", "torch.special", "torch.utils.checkpoint", "math", "operator", "functools",
    "itertools", "copy", "random",
)  # fmt: skip
"""Modules whose functions torch's own Python calls; each is there as soon as torch is."""
HARMLESS = frozenset({"torch.compile", "torch.manual_seed"})
"""Functions that compilers replace: nbcompile.tools.replacement, and torch's own at its start."""
_OF_TORCH = frozenset(
    {"torch", "nbcompile", "typing", "typing_extensions", "types", "functools", "builtins", "collections"}
)
"""Packages whose classes make the callable objects in torch's modules."""
_DEPTH = 4

_seen: list[tuple[list[tuple[dict[str, Any], list[Any]]], str]] = STATE.add(
    "fast.disk_cache.library._seen", [], Lifetime.OWNER
)
"""The modules' members when they were last looked at, and their digest."""


def state() -> str:
    """A digest of the names and the code of torch's functions; some 0.2 ms if nothing has changed.

    Raises:
        NotStorable: a foreign function is in a torch module, under a name that torch has.
    """
    spaces = [vars(sys.modules[name]) for name in NAMESPACES if name in sys.modules]
    # A namespace changes by a new key or another object at a key: identities are compared before code is hashed.
    if _seen:
        held, text = _seen[0]
        if len(held) == len(spaces) and all(
            len(now) == len(then) and all(map(operator.is_, now.values(), then))
            for now, (_, then) in zip(spaces, held, strict=True)
        ):
            return text
    text = _digest()
    _seen[:] = [([(space, list(space.values())) for space in spaces], text)]
    return text


def _digest() -> str:
    checksum = 0
    for module in NAMESPACES:
        if module in sys.modules:
            # Sorted, as the order of a module's names is that of imports.
            text = "\n".join(sorted(_members(module)))
            checksum = zlib.crc32(f"{module}\n{text}\n".encode(), checksum)
    return f"{checksum:08x}"


def _members(module: str) -> Iterator[str]:
    """One line for each function and class of a module; some 3,000 in a process, which a start waits for."""
    for name, value in vars(sys.modules[module]).items():
        if type(value) is types.BuiltinFunctionType:  # every second one
            yield f"{name}|builtin|{value.__name__}"
            continue
        # torch.compile adds resume functions to the module of a function with a graph break, as __resume_at_8_0.
        if name.startswith("__resume_at_"):
            continue
        if isinstance(value, types.ModuleType) or not callable(value) or f"{module}.{name}" in HARMLESS:
            continue
        content = _content(value, _DEPTH)
        # A foreign function under a name that torch's own code uses changes torch's behaviour: nothing is stored
        # or loaded. Under another name only the program calls it.
        if content is not None:
            yield f"{name}|{'|'.join(content)}"
        elif name in _names_that_torch_uses():
            raise NotStorable(f"{module}.{name} is replaced")


def _content(value: Any, depth: int) -> tuple[str, ...] | None:
    """A function, class or callable object as a short description; None: it is not the library's."""
    if isinstance(value, types.FunctionType):
        return _function(value, depth)
    if isinstance(value, types.MethodType):
        return _content(value.__func__, depth)
    if isinstance(value, types.BuiltinFunctionType):
        return ("builtin", value.__name__)
    cls = value if isinstance(value, type) else type(value)
    if isinstance(value, functools.partial) or not (
        _may_define(cls.__module__) if cls is value else cls.__module__.partition(".")[0] in _OF_TORCH
    ):
        return None
    return ("class", cls.__module__, cls.__qualname__)


def _function(value: types.FunctionType, depth: int) -> tuple[str, ...] | None:
    value = without_torchs_compiler(value)
    module = module_of(value)
    if not _may_define(module):
        return None
    code, held = value.__code__, ""
    # What a decorator wraps is in its closure.
    for cell in value.__closure__ or ():
        content = content_of(cell)
        if isinstance(content, types.FunctionType):  # of a decorator, or of a factory
            below = _content(content, depth - 1) if depth else ("deep",)
            if below is None:
                return None
            held += repr(below)
    return (module, code.co_qualname, f"{code.co_firstlineno} {zlib.crc32(code.co_code)}", held)


@functools.cache
def _may_define(module: str) -> bool:
    """True if functions and classes of a module may be in torch's modules."""
    return is_trusted(module) or module == "typing_extensions"


@functools.cache
def _names_that_torch_uses() -> frozenset[str]:
    """Names in the code of torch's functions: only the program uses another function under any other name."""
    functions = [
        value
        for name in NAMESPACES
        for value in vars(sys.modules.get(name, torch)).values()
        if isinstance(value, types.FunctionType) and is_trusted(module_of(value))
    ]
    codes = [code for function in functions for code in codes_of(function.__code__)]
    return frozenset(dir(torch._C._VariableFunctions)).union(*(code.co_names for code in codes))
