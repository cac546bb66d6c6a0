"""Eligibility for the inference tracer: graphs that need nothing of AOTAutograd but a list of ATen operators.

    def forward(x): return x.sin() + 1                       eligible
    def forward(x): torch._assert(x.sum() > 0, "...")        not: an operator with its own effect

In torch: nothing. Read next: nbcompile/fast/inference_tracer.py
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import sympy
import torch
import torch.fx

from nbcompile import torch_internals
from nbcompile.aot.graph_calls import name_of_target, written_arguments

SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def _is_strided(tensor: torch.Tensor) -> bool:
    """True for a tensor of no subclass that has strides."""
    return torch_internals.is_plain(tensor) and tensor.layout == torch.strided


def is_eligible(module: torch.fx.GraphModule, example_inputs: Sequence[Any], allow_mutation: bool = False) -> bool:
    """True if a graph may be traced in one pass; if in doubt, False."""
    # Autocast and inference mode change which operators run: AOTAutograd knows all of that.
    if torch._C._is_any_autocast_enabled() or torch.is_inference_mode_enabled():
        return False
    tensors = [each for each in example_inputs if isinstance(each, torch.Tensor)]
    if not tensors or not all(map(_is_strided, tensors)):
        return False
    if torch_internals.has_symbolic_floats(fake_mode_of(example_inputs).shape_env):
        return False  # AOTAutograd decides which of them must be constants, even those that no operator reads
    symbols = _symbols(each for each in example_inputs if isinstance(each, torch.SymInt))
    if symbols is None or not all(isinstance(each, (torch.Tensor, torch.SymInt)) for each in example_inputs):
        return False
    return all(_is_simple(node, symbols, allow_mutation) for node in module.graph.nodes)


def _symbols(numbers: Iterable[torch.SymInt]) -> set[sympy.Symbol] | None:
    """The symbols among the inputs; None if an input is anything else, as a number that is known by now."""
    expressions = [each.node.expr for each in numbers]
    return set(expressions) if all(each.is_Symbol for each in expressions) else None


def _is_simple(node: torch.fx.Node, symbols: set[sympy.Symbol], allow_mutation: bool) -> bool:
    """A call of an ordinary operator: no state of the process, no subgraph, no size that only the run knows."""
    if node.op in ("get_attr", "call_module") or isinstance(node.target, torch._ops.HigherOrderOperator):
        return False
    if node.op != "placeholder" and _has_side_effect(node, allow_mutation):
        return False
    if torch_internals.is_traced_through(node.target):
        return False
    value = node.meta.get("example_value", node.meta.get("val"))
    if isinstance(value, torch.Tensor) and not torch_internals.is_plain(value):
        return False
    return all(_is_known(each, symbols) for each in sizes_of(value))


def _is_known(size: object, symbols: set[sympy.Symbol]) -> bool:
    if isinstance(size, torch.SymInt):
        return size.node.expr.free_symbols <= symbols
    return not isinstance(size, SYMBOLIC)


def _has_side_effect(node: torch.fx.Node, allow_mutation: bool) -> bool:
    """True if running the node would change an example input or the state of the process."""
    name = name_of_target(node)
    on_input = not allow_mutation and any(target.op == "placeholder" for target in written_arguments(node))
    return on_input or "out" in node.kwargs or "grad" in name or "autocast" in name


def sizes_of(value: object) -> Iterable[object]:
    """Sizes of a tensor; for any other value only the value."""
    return value.shape if isinstance(value, torch.Tensor) else (value,)


def fake_mode_of(example_inputs: Sequence[Any]) -> Any:
    """The mode of the fakes among the inputs, or a new one."""
    mode = torch_internals.guards_context().detect_fake_mode(example_inputs)
    return mode if mode is not None else torch_internals.fake_tensor().FakeTensorMode()
