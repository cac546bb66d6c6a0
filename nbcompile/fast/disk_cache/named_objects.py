"""The object that has a name in this process: a module, and a path of attributes from there.

    named("torch.nn", "Linear.forward")       the function, whatever it is now
    operator_named("aten.add.Tensor")         torch.ops.aten.add.Tensor

A name is a hint: whoever looks an object up compares its description (object_lookup.py).

In torch: nothing. Read next: nbcompile/fast/disk_cache/descriptions.py
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import torch

from nbcompile.capture.literals import Unreadable

NAMESPACES: dict[str, str] = {
    "aten": "torch", "prims": "torch._prims", "higher_order": "torch._higher_order_ops",
    "nbcompile": "nbcompile.ir.attention",
    **dict.fromkeys(("_c10d_functional", "_c10d_functional_autograd"), "torch.distributed._functional_collectives"),
}  # fmt: skip
"""Operators that a later process has under the same name, by namespace: the module that makes them."""


def named(module: str, path: str) -> Any:
    """The object that has a name now, whatever it is; the caller compares the description.

    Raises:
        Unreadable: nothing has it.
    """
    found = walk(sys.modules.get(module), path)
    if found is None:
        raise Unreadable(f"there is no {module}.{path}")
    return found


def walk(start: object, path: str) -> Any:
    """The value at a path of attributes; None if there is none."""
    for name in path.split("."):
        start = getattr(start, name, None)
    return start


def member_of(owner: object, name: str) -> Any:
    """The member of a class as its dict has it, unbound; the attribute of any other object."""
    held = vars(owner).get(name) if isinstance(owner, type) else None
    return getattr(owner, name, None) if held is None else held


def operator_named(name: str) -> Any:
    """The operator of torch that has a name, once the module is imported that registers it; None if there is none."""
    # Some operators are registered by a module that torch imports on demand: a later process may not have done so yet.
    module = NAMESPACES.get(name.partition(".")[0])
    if module is not None:
        importlib.import_module(module)
    return walk(torch.ops, name)
