"""A batch of gradients at once (``torch.autograd.grad(..., is_grads_batched=True)``) for compiled backward programs.

    gradients of the outputs    wrappers, each around as many tensors as the batch has members
    the program                 reads memory, which a wrapper does not have: it runs once for each member
    gradients of the inputs     stacked, and wrapped again

In torch: torch/_vmap_internals.py (whose wrappers those are). Read next: nbcompile/aot/runtime_wrapper.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

_is_batched = torch._C._functorch.is_legacy_batchedtensor


def has_batch(gradients: Sequence[torch.Tensor | None]) -> bool:
    """Return whether one of the gradients is a batch of them."""
    for gradient in gradients:  # noqa: SIM110  # a generator costs more than the question, at each backward
        if gradient is not None and _is_batched(gradient):
            return True
    return False


def run_members(
    run: Callable[[Sequence[Any]], Sequence[torch.Tensor | None]], gradients: Sequence[Any]
) -> tuple[torch.Tensor | None, ...]:
    """Run a backward function for each member of a batch.

    Args:
        run: Takes the gradients of the outputs, returns those of the inputs.
        gradients: Gradients of the outputs; at least one of them is a batch.
    """
    level = torch._C._vmapmode_increment_nesting() - 1
    torch._C._vmapmode_decrement_nesting()
    # The size, 1, is for tensors that are no batch: those are left out.
    batches = [
        torch._remove_batch_dim(gradient, level, 1, 0) if has_batch([gradient]) else None for gradient in gradients
    ]
    count = next(len(batch) for batch in batches if batch is not None)
    found = [
        run([known if batch is None else batch[at] for batch, known in zip(batches, gradients, strict=True)])
        for at in range(count)
    ]
    return tuple(
        None if parts[0] is None else torch._add_batch_dim(torch.stack(parts), 0, level)
        for parts in zip(*found, strict=True)
    )
