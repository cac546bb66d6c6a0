"""The choice of each grouped matrix product on a GPU: the library, or a kernel of ours with one tile or another.

    mark(graph, device, autotuner)     grouped_mm.meta["nbcompile_kernel"] = GroupedLaunch(kernel 3, ...)

The candidates are those of a product with one matrix for each group, all of the same size: how long the groups are is
known when the kernel runs. Two tensors of three dimensions are a product with a batch (lowering/products.py).

In torch: torch/_inductor/kernel/mm_grouped.py. Read next: nbcompile/codegen/triton_grouped.py
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from nbcompile.codegen.printers import UnprintableIndex
from nbcompile.codegen.triton_epilogue import Epilogue, following, lines
from nbcompile.codegen.triton_grouped import COLUMNS, PARAMETERS, ROWS, SUM, GroupedProduct, emit
from nbcompile.codegen.triton_sizes import Size, size_text
from nbcompile.gpu import templates
from nbcompile.gpu.chip import Chip
from nbcompile.gpu.grouped_tuning import hint, measured, written
from nbcompile.gpu.predict import LAUNCH_SECONDS, REACHED
from nbcompile.gpu.product_factors import Factor
from nbcompile.gpu.product_times import Shape, fits, predict
from nbcompile.gpu.product_tuning import Benchmark
from nbcompile.gpu.templates import (
    TEMPLATE_REACHED,
    Autotuner,
    Candidate,
    Choice,
    is_wasteful,
    reason_of,
)
from nbcompile.ir.index import index
from nbcompile.ir.kernel import ProductTile
from nbcompile.lowering.grouped_products import OPERATOR, GroupedLaunch
from nbcompile.lowering.kernel_launches import INSIDE, KERNEL

NAME = "triton_grouped_mm"
GROUPED_CHIP = 90
"""Capability from which the library has a kernel for all groups; before, it waits for the offsets, and has one launch
for each group."""
WAIT_SECONDS = 20e-6
"""Time in which the CPU waits for the offsets. An assumption."""


def mark(module: fx.GraphModule, device: torch.device | None, autotuner: Autotuner) -> None:
    """Give each grouped product of a GPU its kernel, or the reason why it has none."""
    for node in module.graph.find_nodes(op="call_function", target=OPERATOR):
        epilogue = following(node)
        # A graph may be lowered several times, with other choices: marks of the last time must not stay.
        for marked in (node, *epilogue.nodes):
            marked.meta.pop(KERNEL, None)
            marked.meta.pop(INSIDE, None)
        is_candidate = "TRITON" in autotuner.backends and (device or node.meta["val"].device).type == "cuda"
        if is_candidate and node.args[0].meta["val"].dim() + node.args[1].meta["val"].dim() < 6:
            _mark(node, epilogue, _marked(node, epilogue, autotuner))


def _mark(node: fx.Node, epilogue: Epilogue, launch: GroupedLaunch | str) -> None:
    """Mark the last node that one kernel computes: that of the epilogue, or the product."""
    if isinstance(launch, str):
        node.meta[KERNEL] = launch
        return
    *inside, last = (node, *epilogue.nodes)
    for earlier in inside:
        earlier.meta[INSIDE] = True
    last.meta[KERNEL] = launch


def _marked(node: fx.Node, epilogue: Epilogue, autotuner: Autotuner) -> GroupedLaunch | str:
    product = _described(node, epilogue, (node, *epilogue.nodes)[-1].meta["val"])
    if isinstance(product, str):
        return f"grouped matrix product through ATen: {product}"
    shape = _shape(product)
    candidates = _candidates(product, shape, autotuner.chip, autotuner.backends, epilogue)

    def text(tile: ProductTile, name: str) -> str:
        after = tuple(lines(epilogue, node)) if epilogue.nodes else ()
        return emit(product, tile, name, epilogue.parameters, after)

    if isinstance(autotuner.timing, Benchmark) and candidates:
        candidates = measured(autotuner.timing, node, epilogue, product, candidates, text)
    left, right = (node.args[at].meta["val"] for at in (0, 1))  # type: ignore[union-attr]
    factors = tuple(
        Factor("x".join(map(str, value.shape)), str(list(value.stride())), str(value.dtype)) for value in (left, right)
    )
    last = (node, *epilogue.nodes)[-1]
    nodes = tuple(dict.fromkeys((last.name, node.name)))
    choice = Choice(node.name, (), nodes, shape, candidates, factors)
    autotuner.choices[choice.nodes] = choice
    tile = choice.chosen.tile if candidates else None
    if tile is None:
        return f"grouped {reason_of(choice)}"
    parameters = (*PARAMETERS, *epilogue.parameters)
    launch = written(product, tile, NAME, text(tile, NAME), parameters)
    return GroupedLaunch(launch, f"grouped matrix product: {tile.label}{_for_sizes(product)}", node, epilogue.operands)


def _for_sizes(product: GroupedProduct) -> str:
    """Text for the record of a kernel that has all sizes."""
    if not product.symbols:
        return ""
    groups, rows, columns, depth = product.hints
    return f", one kernel for all sizes, chosen for {groups} groups, {rows}x{columns}x{depth}"


def _described(node: fx.Node, epilogue: Epilogue, result: torch.Tensor) -> GroupedProduct | str:
    """The product, or the reason why there is no kernel."""
    left, right, offsets, bias, dtype = (*node.args, None, None, None)[:5]
    dtype = node.kwargs.get("out_dtype", dtype)
    given: Any = [value.meta["val"] for value in (left, right, node.kwargs.get("offs", offsets)) if value is not None]  # type: ignore[union-attr]
    if node.kwargs.get("bias", bias) is not None or "offs" in node.kwargs:
        return "a bias, or offsets by name"
    if dtype not in (None, given[0].dtype):
        return f"a result in {dtype}"
    operands = (operand.meta["val"] for operand in epilogue.operands)
    if obstacle := _obstacle(given, [result, *operands]):
        return obstacle
    try:
        return _product(given, result, epilogue)
    except UnprintableIndex as reason:
        return f"of a size that kernels do not compute: {reason}"


def _obstacle(given: Any, others: Sequence[torch.Tensor]) -> str:
    """The reason why the sizes of a product have no kernel; "" if they have."""
    sizes = [number for value in (*given, *others) for number in (*value.shape, *value.stride())]
    if not all(isinstance(number, int) or number.node.has_hint() for number in sizes):
        return "of a size that depends on the elements of a tensor"
    # Also where it is the call that the graph is compiled for: no tile can be chosen for that.
    if any(hint(number) == 0 for value in given for number in value.shape) or index(given[2].stride(0)) != 1:
        return "without elements, or with offsets that are not adjacent"
    return ""


def _product(given: Any, result: torch.Tensor, epilogue: Epilogue) -> GroupedProduct:
    one, other, (groups,) = given[0], given[1], given[2].shape
    # What the offsets divide:
    #      ROWS       (rows, depth) @ (groups, depth, columns)      a group is some rows of the left factor
    #      COLUMNS    (groups, rows, depth) @ (depth, columns)      some columns of the right one
    #      SUM        (rows, depth) @ (depth, columns)              a part of the sum: one result for each group
    divided = SUM if one.dim() == other.dim() else ROWS if one.dim() == 2 else COLUMNS
    dimensions = groups, one.shape[-2], other.shape[-1], one.shape[-1]
    operands = (operand.meta["val"] for operand in epilogue.operands)
    values = [*given, result, *operands]
    sizes = [number for value in values for number in (*value.shape, *value.stride())]
    used = [index(number) for number in sizes if isinstance(size_text(number), str)]
    symbols = sorted({symbol.name for number in used for symbol in number.free_symbols})
    groups_text, rows, columns, depth = map(size_text, dimensions)
    hints = hint(groups), hint(dimensions[1]), hint(dimensions[2]), hint(dimensions[3])
    left, right, out = (_strides(value) for value in (one, other, result))
    return GroupedProduct(divided, groups_text, rows, columns, depth, left, right, out, hints, tuple(symbols))


def _strides(value: torch.Tensor) -> tuple[Size, Size, Size]:
    of_group = value.stride(0) if value.dim() == 3 else 0
    return size_text(of_group), size_text(value.stride(-2)), size_text(value.stride(-1))


def _shape(product: GroupedProduct) -> Shape:
    """The product of one group, if all are of the same size."""
    # Rounded up: how the offsets divide the dimension is known when the kernel runs, equal groups are assumed.
    groups, *sizes = product.hints
    rows, columns, depth = (
        -(-size // groups) if product.divided == divided else size
        for divided, size in zip((ROWS, COLUMNS, SUM), sizes, strict=True)
    )
    return Shape(groups, rows, columns, depth, 2, "narrow")


def _candidates(
    product: GroupedProduct, shape: Shape, chip: Chip, backends: tuple[str, ...], epilogue: Epilogue
) -> tuple[Candidate, ...]:
    moved = (
        shape.factor_bytes
        * shape.batch
        * (shape.rows * shape.depth + shape.depth * shape.columns + shape.rows * shape.columns)
    )

    def seconds(tile: Any) -> float:
        return predict(tile, shape, chip, moved).seconds - LAUNCH_SECONDS

    # Looked up at each call: a copy created at import would keep the tiles that a test replaces them by.
    fitting = [tile for tile in templates.TILES if fits(tile, shape, chip) and not is_wasteful(tile, shape)]
    found = [Candidate(tile, LAUNCH_SECONDS + seconds(tile) / TEMPLATE_REACHED) for tile in fitting]
    if "ATEN" in backends:
        best = min(seconds(tile) for tile in templates.LIBRARY_TILES if fits(tile, shape, chip))
        # One kernel for all groups; or a launch for each, after the offsets are known.
        launches = 1 if chip.capability >= GROUPED_CHIP else shape.batch
        waits = 0.0 if launches == 1 else WAIT_SECONDS
        # What follows is a kernel of its own then, which reads the product and writes its result.
        size = shape.factor_bytes * shape.batch * shape.rows * shape.columns
        rest = LAUNCH_SECONDS + 2 * size / (REACHED * chip.bytes_per_second) if epilogue.nodes else 0.0
        found.append(Candidate(None, best + launches * LAUNCH_SECONDS + waits + rest, rest=rest))
    return tuple(sorted(found, key=lambda candidate: candidate.seconds))
