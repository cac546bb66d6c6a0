"""Linear layer and cross entropy on a GPU: the launch of a kernel that was generated for the node.

    linear_cross_entropy(x, w, b, target, -100)     triton_linear_cross_entropy0(x, ...), for each split
                                                    buf4 = largest + log(sum over splits of total * exp(..))

In torch: nothing. Read next: nbcompile/gpu/linear_cross_entropy.py
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from nbcompile.ir.layout import of_tensor
from nbcompile.ir.written_kernel import WrittenKernel
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.kernel_launches import Passed, add_launch
from nbcompile.lowering.launch_memory import memory_for
from nbcompile.lowering.value import Value

aten = torch.ops.aten
REASON = "linear layer and cross entropy: one kernel, which holds no logits in memory"


@dataclass(frozen=True, slots=True)
class CrossEntropyLaunch:
    """The kernel of a linear layer and its cross entropy."""

    launch: WrittenKernel
    arguments: Mapping[str, fx.Node]
    splits: int


def lower_linear_cross_entropy(
    build: Builder, node: fx.Node, marked: CrossEntropyLaunch, values: Mapping[fx.Node, Any]
) -> tuple[Value, Value, Value]:
    """Add the launch; return the logarithm of the sum, the target's logit and the sum of logits, of each row."""
    given: dict[str, Passed] = {
        name: (values[argument], of_tensor(argument.meta["val"])) for name, argument in marked.arguments.items()
    }
    names = marked.launch.parameters[-4:]
    fake = node.meta["val"][0].new_empty((marked.splits, node.meta["val"][0].shape[0]))
    found = {name: (memory_for(build, fake), of_tensor(fake)) for name in names}
    add_launch(build, marked.launch, given | found, names, REASON)
    largests, totals, picks, sums = (found[name][0] for name in names)
    # A split may have no class: its largest logit is minus infinity, and its sum is 0.
    largest = build.call(aten.amax.default, largests, [0], True)
    factors = build.call(aten.exp.default, build.call(aten.sub.Tensor, largests, largest))
    total = build.call(aten.sum.dim_IntList, build.call(aten.mul.Tensor, totals, factors), [0])
    logarithm = build.call(aten.log.default, total)
    of_rows = build.call(aten.add.Tensor, build.call(aten.squeeze.dim, largest, 0), logarithm)
    return (
        of_rows, build.call(aten.sum.dim_IntList, picks, [0]), build.call(aten.sum.dim_IntList, sums, [0]),
    )  # fmt: skip
