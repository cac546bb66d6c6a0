"""Launches of the user's own Triton kernels: calls that write some of their arguments.

    functional(kwargs={"x": x, "out": out}, tensors_to_clone=["out"])     {"out": copy}, after a launch with the copy
    mutation(kwargs={"x": x, "out": out})                                 extern0(..., kwargs={"x": x, "out": copy})

An argument that was made for the launch alone (``torch.empty_like``) is written where it is.

In torch: torch/_inductor/ir.py (UserDefinedTritonKernel), fx_passes/reinplace.py. Read next:
nbcompile/gpu/user_kernels.py
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx

from nbcompile import torch_internals
from nbcompile.ir import buffer as ir
from nbcompile.ir.layout import of_tensor
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.registry import NoLowering
from nbcompile.lowering.value import Value

aten = torch.ops.aten
_MAKES_MEMORY = frozenset(
    {
        aten.empty.memory_format, aten.empty_strided.default, aten.empty_like.default, aten.new_empty.default,
        aten.empty_permuted.default, aten.new_empty_strided.default,
    }
)  # fmt: skip
"""Operators whose result nobody has written to."""
_FILLS = frozenset(
    {
        aten.zeros.default, aten.zeros_like.default, aten.new_zeros.default, aten.full.default, aten.full_like.default,
        aten.ones.default, aten.ones_like.default, aten.new_ones.default, aten.new_full.default,
    }
)  # fmt: skip
REASON = "a Triton kernel of the program's own"


def lower_launch(
    build: Builder, node: fx.Node, keywords: Mapping[str, Any], values: Mapping[fx.Node, Any]
) -> dict[str, Value]:
    """Add the launch; return the arguments that it writes, as they are afterwards, by name."""
    given: dict[str, Any] = dict(node.kwargs["kwargs"])  # type: ignore[arg-type]
    named = dict(keywords["kwargs"])
    names = keywords.get("tensors_to_clone", ())
    memory = _shared(build, [given[name] for name in names], given, values)
    for name in names:
        if given[name] not in memory:
            memory[given[name]] = _writable(build, given[name], named[name])
    arguments = {
        name: build.as_argument(memory.get(given[name], value), of_tensor(given[name].meta["val"]), False)
        if isinstance(value, Value)
        else value
        for name, value in named.items()
    }
    call = build.fresh("extern")
    mutated = tuple(dict.fromkeys(arguments[name].buffer for name in names))
    # The first two are positions in torch's table of kernels: a graph has no other way to hold a
    # Python object.
    launch = {
        "kernel_idx": keywords["kernel_idx"], "constant_args_idx": keywords["constant_args_idx"],
        "grid": list(keywords["grid"]), "tma_descriptor_metadata": dict(keywords["tma_descriptor_metadata"]),
        "kwargs": arguments,
    }  # fmt: skip
    target = torch_internals.triton_kernel_wrap().triton_kernel_wrapper_mutation
    build.add(ir.Extern(call, target, (), launch, REASON, mutated, build.origin()))
    return {name: memory[given[name]] for name in names}


def _shared(
    build: Builder, written: Sequence[fx.Node], given: Mapping[str, Any], values: Mapping[fx.Node, Any]
) -> dict[fx.Node, Value]:
    """Arguments that are views of one tensor, of which one at least is written: views of one memory.

    So a parameter sees what is written by way of another one.
    """
    #     k(x=a[:4], out=a[2:]), which writes out     c = a copy of a;  k(x=c[:4], out=c[2:])
    views: dict[fx.Node, dict[fx.Node, None]] = {}
    for value in given.values():
        if isinstance(value, fx.Node) and isinstance(value.meta["val"], torch.Tensor):
            views.setdefault(_base(value), {})[value] = None
    memory: dict[fx.Node, Value] = {}
    for base, nodes in views.items():
        if len(nodes) > 1 and any(node in written for node in nodes):
            memory |= _views(build, list(nodes), base, values[base])
    return memory


def _base(node: fx.Node) -> fx.Node:
    """The tensor that a node is a view of, itself if it is none."""
    while isinstance(node.target, torch._ops.OpOverload) and node.target.is_view and len(node.all_input_nodes) == 1:
        node = node.all_input_nodes[0]
    return node


def _views(build: Builder, nodes: Sequence[fx.Node], base: fx.Node, value: Value) -> dict[fx.Node, Value]:
    """Views of a copy of their base; none where one cannot be a view of a buffer."""
    whole = build.realize(value, of_tensor(base.meta["val"]), copy=True)
    try:
        views = {node: _replayed(build, node, base, whole) for node in nodes}
    except (NoLowering, KeyError):  # of another type, say
        return {}
    # What is no view of the copy would be stored in memory of its own, where the others do not see
    # what is written to it.
    own = build.as_argument(whole, None, True).buffer
    arguments = (build.as_argument(view, of_tensor(node.meta["val"]), False) for node, view in views.items())
    return views if all(argument.buffer == own for argument in arguments) else {}


def _replayed(build: Builder, node: fx.Node, base: fx.Node, whole: Value) -> Value:
    """The view of its base's memory that a node is."""
    if node is base:
        return whole
    viewed = _replayed(build, node.all_input_nodes[0], base, whole)
    result: Value = build.call(node.target, viewed, *node.args[1:], **node.kwargs)
    return result


def _writable(build: Builder, node: fx.Node, value: Value) -> Value:
    """Memory with the content of a tensor, which only the launch knows."""
    # The launch is the only one to see what it writes there: no copy is needed.
    only_here = len(node.users) == 1
    if only_here and node.target in _MAKES_MEMORY:
        return memory_for(build, node.meta["val"])
    return build.realize(value, of_tensor(node.meta["val"]), copy=not only_here or node.target not in _FILLS)


def memory_for(build: Builder, value: torch.Tensor) -> Value:
    """Memory that is not filled."""
    layout = of_tensor(value)
    how = {"dtype": value.dtype, "device": value.device}
    arguments = ([*layout.size], [*layout.stride])
    result: Value = build.extern_call(aten.empty_strided.default, arguments, how, value, "memory for a Triton kernel")
    return result
