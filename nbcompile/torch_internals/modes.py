"""What torch keeps for a thread while a mode is on, so that Ctrl-C at any moment of compiling leaves it as it was.

    before = modes()             # at the beginning
    ...                          # FakeTensorMode.__enter__ has pushed itself; Ctrl-C comes before ``with`` has begun
    restore_modes(before)        # popped again: without this every later operation of the user would fail

A ``with`` block puts back what it changed, unless the interrupt comes between the change and the block.

In torch: torch/utils/_python_dispatch.py (the modes). Read next: nbcompile/dispatch/hook.py
"""

from __future__ import annotations

import gc
from typing import Any, NamedTuple

import torch
from torch.overrides import _get_current_function_mode_stack, _pop_mode, _push_mode
from torch.utils import _python_dispatch

_FLAGS = (
    "_is_in_torch_dispatch_mode",
    "_is_in_non_infra_torch_dispatch_mode",
    "_is_in_any_mode_without_ignore_compile_internals",
)
"""What torch's Python knows of its dispatch modes."""


class Modes(NamedTuple):
    """The state of one thread."""

    dispatch: list[Any]
    function: list[Any]
    flags: tuple[bool, ...]
    lifts_on_cpu_only: bool
    grad: bool
    collects: bool


def modes() -> Modes:
    """As they are now."""
    return Modes(
        _python_dispatch._get_current_dispatch_mode_stack(),
        _get_current_function_mode_stack(),
        tuple(getattr(_python_dispatch, name, False) for name in _FLAGS),
        torch._C._only_lift_cpu_tensors(),
        torch.is_grad_enabled(),
        gc.isenabled(),
    )


def restore_modes(before: Modes) -> None:
    """Make them what they were."""
    if not _same(_python_dispatch._get_current_dispatch_mode_stack(), before.dispatch):
        while torch._C._len_torch_dispatch_stack():
            torch._C._pop_torch_dispatch_stack(None)
        for mode in before.dispatch:
            torch._C._push_on_torch_dispatch_stack(mode)
    if not _same(_get_current_function_mode_stack(), before.function):
        while torch._C._len_torch_function_stack():
            _pop_mode()
        for mode in before.function:
            _push_mode(mode)
    for name, flag in zip(_FLAGS, before.flags, strict=True):
        if hasattr(_python_dispatch, name):
            setattr(_python_dispatch, name, flag)
    torch._C._set_only_lift_cpu_tensors(before.lifts_on_cpu_only)
    torch._C._set_grad_enabled(before.grad)
    if before.collects:
        gc.enable()


def _same(some: list[Any], others: list[Any]) -> bool:
    return [*map(id, some)] == [*map(id, others)]
