"""Module stack of nodes: the modules whose ``forward`` is being traced, written into the nodes created meanwhile.

    x = self.layers[0](x)        node.meta["nn_module_stack"] = {"140...": ("L['self'].layers.0", Layer), ...}
                                 node.meta["source_fn_stack"] = [("linear", torch.nn.Linear)]

Backends group a graph by modules with it, and so do the views. Keys distinguish calls: the second call of one module
has ``@1`` at its key.

In torch: record_nn_module_stack in torch/_dynamo/variables/nn_module.py.
Read next: nbcompile/tracing/graph/output_graph.py
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from nbcompile.capture.source import Source, expression

OF_TORCH = ("torch.nn.modules", "torch.ao.")
CONTAINERS = "torch.nn.modules.container"
_STORED = re.compile(r"\._(?:modules|parameters|buffers)\[(['\"])([^'\"\]]+)\1\]")


class ModuleCalls:
    """The modules that are being called, outermost first."""

    def __init__(self) -> None:
        self._stack: dict[str, tuple[str, type]] = {}
        self._counts: dict[str, int] = {}

    @contextmanager
    def inside(self, module: torch.nn.Module, source: Source) -> Iterator[None]:
        """Record the module while its ``forward`` is traced."""
        path = path_of(source)
        count = self._counts.get(path, 0)
        self._counts[path] = count + 1
        key = f"{id(module)}@{count}" if count else str(id(module))
        self._stack[key] = (path, type(module))
        try:
            yield
        finally:
            del self._stack[key]

    def annotate(self, node: torch.fx.Node, target: str | Callable[..., object]) -> None:
        """Write both entries; of one of torch's own layers the class represents its function."""
        source_fn: object = target
        if self._stack:
            node.meta["nn_module_stack"] = dict(self._stack)
            innermost = next(reversed(self._stack.values()))[1]
            if innermost.__module__.startswith(OF_TORCH) and not innermost.__module__.startswith(CONTAINERS):
                source_fn = innermost
        node.meta["source_fn_stack"] = [(node.name, source_fn)]


def path_of(source: Source) -> str:
    """``L['self'].layers.0`` of a module: as people write it, not where ``nn.Module`` keeps it."""
    return _STORED.sub(r".\2", expression(source))
