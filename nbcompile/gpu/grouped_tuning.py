"""Measured times of the candidates of a grouped matrix product, on the GPU that is here.

    measured(benchmark, node, epilogue, product, candidates, text)      candidates with measured times, the best first

How long the groups are is known when the kernel runs: they are taken to be equally long, for the library's kernel, too.
The times are kept as those of other products (product_tuning.py).

In torch: torch/_inductor/kernel/mm_grouped.py. Read next: nbcompile/gpu/product_tuning.py
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from nbcompile.codegen.triton_epilogue import Epilogue
from nbcompile.codegen.triton_grouped import COLUMNS, PARAMETERS, ROWS, GroupedProduct
from nbcompile.codegen.triton_sizes import added, quotient
from nbcompile.codegen.written_kernels import POINTERS, emit_text
from nbcompile.gpu.product_tuning import Benchmark, best, filled
from nbcompile.gpu.size_hints import symbol_hints
from nbcompile.gpu.templates import Candidate
from nbcompile.ir.emitted import EmittedKernel
from nbcompile.ir.kernel import ProductTile
from nbcompile.ir.written_kernel import WrittenKernel


def measured(
    benchmark: Benchmark, node: fx.Node, epilogue: Epilogue, product: GroupedProduct, candidates: Sequence[Candidate],
    text: Callable[[ProductTile, str], str],
) -> tuple[Candidate, ...]:  # fmt: skip
    """Measure the best candidates; ``text`` is the module of one."""
    last = (node, *epilogue.nodes)[-1]
    given: Any = (*node.args[:3], last, *epilogue.operands)
    values = [argument.meta["val"] for argument in given]
    names = (*PARAMETERS, *epilogue.parameters)
    ours = {
        candidate: _kernel(text, candidate.tile, f"triton_grouped_{at}", names, values, product)
        for at, candidate in enumerate(best(candidates))
        if candidate.tile is not None
    }

    def memory() -> dict[str, torch.Tensor]:
        tensors = {
            name: filled(tuple(map(hint, v.shape)), tuple(map(hint, v.stride())), v.dtype, v.device)
            for name, v in zip(names, values, strict=True)
        }
        return {**tensors, "offsets": _offsets(product, values[2].device)}

    def library() -> Callable[[], object]:
        tensors = memory()
        assert callable(node.target)
        return functools.partial(node.target, *(tensors[name] for name in PARAMETERS[:3]))

    found = benchmark.times(candidates, ours, memory, library, symbol_hints(values))
    return tuple(sorted(found, key=operator.attrgetter("seconds")))


def hint(size: int | torch.SymInt) -> int:
    """A size of the call that the graph is compiled for."""
    return size if isinstance(size, int) else int(size.node.hint)


def _offsets(product: GroupedProduct, device: torch.device) -> torch.Tensor:
    """Groups of the same length, as nearly as may be."""
    groups, rows, columns, depth = product.hints
    size = {ROWS: rows, COLUMNS: columns}.get(product.divided, depth)
    ends = [size * (at + 1) // groups // 8 * 8 for at in range(groups - 1)]
    return torch.tensor([*ends, size], dtype=torch.int32, device=device)


def written(
    product: GroupedProduct, tile: ProductTile, name: str, source: str, parameters: Sequence[str]
) -> WrittenKernel:
    """The kernel of a grouped product."""
    # First a test of each group whether the program's tile is in it, then the loop of the product.
    rounds, programs = added(product.groups, quotient(product.depth, tile.depth)), product.programs(tile)
    return WrittenKernel(name, source, tuple(parameters), programs, tile.warps, tile.stages, rounds, product.symbols)


def _kernel(
    text: Callable[[ProductTile, str], str], tile: ProductTile, name: str, names: Sequence[str],
    values: Sequence[torch.Tensor], product: GroupedProduct,
) -> EmittedKernel:  # fmt: skip
    kernel = written(product, tile, name, text(tile, name), names)
    types = tuple(POINTERS[value.dtype] for value in values)
    return emit_text(kernel, name, types, values[0].device.index or 0)
