"""Linear layers whose only use is a cross entropy, as one operator that does not hold all logits.

    logits = linear(x, w, b)           ->     sums, picked, totals = linear_cross_entropy(x, w, b, target, -100)
    loss = cross_entropy(logits, target)      loss = loss_of_rows(sums, picked, totals, target, ...)

For graphs of a GPU, and logits that need much memory: with many classes the logits, their logarithms and their gradient
are as large as all other activations of a model together. The backward recomputes the logits, so it has one matrix
product more than eager mode's.

In torch: torch/nn/functional.py (linear_cross_entropy). Read next: nbcompile/ir/linear_cross_entropy.py
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch.nn import functional

from nbcompile.aot.graph_calls import written_arguments
from nbcompile.ir.index import index, indices, known_equal
from nbcompile.ir.linear_cross_entropy import OPERATOR, loss_of_rows

LEAST_BYTES = 1 << 28
"""Bytes of logits from which on they are not materialised."""
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
_VIEWS = ("view", "reshape", "flatten")
_NAMES = ("input", "target", "weight", "size_average", "ignore_index", "reduce", "reduction", "label_smoothing")
_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


@dataclass(frozen=True, slots=True)
class _Pattern:
    """A linear layer, perhaps a view, and a loss."""

    linear: fx.Node
    view: fx.Node | None
    loss: fx.Node
    target: Any
    options: tuple[Any, ...]
    """Number of the reduction (as in ATen), ignored target, smoothing."""


def fuse_linear_cross_entropy(module: fx.GraphModule, *, is_target: bool) -> tuple[str, ...]:
    """Replace the pattern in a captured graph; return notes for the record, also about what is kept and why."""
    notes = []
    for loss in module.graph.find_nodes(op="call_function", target=functional.cross_entropy):
        found = _match(loss, is_target=is_target)
        if isinstance(found, str):
            notes.append(f"the logits of {loss.name} are held: {found}")
        elif found is not None:
            _replace(module.graph, found)
            notes.append(f"the logits of {loss.name} are not held: linear layer and cross entropy are one operator")
    if notes:
        module.graph.lint()
        module.recompile()
    return tuple(notes)


def _value(node: object) -> Any:
    return node.meta.get("example_value") if isinstance(node, fx.Node) else None


def _number(size: int | torch.SymInt) -> int | None:
    """A size of the call that the graph is compiled for; None where the numbers of a tensor decide it."""
    if isinstance(size, int):
        return size
    return int(size.node.hint) if size.node.has_hint() else None


def _is_view(node: object) -> bool:
    return isinstance(node, fx.Node) and node.op == "call_method" and node.target in _VIEWS


def _match(loss: fx.Node, *, is_target: bool) -> _Pattern | str | None:
    """The pattern; the reason to hold its logits; None where there is no pattern, or few logits."""
    given: dict[str, Any] = dict(zip(_NAMES, loss.args, strict=False)) | dict(loss.kwargs)
    scores, target = given["input"], given["target"]
    view = scores if _is_view(scores) else None
    linear = view.args[0] if view is not None else scores
    if not isinstance(linear, fx.Node) or linear.target is not functional.linear:
        return None
    logits, labels, result = _value(scores), _value(target), _value(linear)
    if not all(isinstance(value, torch.Tensor) for value in (logits, labels, result)):
        return None
    if not is_target and logits.device.type != "cuda":
        return None
    # For the sizes of the call that the graph is compiled for: the choice must not become a guard on them.
    number = _number(logits.numel())
    if number is None:
        return "their number is not known"
    if number * logits.element_size() < LEAST_BYTES:
        return None
    reasons = (
        _reason_of_users(linear, view), _reason_of_options(given), _reason_of_tensors(linear, logits, labels),
        _reason_of_move(linear, loss),
    )  # fmt: skip
    reason = next(filter(None, reasons), "")
    options = (
        _REDUCTIONS.get(given.get("reduction", "mean")), given.get("ignore_index", -100),
        given.get("label_smoothing", 0.0),
    )  # fmt: skip
    return reason or _Pattern(linear, view, loss, target, options)


def _reason_of_users(linear: fx.Node, view: fx.Node | None) -> str:
    """The reason in the users of the logits to hold them; "" if there is none."""
    is_read = len(linear.users) > 1 or (view is not None and len(view.users) > 1)
    return "something else reads them" if is_read else ""


def _reason_of_tensors(linear: fx.Node, logits: torch.Tensor, labels: torch.Tensor) -> str:
    """The reason in types and sizes to hold the logits; "" if there is none."""
    if labels.dtype != torch.int64 or labels.dim() != 1 or logits.dim() != 2:
        return "targets are probabilities, or have several dimensions"
    if not known_equal(*(index(value.shape[-1]) for value in (logits, _value(linear)))):
        return "a view divides the classes"
    operands = [_value(node) for node in _operands(linear) if node is not None]
    if logits.dtype not in DTYPES or any(value.dtype != logits.dtype for value in operands):
        return f"they are in {logits.dtype}, or autocast"
    # A bias of one number, or of a row for each row of logits, is broadcast.
    _, weight, *bias = operands
    if weight.dim() != 2 or any(indices(value.shape) != indices(weight.shape[:1]) for value in bias):
        return "the weight is no matrix, or the bias has not one number for each class"
    return ""


def _reason_of_move(linear: fx.Node, loss: fx.Node) -> str:
    """The reason why the linear layer cannot be computed where the loss is; "" if there is none."""
    if any("functorch" in str(getattr(node.target, "__module__", "")) for node in linear.graph.nodes):
        return "a transform of torch.func is applied"
    if _value(loss).dtype != _value(linear).dtype:
        return "the loss is in another type, as under autocast"
    # The layer moves down to the loss. No node between them may write
    # a tensor that the layer reads, or change a mode in which it was called.
    nodes = list(linear.graph.nodes)
    for node in nodes[nodes.index(linear) + 1 : nodes.index(loss)]:
        if _has_effect(node):
            return f"{node.name}, between linear layer and loss, changes a tensor or a mode"
    return ""


def _has_effect(node: fx.Node) -> bool:
    # A node without a value is called for an effect: it sets a mode, or elements.
    return node.op.startswith("call_") and (bool(written_arguments(node)) or _value(node) is None)


def _operands(linear: fx.Node) -> tuple[Any, Any, Any]:
    """The input, the weight and the bias of a linear layer."""
    names = ("input", "weight", "bias")
    given = dict(zip(names, linear.args, strict=False)) | dict(linear.kwargs)
    return given["input"], given["weight"], given.get("bias")


def _reason_of_options(given: dict[str, Any]) -> str:
    """The reason in the arguments of the loss to hold the logits; "" if there is none."""
    if given.get("weight") is not None:
        return "classes have weights"
    if given.get("size_average") is not None or given.get("reduce") is not None:
        return "the reduction is given as it was long ago"
    if any(isinstance(given.get(name), fx.Node) for name in _NAMES[2:]):
        return "the options of the loss are not constants"
    return ""


def _replace(graph: fx.Graph, found: _Pattern) -> None:
    x, weight, bias = _operands(found.linear)
    target = found.target
    reduction, ignored, smoothing = found.options
    logits = _value(found.view or found.linear)
    with graph.inserting_before(found.loss):
        if _value(x).dim() != 2:
            x = graph.call_method("reshape", (x, -1, _size(graph, x, -1)))
        rows = graph.call_function(OPERATOR, (x, weight, bias, target, ignored))
        numbers = [graph.call_function(operator.getitem, (rows, at)) for at in range(3)]
        classes = _size(graph, weight, 0)
        given = (*numbers, target, classes, reduction, ignored, smoothing, logits.dtype)
        loss = graph.call_function(loss_of_rows, given)
    for node in (rows, *numbers, loss):
        node.meta |= {key: value for key, value in found.loss.meta.items() if key != "example_value"}
    loss.meta["example_value"] = _value(found.loss)
    found.loss.replace_all_uses_with(loss)
    for replaced in (found.loss, found.view, found.linear):
        if replaced is not None:
            graph.erase_node(replaced)


def _size(graph: fx.Graph, tensor: fx.Node, dimension: int) -> Any:
    """A size as the argument of a call: a number, or the node that computes it."""
    size = _value(tensor).shape[dimension]
    if isinstance(size, int):
        return size
    node = graph.call_method("size", (tensor, dimension))
    node.meta["example_value"] = size
    return node
