"""Registry of lowerings: from ATen operator to the function that lowers it.

    @lowering(aten.relu.default)
    def relu(build, x): ...        x: Value; the result: a Value, or a tuple of them

A lowering that cannot handle its arguments raises :class:`NoLowering` with the
reason; the operator then runs through ATen, and the reason is recorded.

In torch: torch/_inductor/lowering.py (register_lowering). Read next:
nbcompile/lowering/value.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Lowering = Callable[..., Any]
LOWERINGS: dict[Any, Lowering] = {}
ON_SEVERAL_DEVICES = "tensors on several devices"
"""Reason of an operator whose kernel would read memory of another device."""


class NoLowering(Exception):
    """Signal that a call of an operator runs through ATen, with the reason."""


class UnsupportedGraph(Exception):
    """The graph cannot be lowered at all (sparse tensors, sizes that depend on data): run it as it is."""


def lowering(*targets: Any) -> Callable[[Lowering], Lowering]:
    """Register a function for one or more operators (``aten.add.Tensor``)."""

    def register(function: Lowering) -> Lowering:
        for target in targets:
            # With two lowerings, the order of imports would decide which one is used.
            if target in LOWERINGS:
                raise ValueError(f"{target} is lowered twice: by {LOWERINGS[target].__name__} and {function.__name__}")
            LOWERINGS[target] = function
        return function

    return register
