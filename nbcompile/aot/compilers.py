"""Compilers that AOTAutograd's stage calls with functional graphs of ATen operators.

    Compilers(forward=lower, backward=lower, inference=lower)

In torch: the fw_compiler, bw_compiler and inference_compiler of torch/_functorch/aot_autograd.py. Read next:
nbcompile/aot/compile.py
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx

from nbcompile.aot.view_replay import InputViews

BoxedFunction = Callable[[list[Any]], Sequence[Any]]
"""A function that takes its arguments in a list and empties it, so that they are freed as early as possible."""


GraphCompiler = Callable[[torch.fx.GraphModule, Sequence[Any]], BoxedFunction]


CompiledFunction = Callable[..., Sequence[Any]]


def _ignore(_module: torch.fx.GraphModule) -> None:
    """Default observer of the joint graph."""


ViewCompiler = Callable[[InputViews], BoxedFunction | None]
"""Function that compiles a program which returns the views; it returns None if AOTAutograd should create them."""


def _left_to_aot_autograd(_views: InputViews) -> BoxedFunction | None:
    """Default compiler of views."""
    return None


@contextlib.contextmanager
def _run_afterwards(task: Callable[[], object]) -> Iterator[None]:
    # Without a C++ compiler to wait for, the task simply runs after the block.
    yield
    task()


@dataclass(frozen=True, slots=True)
class Compilers:
    """Compilers of the ATen graphs, and the observer of the joint graph."""

    forward: GraphCompiler
    backward: GraphCompiler
    inference: GraphCompiler
    views: ViewCompiler = _left_to_aot_autograd
    on_joint_graph: Callable[[torch.fx.GraphModule], None] = _ignore
    concurrently: Callable[[Callable[[], object]], contextlib.AbstractContextManager[None]] = _run_afterwards
    """Context manager that runs a task by the end of its block, while the block waits for a C++ compiler if it does."""
