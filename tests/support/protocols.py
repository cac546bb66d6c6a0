"""Protocols and the classes that implement them.

    missing_members(State, Blocks)      []

In torch: nothing. Read next: tests/gpu/test_state.py
"""

from __future__ import annotations

import ast
import inspect
import textwrap


def members(cls: type) -> set[str]:
    """The names that a class and its bases define, annotate, or set on ``self``."""
    found: set[str] = set()
    for base in cls.__mro__[:-1]:
        found |= {*vars(base), *base.__dict__.get("__annotations__", {})}
        if base.__module__ not in ("builtins", "typing"):
            tree = ast.parse(textwrap.dedent(inspect.getsource(base)))
            found |= {
                node.attr
                for node in ast.walk(tree)
                if isinstance(node, ast.Attribute)
                and isinstance(node.ctx, ast.Store)
                and isinstance(node.value, ast.Name)
                and node.value.id == "self"
            }
    return found


def required_members(protocol: type) -> set[str]:
    """The public names of a protocol: its attributes and methods."""
    found: set[str] = set()
    for base in protocol.__mro__[:-1]:
        if base.__module__ not in ("typing", "typing_extensions"):
            found |= {*vars(base), *base.__dict__.get("__annotations__", {})}
    return {name for name in found if not name.startswith("_")}


def missing_members(protocol: type, cls: type) -> list[str]:
    """The names of a protocol that a class lacks."""
    assert required_members(protocol), f"{protocol.__name__} asks for nothing"
    return sorted(required_members(protocol) - members(cls))
