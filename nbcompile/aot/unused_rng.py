"""Unused random numbers: eager mode draws them nevertheless, and so advances the generator.

    def f(x):
        noise = torch.rand_like(x)        # a node that no result needs
        return x + 1, noise.shape

AOTAutograd eliminates them as dead code, and the next random numbers would differ from eager's. Such a graph falls
back to eager.

In torch: nothing; torch.compile eliminates unused RNG operators. Read next: nbcompile/aot/compile.py
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch
import torch.fx
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from nbcompile import torch_internals
from nbcompile.aot.graph_calls import written_arguments
from nbcompile.aot.self_overlapping_writes import storages

REASON = "the graph draws random numbers that are never used; AOTAutograd would eliminate the operator as dead code"


def has_unused_rng(module: torch.fx.GraphModule) -> bool:
    """Return whether a captured graph draws random numbers on which neither a result nor a mutated input depends."""
    live = _live_nodes(module.graph)
    return any(_is_random(node) for node in module.graph.nodes if node not in live and node.op.startswith("call_"))


def _live_nodes(graph: torch.fx.Graph) -> set[torch.fx.Node]:
    """Nodes that a result depends on, or that write to memory which is visible after the call.

    A fixed point: a write is live if it goes to the storage of a live node, and then its operands are live, too.
    """
    live: set[torch.fx.Node] = set()
    # Inputs are roots as well: a write to their memory is visible after the call.
    worklist = [node for node in graph.nodes if node.op in ("output", "placeholder", "get_attr")]
    writes = [(node, written) for node in graph.nodes if (written := written_arguments(node))]
    while worklist:
        while worklist:
            node = worklist.pop()
            if node not in live:
                live.add(node)
                worklist += node.all_input_nodes
        live_storages = {each for node in live for each in storages(node)}
        worklist = [
            write
            for write, written in writes
            if write not in live and any(not live_storages.isdisjoint(storages(target)) for target in written)
        ]
    return live


def _is_random(node: torch.fx.Node) -> bool:
    """Return whether a node draws random numbers, by running it once more on fake tensors."""
    values = torch.fx.map_arg((node.args, node.kwargs), lambda argument: argument.meta.get("example_value"))
    tensors = [each for each in tree_leaves((node.meta.get("example_value"), values)) if isinstance(each, torch.Tensor)]
    # A node without a tensor draws none, but may change a mode (torch._C._set_grad_enabled), and leave it changed.
    if not tensors or node.op == "call_module":
        return False
    fake_mode = torch_internals.guards_context().detect_fake_mode(tensors)
    if fake_mode is None:
        return False
    positional, keywords = values
    # Composite functions (F.dropout) have no tags: a dispatch mode sees the operators that they call.
    detector = _RandomOpDetector()
    # It ran during capture. A node that cannot run by itself counts as not random.
    with suppress(Exception), fake_mode, detector:
        if node.op == "call_method":
            getattr(positional[0], node.target)(*positional[1:], **keywords)  # type: ignore[arg-type]
        else:
            node.target(*positional, **keywords)  # type: ignore[operator]
    return detector.found_random


class _RandomOpDetector(TorchDispatchMode):
    """Dispatch mode that detects operators which draw random numbers."""

    found_random = False

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run the operator, and read its tags."""
        self.found_random |= torch.Tag.nondeterministic_seeded in func.tags
        return func(*args, **(kwargs or {}))
