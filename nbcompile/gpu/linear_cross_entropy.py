"""Linear layers and their cross entropy on a GPU as a kernel: which nodes, and the kernel.

    mark(graph, device, multiprocessors)     linear_cross_entropy.meta["nbcompile_kernel"] = CrossEntropyLaunch(...)

In torch: nothing. Read next: nbcompile/codegen/triton_cross_entropy.py
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from nbcompile.codegen.printers import UnprintableIndex
from nbcompile.codegen.triton_cross_entropy import LinearCrossEntropy, emit
from nbcompile.codegen.triton_sizes import size_text
from nbcompile.gpu.grouped_tuning import hint
from nbcompile.ir.index import index
from nbcompile.ir.linear_cross_entropy import OPERATOR
from nbcompile.ir.written_kernel import WrittenKernel
from nbcompile.lowering.kernel_launches import KERNEL
from nbcompile.lowering.linear_cross_entropy import CrossEntropyLaunch

NAME = "triton_linear_cross_entropy"
ARGUMENTS = ("x", "weight", "bias", "target")
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
    sizes = [size for fake in fakes.values() for size in (*fake.shape, *fake.stride())]
    if not all(isinstance(size, int) or size.node.has_hint() for size in sizes):
        return "linear layer and cross entropy through ATen: of a size that depends on the elements of a tensor"
    # Also where only this call has none: no tile can be chosen for that.
    if any(hint(size) == 0 for fake in fakes.values() for size in fake.shape):
        return "linear layer and cross entropy through ATen: without elements"
    try:
        loss = _described(fakes, ignored, multiprocessors)
    except UnprintableIndex as reason:
        return f"linear layer and cross entropy through ATen: of a size that kernels do not compute: {reason}"
    tile, programs, rounds = loss.tile, loss.programs, loss.rounds
    launch = WrittenKernel(
        NAME, emit(loss, NAME), loss.parameters, programs, tile.warps, tile.stages, rounds, loss.symbols
    )
    return CrossEntropyLaunch(launch, given, loss.splits)


def _described(fakes: Mapping[str, torch.Tensor], ignored: int, multiprocessors: int) -> LinearCrossEntropy:
    (rows, depth), classes = fakes["x"].shape, fakes["weight"].shape[0]
    strides = {name: tuple(map(size_text, fakes[name].stride())) if name in fakes else () for name in ARGUMENTS}
    used = [index(size) for fake in fakes.values() for size in (*fake.shape, *fake.stride())]
    symbols = tuple(sorted({symbol.name for number in used for symbol in number.free_symbols}))
    loss = LinearCrossEntropy(
        size_text(rows), size_text(classes), size_text(depth), **strides, ignored=ignored, dtype=fakes["x"].dtype,
        splits=1, rows_hint=hint(rows), symbols=symbols,
    )  # fmt: skip
    # How many programs share the classes is chosen for the sizes of this call: results have a row for each.
    tiles, blocks = -(-hint(rows) // loss.tile.rows), -(-hint(classes) // loss.tile.columns)
    splits = max(1, min(blocks, PER_MULTIPROCESSOR * multiprocessors // tiles))
    return replace(loss, splits=-(-blocks // -(-blocks // splits)))
