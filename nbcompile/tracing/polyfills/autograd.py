"""Polyfills of torch.autograd.Function.

    MyFunction.apply(x)      context = Context(...)
                             forward(context, x), without gradients

In torch: torch/csrc/autograd/custom_function.cpp, torch/_functorch/autograd_function.py
(DynamoAutogradFunctionTraceHelper). Read next: nbcompile/tracing/calls/autograd.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class Context:
    """The ``ctx`` of ``forward`` and ``backward``."""

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self.to_save: tuple[Any, ...] = ()
        self.dirty_tensors: tuple[Any, ...] = ()
        self.non_differentiable: tuple[Any, ...] = ()
        self.materialize_grads = True

    def save_for_backward(self, *tensors: Any) -> None:
        """Save tensors for ``backward``."""
        self.to_save = tensors

    def save_for_forward(self, *tensors: Any) -> None:
        """Ignore tensors for ``jvp``, which is not traced."""

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """Tensors saved by ``save_for_backward``."""
        return self.to_save

    def mark_dirty(self, *tensors: Any) -> None:
        """Inputs that ``forward`` writes to."""
        self.dirty_tensors = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        """Results without a gradient."""
        self.non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """True if missing gradients come as zeros."""
        self.materialize_grads = value


def accumulate_gradients(leaves: list[torch.Tensor], gradients: tuple[torch.Tensor | None, ...]) -> None:
    """``leaf.grad += gradient``, in memory that is laid out as the leaf is; None where nothing depends on a leaf."""
    with torch.no_grad():
        for leaf, gradient in zip(leaves, gradients, strict=True):
            if gradient is None:
                continue
            new = torch.empty_like(leaf)
            new.copy_(gradient)
            if leaf.grad is None:
                leaf.grad = new
            else:
                leaf.grad.add_(new)


def forward_and_setup(
    forward: Callable[..., Any], setup_context: Callable[..., None] | None, context: Context, *arguments: Any
) -> Any:
    """``forward`` in either of its two forms."""
    if setup_context is None:
        return forward(context, *arguments)
    output = forward(*arguments)
    setup_context(context, arguments, output)
    return output


def traced_forward(
    forward: Callable[..., Any], setup_context: Callable[..., None] | None, context: Context, *arguments: Any
) -> Any:
    """Run without gradients; an input that is returned becomes a view of itself, as autograd makes it."""
    with torch.no_grad():
        results = forward_and_setup(forward, setup_context, context, *arguments)

    def as_output(result: Any) -> Any:
        if not isinstance(result, torch.Tensor) or any(result is each for each in context.dirty_tensors):
            return result
        if any(result is each for each in arguments if isinstance(each, torch.Tensor)):
            return result.view_as(result)
        return result

    if isinstance(results, torch.Tensor):
        return as_output(results)
    return tuple([as_output(each) for each in results])
