"""Random numbers that nothing reads: eager draws them all the same, and what is drawn next depends on it.

    def f(x):
        noise = torch.rand_like(x)        # a node that no result needs
        return x + 1, noise.shape

AOTAutograd leaves out what no result needs, and the generator would stay behind eager's. Such a graph runs operator
by operator, as it was captured.

In torch: nothing; torch.compile leaves such draws out. Read next: nbcompile/aot/compile.py
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch
import torch.fx
from torch.utils._python_dispatch import TorchDispatchMode

from nbcompile import torch_internals
from nbcompile.aot.self_overlapping_writes import mutated_argument, storages

REASON = "random numbers are drawn that nothing reads; AOTAutograd would not draw them"


def has_unused_rng(module: torch.fx.GraphModule) -> bool:
    """Whether a captured graph draws random numbers that neither its results nor its inputs depend on."""
    live = _live_nodes(module.graph)
    return any(_is_random(node) for node in module.graph.nodes if node not in live and node.op.startswith("call_"))


def _live_nodes(graph: torch.fx.Graph) -> set[torch.fx.Node]:
    """The nodes whose values a result needs, or that are written into something that is seen outside."""
    live: set[torch.fx.Node] = set()
    worklist = [node for node in graph.nodes if node.op in ("output", "placeholder", "get_attr")]
    writes = [node for node in graph.nodes if mutated_argument(node) is not None]
    while worklist:
        while worklist:
            node = worklist.pop()
            if node not in live:
                live.add(node)
                worklist += node.all_input_nodes
        live_storages = {each for node in live for each in storages(node)}
        worklist = [
            each
            for each in writes
            if each not in live and not live_storages.isdisjoint(storages(mutated_argument(each)))
        ]
    return live


def _is_random(node: torch.fx.Node) -> bool:
    """Whether a node draws, found out by running it once more on tensors without data."""
    values = torch.fx.map_arg((node.args, node.kwargs), lambda argument: argument.meta.get("example_value"))
    fake_mode = torch_internals.guards_context().detect_fake_mode([node.meta.get("example_value"), values])
    if fake_mode is None or node.op == "call_module":
        return False
    positional, keywords = values
    detector = _RandomOpDetector()
    # It ran when it was captured; what cannot run apart from the graph stays as it is.
    with suppress(Exception), fake_mode, detector:
        if node.op == "call_method":
            getattr(positional[0], node.target)(*positional[1:], **keywords)  # type: ignore[arg-type]
        else:
            node.target(*positional, **keywords)  # type: ignore[operator]
    return detector.found_random


class _RandomOpDetector(TorchDispatchMode):
    """Sees whether an operator draws random numbers."""

    found_random = False

    def __torch_dispatch__(
        self,
        func: torch._ops.OpOverload,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run it."""
        self.found_random |= torch.Tag.nondeterministic_seeded in func.tags
        return func(*args, **(kwargs or {}))
