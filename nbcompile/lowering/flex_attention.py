"""Attention with user functions of scores and masks, on a GPU: launches of the kernels that were generated for the
node.

    flex_attention(q, k, v, score, (.., mask), 0.125)    triton_flex_attention0(q, k, v, out, sums, ...)
    flex_attention_backward(q, k, v, out, ...)           a kernel for delta, one for the query, one for keys and values

If a node has no kernels, its mark is the reason.

In torch: torch/_inductor/kernel/flex/flex_attention.py. Read next: nbcompile/gpu/flex_attention.py
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from nbcompile.ir.expr import apply, cast, compute_dtype, constant
from nbcompile.ir.index import indices
from nbcompile.ir.layout import contiguous, of_tensor
from nbcompile.ir.written_kernel import WrittenKernel
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.kernel_launches import Passed, add_launch
from nbcompile.lowering.launch_memory import memory_for
from nbcompile.lowering.value import Value, merge_nodes

aten = torch.ops.aten
OPERATOR = torch.ops.higher_order.flex_attention
BACKWARD = torch.ops.higher_order.flex_attention_backward
REASON = "flex attention: one kernel, which holds no scores in memory"
REASON_OF_SPLITS = "flex attention of few rows: several programs share the keys, and a second kernel combines them"
REASON_OF_GRADIENTS = "flex attention's gradients: kernels that compute the scores again"
_PER_LN_2 = 1.4426950408889634


@dataclass(frozen=True, slots=True)
class FlexForward:
    """The launches of an attention."""

    launch: WrittenKernel
    combination: WrittenKernel | None
    """The second kernel, where several programs share the keys of a row."""
    arguments: Mapping[str, fx.Node]
    """Operands by the names that the kernels have for them."""
    splits: int
    """Programs that share the keys of a row; 0: none do."""


@dataclass(frozen=True, slots=True)
class FlexGradients:
    """The launches of an attention's backward."""

    of_query: WrittenKernel
    of_keys: WrittenKernel
    arguments: Mapping[str, fx.Node]
    captured: Mapping[str, int]
    """Names of gradients of tensors that the function reads, and their numbers among these."""


def lower_flex_attention(
    build: Builder, node: fx.Node, marked: FlexForward | FlexGradients, values: Mapping[fx.Node, Any]
) -> tuple[Any, ...]:
    """Add the launches; return the results."""
    given = {name: (values[value], of_tensor(value.meta["val"])) for name, value in marked.arguments.items()}
    return (
        _forward(build, node, marked, given)
        if isinstance(marked, FlexForward)
        else _backward(build, marked, node, given)
    )


def _forward(build: Builder, node: fx.Node, marked: FlexForward, given: dict[str, Passed]) -> tuple[Any, ...]:
    """The result and the logarithms of the sums."""
    fakes = node.meta["val"][:2]
    results = {
        name: (memory_for(build, fake), of_tensor(fake)) for name, fake in zip(("out", "sums"), fakes, strict=True)
    }
    if marked.combination is None:
        add_launch(build, marked.launch, given | results, tuple(results), REASON)
    else:
        out, sums = fakes
        parts = {
            "parts": _memory(build, sums, (marked.splits, *out.shape)),
            "largests": _memory(build, sums, (marked.splits, *sums.shape)),
            "totals": _memory(build, sums, (marked.splits, *sums.shape)),
        }
        add_launch(build, marked.launch, given | parts, tuple(parts), REASON_OF_SPLITS)
        add_launch(build, marked.combination, parts | results, tuple(results), REASON_OF_SPLITS)
    return results["out"][0], results["sums"][0], None


def _memory(build: Builder, like: torch.Tensor, size: Sequence[int]) -> Passed:
    """Memory of a size, without gaps."""
    fake = like.new_empty(size)
    return memory_for(build, fake), of_tensor(fake)


# -- the backward ------------------------------------------------------------------------------------------------------


def _backward(build: Builder, marked: FlexGradients, node: fx.Node, given: dict[str, Passed]) -> tuple[Any, ...]:
    """The gradients of query, keys, values, and of tensors that the function reads."""
    of_query, of_key, of_value, of_buffers = node.meta["val"]
    query = marked.arguments["query"].meta["val"]
    given["delta"] = _delta(build, given), contiguous(of_tensor(query).size[:-1])
    results: dict[str, Passed] = {"grad_query": (memory_for(build, of_query), of_tensor(of_query))}
    add_launch(build, marked.of_query, given | results, ("grad_query",), REASON_OF_GRADIENTS)
    for name, fake in (("grad_key", of_key), ("grad_value", of_value)):
        # Where batches share their keys, each has its own gradient, and these are added.
        shape = (query.shape[0], *fake.shape[1:])
        is_whole = indices(shape) == indices(fake.shape)
        results[name] = (memory_for(build, fake), of_tensor(fake)) if is_whole else _memory(build, fake, shape)
    for name, number in marked.captured.items():
        results[name] = _zeros(build, of_buffers[number])
    written = ("grad_key", "grad_value", *marked.captured)
    add_launch(build, marked.of_keys, given | results, written, REASON_OF_GRADIENTS)
    keys = [
        results[name][0] if results[name][1].size == of_tensor(fake).size
        else build.call(aten.sum.dim_IntList, results[name][0], [0], True)
        for name, fake in (("grad_key", of_key), ("grad_value", of_value))
    ]  # fmt: skip
    captured: list[Value | None] = [None] * len(of_buffers)
    for name, number in marked.captured.items():
        # Programs added to float32 numbers, atomically: they are rounded once, here.
        found, dtype = results[name][0], of_buffers[number].dtype
        captured[number] = Value(
            dtype, found.device, found.size, cast(found.body, compute_dtype(dtype)), found.from_nodes
        )
    return results["grad_query"][0], *keys, tuple(captured)


def _delta(build: Builder, given: Mapping[str, Passed]) -> Value:
    """The sum of result times gradient, of each row, less the gradient of the row's logarithm."""
    out, grad = given["out"][0], given["grad"][0]
    # Rounded as in memory, where one was not stored.
    body = apply("mul", *(cast(cast(value.body, value.dtype), torch.float32) for value in (out, grad)))
    nodes = merge_nodes(out.from_nodes, grad.from_nodes, build.origin())
    terms = Value(torch.float32, out.device, out.size, body, nodes)
    delta = build.reduce(terms, [3], False, "sum", torch.float32, torch.float32)
    if "grad_sums" in given:
        # Torch's logarithms have the base 2.
        change = apply("mul", given["grad_sums"][0].body, _PER_LN_2)
        delta = Value(delta.dtype, delta.device, delta.size, apply("sub", delta.body, change), nodes)
    return delta


def _zeros(build: Builder, fake: torch.Tensor) -> Passed:
    """Float32 zeros of a tensor's size, in memory of their own."""
    layout = contiguous(of_tensor(fake).size)
    device = build.target_device(fake.device)
    zeros = Value(torch.float32, device, layout.size, constant(0, torch.float32), build.origin())
    return build.realize(zeros, layout, copy=True), layout
