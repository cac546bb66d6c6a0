"""Thread state of torch's modes, which is restored if Ctrl-C interrupts a compile.

    before = modes()             # at the beginning
    ...                          # FakeTensorMode.__enter__ has pushed itself; Ctrl-C comes before ``with`` has begun
    restore_modes(before)        # popped again: without this every later operation of the user would fail

A ``with`` block restores its changes, unless the interrupt arrives between the change and the block.

In torch: torch/utils/_python_dispatch.py (the modes). Read next: nbcompile/dispatch/hook.py
"""

from __future__ import annotations

import gc
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
import torch.fx
from torch.overrides import _get_current_function_mode_stack, _pop_mode, _push_mode
from torch.utils import _python_dispatch

_FLAGS = (
    "_is_in_torch_dispatch_mode",
    "_is_in_non_infra_torch_dispatch_mode",
    "_is_in_any_mode_without_ignore_compile_internals",
)
"""The state of torch's dispatch modes in Python."""


class Modes(NamedTuple):
    """The state of one thread."""

    dispatch: list[Any]
    function: list[Any]
    flags: tuple[bool, ...]
    lifts_on_cpu_only: bool
    grad: bool
    collects: bool


def modes() -> Modes:
    """The current state."""
    return Modes(
        _python_dispatch._get_current_dispatch_mode_stack(),
        _get_current_function_mode_stack(),
        tuple(getattr(_python_dispatch, name, False) for name in _FLAGS),
        torch._C._only_lift_cpu_tensors(),
        torch._C.is_grad_enabled(),
        gc.isenabled(),
    )


def restore_modes(before: Modes) -> None:
    """Restore the modes of a thread."""
    # Compared by identity and restored as a whole: an interrupted ``with`` may have left any of them.
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
    # The tracer pauses the garbage collector; an interrupt may leave it paused.
    if before.collects:
        gc.enable()


@contextmanager
def kept_grad_mode() -> Iterator[None]:
    """Restore the grad mode after a block.

    AOTAutograd traces a graph by running it, and a graph may end with another mode than it began with.
    """
    # Not torch.is_grad_enabled: a user may have replaced it (mock.patch), and may return any object from it.
    enabled = torch._C.is_grad_enabled()
    try:
        yield
    finally:
        torch._C._set_grad_enabled(enabled)


@contextmanager
def kept_dispatch_keys() -> Iterator[None]:
    """Leave the modes that a graph has entered if the block that interprets it raises.

    An inference mode restores the dispatch keys of its beginning when its object is destroyed. The exception holds
    that object until the dispatch modes of the block are over: it would then set their keys again, and the dispatcher
    could create no tensor any more.
    """
    sets = torch._C._dispatch_tls_local_include_set, torch._C._dispatch_tls_local_exclude_set
    before = [read() for read in sets]
    try:
        yield
    except BaseException as error:
        # Each mode restores the state before its entry: the one that was entered last is left first.
        for mode in reversed(_entered_modes(error)):
            mode.__exit__(None, None, None)
        # Leaving an inference mode has set the keys of its beginning, among them those of the modes of the block.
        changes = torch._C._dispatch_tls_set_dispatch_key_included, torch._C._dispatch_tls_set_dispatch_key_excluded
        for read, change, keys in zip(sets, changes, before, strict=True):
            now = read()
            for key in torch._C.DispatchKey.__members__.values():
                if now.has(key) != keys.has(key):
                    change(key, keys.has(key))
        raise


def _entered_modes(error: BaseException) -> list[Any]:
    """The modes that interpreters in the traceback of an error have entered, in this order, and not left."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    interpreters = {
        id(self): self for frame in frames if isinstance(self := frame.f_locals.get("self"), torch.fx.Interpreter)
    }
    values = [value for interpreter in interpreters.values() for value in interpreter.env.values()]
    return [value for value in values if isinstance(value, (torch._C._InferenceMode, torch.autocast))]


_CHANGES = (
    torch._C._set_grad_enabled,
    torch.amp.autocast_mode._enter_autocast,
    torch.autograd.grad_mode._enter_inference_mode,
)


def forward_of(module: torch.fx.GraphModule) -> Callable[..., Any]:
    """A function that runs a captured graph; if it raises between two changes of a mode, it restores the modes."""
    return restoring_modes(module.forward, module)


def restoring_modes(function: Callable[..., Any], module: torch.fx.GraphModule) -> Callable[..., Any]:
    """A compiled graph that restores the modes that the graph changes, if it raises."""
    # Most graphs change no mode, and need no wrapper.
    if not any(node.target in _CHANGES for node in module.graph.nodes):
        return function

    def run(*arguments: Any) -> Any:
        grad, autocast = torch._C.is_grad_enabled(), _autocast()
        # A graph sets the mode and sets it back by nodes: if an operator in between raises, the second
        # node does not run.
        try:
            return function(*arguments)
        except BaseException:
            torch._C._set_grad_enabled(grad)
            _restore_autocast(autocast)
            raise

    return run


def autocast_dtype_of_cpu() -> torch.dtype:
    """The default dtype of autocast on a CPU."""
    return torch.get_autocast_dtype("cpu")


def autocast_dtype_of_cuda() -> torch.dtype:
    """The default dtype of autocast on a GPU."""
    return torch.get_autocast_dtype("cuda")


AUTOCAST_DTYPES = MappingProxyType({"cpu": autocast_dtype_of_cpu, "cuda": autocast_dtype_of_cuda})
"""Functions that return the dtype of autocast, by type of device; named, since guards call them again."""


class _Autocast(NamedTuple):
    """The state of autocast in one thread."""

    devices: dict[str, tuple[bool, torch.dtype]]
    caches: bool
    nesting: int


def _autocast() -> _Autocast:
    devices = {name: (torch.is_autocast_enabled(name), torch.get_autocast_dtype(name)) for name in _DEVICES}
    # torch has no function that only returns the nesting: it is raised by one, and lowered again, which returns it.
    torch.autocast_increment_nesting()
    return _Autocast(devices, torch.is_autocast_cache_enabled(), torch.autocast_decrement_nesting())


def _restore_autocast(before: _Autocast) -> None:
    for name, (enabled, dtype) in before.devices.items():
        torch.set_autocast_enabled(name, enabled)
        torch.set_autocast_dtype(name, dtype)
    torch.set_autocast_cache_enabled(before.caches)
    for _ in range(_autocast().nesting - before.nesting):
        # As autocast's __exit__: the outermost block empties the cache of converted weights.
        if torch.autocast_decrement_nesting() == 0:
            torch.clear_autocast_cache()


_DEVICES = ("cpu", "cuda")


def _same(some: list[Any], others: list[Any]) -> bool:
    return [*map(id, some)] == [*map(id, others)]
