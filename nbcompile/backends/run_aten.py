"""An ATen graph, run operator by operator: its reference semantics, and the fallback if no code can be generated.

In torch: boxed_nop in torch/_functorch/compilers.py. Read next: nbcompile/backends/aten_graph.py
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
import torch.fx

from nbcompile import torch_internals
from nbcompile.aot import passes
from nbcompile.aot.compilers import BoxedFunction


def run_through_aten(graph_module: torch.fx.GraphModule, _example_inputs: Sequence[Any], stage: str) -> BoxedFunction:
    """The graph operator by operator: what it means, and what runs where no code can be generated."""
    passes.make_complex_literals_exact(graph_module)
    torch_internals.free_text_with(graph_module)
    forward = graph_module.forward
    may_require_grad = stage != "inference"  # an inference graph's inputs may learn, where nothing that it returns does

    def run(arguments: list[Any]) -> Sequence[Any]:
        values = tuple(arguments)
        arguments.clear()
        if may_require_grad or not torch._C.is_grad_enabled():
            results: Sequence[Any] = forward(*values)
            return results
        try:  # Ctrl-C may come after any call
            torch._C._set_grad_enabled(False)
            return forward(*values)
        finally:
            torch._C._set_grad_enabled(True)

    run._boxed_call = True  # type: ignore[attr-defined]  # AOTAutograd asks for it
    torch_internals.hide_from_hook(run.__code__)  # the autograd engine calls backward graphs from anywhere
    return run


def attribute_of(graph_module: torch.fx.GraphModule, path: str) -> torch.Tensor:
    """A tensor that a graph holds itself (a constant of the user's program)."""
    value: torch.Tensor = operator.attrgetter(path)(graph_module)
    return value
