"""Launches of the user's own Triton kernels: calls that write some of their arguments.

    functional(kwargs={"x": x, "out": out}, tensors_to_clone=["out"])     {"out": copy}, after a launch with the copy
    mutation(kwargs={"x": x, "out": out})                                 extern0(..., kwargs={"x": x, "out": copy})

In torch: torch/_inductor/ir.py (UserDefinedTritonKernel). Read next: nbcompile/lowering/launch_memory.py
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from torch import fx

from nbcompile import torch_internals
from nbcompile.ir import buffer as ir
from nbcompile.ir.layout import of_tensor
from nbcompile.lowering import launch_memory
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.value import Value

REASON = "a Triton kernel of the program's own"


def lower_launch(
    build: Builder, node: fx.Node, keywords: Mapping[str, Any], values: Mapping[fx.Node, Any]
) -> dict[str, Value]:
    """Add the launch; return the arguments that it writes, as they are afterwards, by name."""
    given: dict[str, Any] = dict(node.kwargs["kwargs"])  # type: ignore[arg-type]
    named = dict(keywords["kwargs"])
    names = keywords.get("tensors_to_clone", ())
    memory: dict[fx.Node, Value] = {}
    found = launch_memory.groups(node, given, names)
    for group in found:
        views = launch_memory.memory_of(build, node, group, values)
        memory |= {} if views is None else views
    for name in names:
        if given[name] not in memory:
            memory[given[name]] = build.realize(named[name], of_tensor(given[name].meta["val"]), copy=True)
    arguments = {
        name: build.as_argument(memory.get(given[name], value), of_tensor(given[name].meta["val"]), False)
        if isinstance(value, Value)
        else value
        for name, value in named.items()
    }
    call = build.fresh("extern")
    # Buffers over one memory change together.
    own = (sorted(group.buffers) for group in found)
    mutated = tuple(dict.fromkeys((*(arguments[name].buffer for name in names), *itertools.chain(*own))))
    # The first two are positions in torch's table of kernels: a graph cannot hold a Python object.
    launch = {
        "kernel_idx": keywords["kernel_idx"], "constant_args_idx": keywords["constant_args_idx"],
        "grid": list(keywords["grid"]), "tma_descriptor_metadata": dict(keywords["tma_descriptor_metadata"]),
        "kwargs": arguments,
    }  # fmt: skip
    target = torch_internals.triton_kernel_wrap().triton_kernel_wrapper_mutation
    build.add(ir.Extern(call, target, (), launch, REASON, mutated, build.origin()))
    return {name: memory[given[name]] for name in names}
