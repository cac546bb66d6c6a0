"""Generated callers of a library's functions and modules: their frames are compiled, and the library's are inlined.

    net = torch.nn.Sequential(...)         def Sequential(*args, **kwargs):
    in a cell                       ->         return net._call_impl(*args, **kwargs)
    nbcompile.compile(net)          ->         return fn(*args, **kwargs)

The frames of a library are not compiled by themselves: they are inlined into one that is. Its text is generated, so
that what is shown of it has names that the user knows: in a cell guards are on ``net[0].weight``. ``compile`` takes
torch's name, as graph inputs are named after it.

In torch: torch/_dynamo/external_utils.py (wrap_inline). Read next: nbcompile/dispatch/skipping.py
"""

from __future__ import annotations

import ast
import keyword
import linecache
from collections.abc import Callable, Hashable
from functools import lru_cache
from pathlib import Path
from types import CellType, CodeType, FunctionType
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from nbcompile.dispatch import skipping

DEFAULT = "fn"
"""torch's name of the called object: graph inputs are named after it."""
SHARED = 256
"""Number of structures whose code is kept: a structure refers to classes, and a notebook redefines these often."""
_FOLDER = Path(__file__).parent
"""Folder of the callers' file names: tracebacks omit their frames as nbcompile's."""


def caller_of(function: Callable[..., Any], variable: str = "", attribute: str = "") -> Callable[..., Any]:
    """Return a function that calls another one, and whose frame is compiled.

    Args:
        function: a function or a module.
        variable: the user's name of it, if it has one.
        attribute: the method of it that is called, if it is not called itself.
    """
    name = _identifier(getattr(function, "__name__", type(function).__name__), "inner")
    variable = _identifier(variable, DEFAULT)
    called = f"{variable}.{attribute}" if attribute else variable
    # In a notebook each version has its own code, so that its entries are freed with it.
    structure = _structure(function) if variable == DEFAULT else None
    code = _code(name, variable, called) if structure is None else _shared_code(name, called, structure)
    return FunctionType(code, globals(), name, closure=(CellType(function),))


def _structure(function: Callable[..., Any]) -> Hashable:
    """Key that is equal for modules which are likely to be compiled alike; None if that is not known."""
    if not isinstance(function, torch.nn.Module):
        return None
    tensors = [*function.named_parameters(), *function.named_buffers()]
    if any(is_lazy(tensor) for _, tensor in tensors):
        return None
    shapes = tuple((name, tuple(tensor.shape), tensor.dtype) for name, tensor in tensors)
    return (*map(type, function.modules()), *shapes)


@lru_cache(maxsize=SHARED)
def _shared_code(name: str, called: str, _structure: Hashable) -> CodeType:
    """Code for the callers of modules of one structure: they share entries, as modules of a user's class do.

    Modules of another structure have other code, so that they do not count for one recompile limit.
    """
    return _code(name, DEFAULT, called)


def _code(name: str, variable: str, called: str) -> CodeType:
    """New code of a caller, since cache entries are kept by code; its text is where ``inspect`` looks for it."""
    text = f"def {name}(*args, **kwargs):\n    return {called}(*args, **kwargs)\n"
    # The text is registered for ``linecache``: ``inspect`` and tracebacks show it as a file.
    # Only equal texts have the same file name: a later caller must not replace what is shown of this one.
    file = str(_FOLDER / f"<{name}: call of {called}>")
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    # Compiled inside of another function, so that the called function is a free variable of it, as in user code.
    (binding,) = ast.parse(f"def binding({variable}): pass").body
    assert isinstance(binding, ast.FunctionDef)
    binding.body = ast.parse(text).body
    module = compile(ast.Module([binding], []), file, "exec")
    (outer,) = (each for each in module.co_consts if isinstance(each, CodeType))
    (code,) = (each for each in outer.co_consts if isinstance(each, CodeType))
    code = code.replace(co_qualname=name)
    skipping.always_compile(code)
    return code


def _identifier(name: str, default: str) -> str:
    """The name, if it is a valid identifier other than ``args`` and ``kwargs``; otherwise the default."""
    usable = name.isidentifier() and not keyword.iskeyword(name) and name not in ("args", "kwargs")
    return name if usable else default
