"""Linear layers and their cross entropy on a GPU as a kernel: which nodes, and the kernel.

    mark(graph, device, multiprocessors)     linear_cross_entropy.meta["nbcompile_kernel"] = CrossEntropyLaunch(...)

In torch: nothing. Read next: nbcompile/codegen/triton_cross_entropy.py
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from nbcompile.codegen.triton_cross_entropy import LinearCrossEntropy, emit
from nbcompile.ir.linear_cross_entropy import OPERATOR
from nbcompile.ir.written_kernel import WrittenKernel
from nbcompile.lowering.kernel_launches import KERNEL
from nbcompile.lowering.linear_cross_entropy import CrossEntropyLaunch

NAME = "triton_linear_cross_entropy"
PER_MULTIPROCESSOR = 2
"""Programs for each multiprocessor, at least: classes are split for them. An assumption."""


def mark(module: fx.GraphModule, device: torch.device | None, multiprocessors: Callable[[], int]) -> None:
    """Give each node of a GPU its kernel, or the reason why it has none."""
    for node in module.graph.find_nodes(op="call_function", target=OPERATOR):
        if (device or node.args[0].meta["val"].device).type == "cuda":
            node.meta[KERNEL] = _marked(node, multiprocessors())


def _marked(node: fx.Node, multiprocessors: int) -> CrossEntropyLaunch | str:
    arguments: Any = node.args
    x, weight, bias, target, ignored = arguments
    given = {"x": x, "weight": weight, "bias": bias, "target": target}
    given = {name: value for name, value in given.items() if value is not None}
    fakes = {name: value.meta["val"] for name, value in given.items()}
    if not all(isinstance(size, int) for fake in fakes.values() for size in (*fake.shape, *fake.stride())):
        return "linear layer and cross entropy through ATen: of dynamic size"
    strides = {name: tuple(fake.stride()) for name, fake in fakes.items()} | ({} if "bias" in fakes else {"bias": ()})
    (rows, depth), classes = fakes["x"].shape, fakes["weight"].shape[0]
    loss = LinearCrossEntropy(rows, classes, depth, **strides, ignored=ignored, dtype=fakes["x"].dtype, splits=1)
    tiles, blocks = loss.programs, -(-classes // loss.tile.columns)
    splits = max(1, min(blocks, PER_MULTIPROCESSOR * multiprocessors // tiles))
    loss = replace(loss, splits=-(-blocks // -(-blocks // splits)))
    tile, share = loss.tile, -(-blocks // loss.splits)
    rounds = share * -(-depth // tile.depth)
    launch = WrittenKernel(NAME, emit(loss, NAME), loss.parameters, loss.programs, tile.warps, tile.stages, rounds)
    return CrossEntropyLaunch(launch, given, loss.splits)
