"""The graph of autograd behind fake tensors, as far as tracing looks at it.

In torch: collect_reachable_grad_fns of torch/_dynamo/output_graph.py. Read next:
nbcompile/tracing/calls/differentiation.py
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

import torch


def reachable(tensors: Iterable[torch.Tensor], stop_at: Collection[Any] = ()) -> Iterator[Any]:
    """The nodes that a derivative of the tensors goes through, without those at which it stops."""
    pending = [each.grad_fn for each in tensors]
    seen = set(stop_at)
    while pending:
        node = pending.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        yield node
        pending += [following for following, _ in node.next_functions]
