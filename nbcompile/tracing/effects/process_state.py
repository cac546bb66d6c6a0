"""The state of the process that traced code changes: it changes for real while tracing, and is then put back.

    torch.use_deterministic_algorithms(True)     set now, for what is traced after it;
                                                 a node of the graph, so that each run sets it, too

In torch: torch/_dynamo/utils.py (preserve_global_state) and convert_frame.py. Read
next: nbcompile/tracing/calls/process_state.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch

from nbcompile import config, torch_internals

DEVICES = ("cpu", "cuda")


def _deterministic() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _set_deterministic(state: tuple[bool, bool]) -> None:
    torch._C._set_deterministic_algorithms(state[0], warn_only=state[1])


STATE: list[tuple[Callable[[], Any], Callable[[Any], object]]] = [
    (torch.is_grad_enabled, torch._C._set_grad_enabled),
    (torch.get_default_dtype, torch.set_default_dtype),
    (_deterministic, _set_deterministic),
    (torch_internals.attention_backends, torch_internals.set_attention_backends),
    *((partial(torch.is_autocast_enabled, each), partial(torch.set_autocast_enabled, each)) for each in DEVICES),
    *((partial(torch.get_autocast_dtype, each), partial(torch.set_autocast_dtype, each)) for each in DEVICES),
    (torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled),
    (torch_internals.transform_state, torch_internals.restore_transforms),
    (config.current, config.restore),
]
"""Getter and setter of each part of the process's state."""


@contextmanager
def kept() -> Iterator[None]:
    """Afterwards, everything is as it was."""
    before = [(read(), put_back) for read, put_back in STATE]
    try:
        yield
    finally:
        for state, put_back in before:
            put_back(state)
