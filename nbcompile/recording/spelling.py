"""Text of targets and arguments in a record: as a person would write them.

    <built-in method sin of type object>     torch.sin
    (l_x_, slice(None, 2, None))             l_x_, :2

Two compiles of one program give the same text: no addresses, no counters of the process.

In torch: torch/fx/graph.py (``_format_target``, ``_get_qualified_name``). Read next: nbcompile/recording/entries.py
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import torch
import torch.fx

# Modules in which users look for a function, in that order.
HOMES: tuple[tuple[str, ModuleType], ...] = (
    ("torch", torch),
    ("torch.nn.functional", torch.nn.functional),
    ("torch.linalg", torch.linalg),
    ("torch.fft", torch.fft),
    ("torch.special", torch.special),
)


def tensor_of(node: torch.fx.Node) -> torch.Tensor | None:
    """The (fake) tensor that a node computes; None for numbers and tuples."""
    for key in ("val", "example_value"):
        value = node.meta.get(key)
        if isinstance(value, torch.Tensor):
            return value
    return None


def dtype_name(dtype: torch.dtype) -> str:
    """``float32``."""
    return str(dtype).removeprefix("torch.")


def target_name(target: object) -> str:
    """Target of a node, as in source code: ``torch.sin``, ``aten.add.Tensor``, ``operator.add``."""
    if isinstance(target, str):
        return target
    if isinstance(target, torch._ops.OperatorBase):
        return str(target)  # ``aten.add.Tensor``
    known = _public_names().get(id(target))
    if known is not None:
        return known
    name = getattr(target, "__name__", "")
    owner = getattr(target, "__module__", None) or ""
    if owner in {"_operator", "math", "builtins"}:
        return f"{owner.lstrip('_')}.{name}".removeprefix("builtins.")
    qualified = getattr(target, "__qualname__", "") or name or type(target).__name__
    return f"{owner}.{qualified}" if owner else str(qualified)


@functools.cache
def _public_names() -> dict[int, str]:
    """Functions of torch by their id (they live as long as torch does), under the name that people use."""
    names: dict[int, str] = {}
    for home, module in HOMES:
        for name, value in vars(module).items():
            if callable(value) and not name.startswith("_") and not isinstance(value, type):
                names.setdefault(id(value), f"{home}.{name}")  # the first home wins
    return names


def arguments(node: torch.fx.Node) -> str:
    """Positional and keyword arguments: ``(l_x_, 2, dim=1)``."""
    positional = [spelled(each) for each in node.args]
    keywords = [f"{name}={spelled(each)}" for name, each in node.kwargs.items()]
    return f"({', '.join(positional + keywords)})"


def spelled(value: Any) -> str:
    """One argument: a node by its name, a tensor by its shape, a callable by its target."""
    match value:
        case torch.fx.Node():
            return value.name
        case list():
            return f"[{_spell_all(value)}]"
        case tuple():
            return f"({_spell_all(value)}{',' if len(value) == 1 else ''})"
        case dict():
            return "{" + ", ".join(f"{spelled(key)}: {spelled(each)}" for key, each in value.items()) + "}"
        case slice():
            return f"slice({spelled(value.start)}, {spelled(value.stop)}, {spelled(value.step)})"
        case torch.nn.Parameter() | torch.Tensor():
            return f"<tensor {tuple(value.shape)}>"
        case type() | torch._ops.OperatorBase():
            return target_name(value)
        case _ if callable(value):
            return target_name(value)
        case _:
            # No addresses: a record of the same program must be the same text.
            return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def _spell_all(values: Iterable[Any]) -> str:
    return ", ".join(spelled(each) for each in values)
