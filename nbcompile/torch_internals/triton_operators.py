"""Operators that ``torch.library.triton_op`` created: their bodies, and where AOTAutograd traces through these.

    with launching_triton_operators(True):        there is a target, or a GPU
        aot_module_simplified(...)                my::tripled is the launch of its Triton kernel
    with launching_triton_operators(False):
        aot_module_simplified(...)                my::tripled is a call of the CPU implementation

Torch's own rule always traces through them, also where nothing can be launched, and imports torch.export for it.

In torch: torch/_library/triton.py (functional_decomp). Read next: nbcompile/tracing/variables/triton_kernels.py
"""

from __future__ import annotations

import contextvars
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FunctionType
from typing import Any

import torch

from nbcompile.support.context_variables import bound

# Several threads compile at the same time, for a target or not: each has its own value.
_launches: contextvars.ContextVar[bool | None] = contextvars.ContextVar("nbcompile_launches", default=None)


def body_of_triton_operator(operator: object) -> FunctionType | None:
    """The function from which ``torch.library.triton_op`` created an operator; None for any other operator."""
    known: Any = sys.modules.get("torch._library.triton")
    if known is None or not isinstance(operator, torch._ops.OpOverload):
        return None
    name = operator._schema.name
    defined = torch._library.custom_ops.OPDEFS.get(name) if name in known.triton_ops_to_kernels else None
    # The registered implementation is a function around the body. The fake implementation may be another one.
    runs = getattr(defined, "_init_fn", None)
    if not isinstance(runs, FunctionType):
        return None
    held = dict(zip(runs.__code__.co_freevars, runs.__closure__ or (), strict=True))
    body = held["fn"].cell_contents if "fn" in held else None
    return body if isinstance(body, FunctionType) else None


def is_traced_through(operator: object) -> bool:
    """Return whether an operator is a Triton kernel's launch in the graph that is traced now."""
    return bool(_launches.get()) and body_of_triton_operator(operator) is not None


@contextmanager
def launching_triton_operators(launches: bool) -> Iterator[None]:
    """Let AOTAutograd trace through such operators in the block if ``launches`` is true, and call them if not."""
    known: Any = sys.modules.get("torch._library.triton")
    mode: Any = sys.modules.get("torch._subclasses.functional_tensor")
    for name in () if known is None or mode is None else tuple(known.triton_ops_to_kernels):
        defined: Any = torch._library.custom_ops.OPDEFS.get(name)
        rules = {} if defined is None else defined._torch_dispatch_fns
        rule = rules.get(mode.FunctionalTensorMode)
        if rule is not None and not isinstance(rule, _Rule):
            rules[mode.FunctionalTensorMode] = _Rule(rule)
    with bound(_launches, launches):
        yield


class _Rule:
    """Rule of FunctionalTensorMode for one operator."""

    def __init__(self, of_torch: Any) -> None:
        self.of_torch = of_torch

    def __call__(self, mode: Any, operator: Any, types: Sequence[type], args: Any, kwargs: Any) -> Any:
        launches, body = _launches.get(), body_of_triton_operator(operator)
        if launches is None or body is None:
            return self.of_torch(mode, operator, types, args, kwargs)
        if not launches:
            return mode.__torch_dispatch__(operator, types, args, kwargs)
        with mode:
            return body(*args, **(kwargs or {}))
