"""Views that were created without gradients, of tensors that require them: leaves for autograd, as in eager mode.

    with torch.no_grad():
        rows = weight[1:]         # requires grad, as its base does, and is a leaf: no gradient of it reaches weight
    return rows                   # AOTAutograd gives a view that autograd recorded

A compiled graph creates such a view once more, without gradients. If the graph continues to compute with it, the
gradients are rows.grad in eager mode, which no compiled graph can set: such a graph falls back to eager.

In torch: nothing; torch.compile's view passes gradients on. Read next: nbcompile/aot/runtime_wrapper.py
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import torch
import torch.fx
from torch.utils import _pytree as pytree

from nbcompile import torch_internals
from nbcompile.aot.self_overlapping_writes import storages
from nbcompile.ir import compiled_artifact

REASON = "the graph returns a view that was created without gradients, and computes something differentiable of it"
WRITTEN_REASON = "the graph returns a view that was created without gradients, and writes to the same memory"
INFERENCE_REASON = "the graph views a tensor in inference mode, and returns its memory or needs its gradient"
_ENTER, _LEAVE = torch.autograd.grad_mode._enter_inference_mode, torch.autograd.grad_mode._exit_inference_mode


class LeafView(NamedTuple):
    """A result that is a view created without gradients, by position."""

    position: int
    requires_grad: bool


def eager_reason(module: torch.fx.GraphModule) -> str:
    """The reason why a graph falls back to eager, or an empty text."""
    # AOTAutograd fails for them, and leaves torch's dispatcher in a state in which no tensor can be created.
    if _views_in_inference_mode(module):
        return INFERENCE_REASON
    try:
        return REASON if _is_differentiated(module) else ""
    except RuntimeError:  # autograd raises for such a view after a write to its base
        return WRITTEN_REASON


def _views_in_inference_mode(module: torch.fx.GraphModule) -> bool:
    """Return whether such a view, or its memory, can be seen after the graph, or is differentiated."""
    returned: set[int] = set()
    for node in module.graph.output_node().all_input_nodes:
        returned.update(storages(node))
    return any(
        not returned.isdisjoint(storages(node)) or any(value.requires_grad for value in views)
        for node, views in views_in_inference_mode(module)
    )


def views_in_inference_mode(module: torch.fx.GraphModule) -> Iterator[tuple[torch.fx.Node, list[torch.Tensor]]]:
    """The nodes that view a tensor of normal mode in inference mode, and these views; AOTAutograd can trace none."""
    entered: set[torch.fx.Node] = set()
    for node in module.graph.nodes:
        if node.target is _ENTER and node.args[0]:
            entered.add(node)
        elif node.target is _LEAVE:
            entered.discard(node.args[0])
        elif entered:
            # A result of an operator in that mode is an inference tensor, unless it is a view of another one.
            views = [value for value in _values(node) if value._is_view() and not value.is_inference()]
            if views:
                yield node, views


def _is_differentiated(module: torch.fx.GraphModule) -> bool:
    """Return whether a value that requires grad is computed from a leaf that the graph returns."""
    return any(
        user.op != "output" and any(value.requires_grad and not value.is_leaf for value in _values(user))
        for leaf, node in _returned(module)
        if leaf.requires_grad
        for user in node.users
    )


def with_leaf_views(compiled: Callable[..., Any], module: torch.fx.GraphModule) -> Callable[..., Any]:
    """The compiled graph, whose results are leaves where those of the captured graph are."""
    leaves = [leaf for leaf, _ in _returned(module)]
    if not leaves:
        return compiled
    compiled_artifact.set_leaf_views(leaves)
    return as_leaves(compiled, leaves)


def as_leaves(compiled: Callable[..., Any], leaves: Sequence[LeafView]) -> Callable[..., Any]:
    """A callable that returns some results of another one as views created without gradients."""

    def call(*arguments: Any) -> Sequence[Any]:
        results = list(compiled(*arguments))
        with torch.no_grad():
            for position, requires_grad in leaves:
                result = results[position]
                results[position] = torch.ops.aten.alias.default(result if requires_grad else result.detach())
        return tuple(results)

    torch_internals.hide_from_hook(call.__code__)
    return call


def _returned(module: torch.fx.GraphModule) -> Iterator[tuple[LeafView, torch.fx.Node]]:
    """Results of a captured graph that are such leaves."""
    output = module.graph.output_node().args[0]
    inputs = [value for node in module.graph.find_nodes(op="placeholder") for value in _values(node)]
    # A view of an input that is itself a view has the input's base, and requires grad only if the base does.
    bases = {id(value._base) for value in inputs if value.requires_grad and value._base is not None}
    known = {id(value) for value in inputs}
    for position, node in enumerate(output if isinstance(output, Iterable) else ()):
        values = list(_values(node)) if isinstance(node, torch.fx.Node) else []
        # An input is still a leaf.
        if len(values) == 1 and id(values[0]) not in known and _is_leaf_view(values[0], bases):
            yield LeafView(position, values[0].requires_grad), node


def _is_leaf_view(value: torch.Tensor, bases: Container[int]) -> bool:
    return value.is_leaf and value._base is not None and (value.requires_grad or id(value._base) in bases)


def _values(node: torch.fx.Node) -> Iterator[torch.Tensor]:
    for value in pytree.tree_leaves(node.meta.get("example_value")):
        if isinstance(value, torch.Tensor):
            yield value
