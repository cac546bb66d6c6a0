"""A group of guards, which is one guard on one module for the main guard tree, with a cached result.

    L['self'] ___unchanged(L['self'])       in the main tree: the guards of the group run only after a change

A hook divides guards into groups (nbcompile/hooks.py); by default there are none.

In torch: "tag safe" subtrees in torch/_dynamo/guards.py. Read next: nbcompile/guarding/check.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from nbcompile.capture.guard import Guard
from nbcompile.capture.source import Source
from nbcompile.guarding.accessors import SourceCache


class GuardGroup(Protocol):
    """Guards below one module, in a tree of their own that is evaluated only after something that they read changed."""

    source: Source
    """The module."""
    text: str
    """The name of the group in the main tree."""
    guards: list[Guard]
    types: list[Guard]
    """Guards on a type and members of its class: the group tests the type, the main tree the members."""
    root: Any
    """The guard tree of the group, evaluated on the module."""
    cached: Callable[[object], bool] | None
    """The guard tree behind a cache."""

    def cache(self) -> Callable[[object], bool]:
        """Put the tree behind a cache."""
        ...


GroupGuards = Callable[[Sequence[Guard], SourceCache], Sequence[GuardGroup]]
