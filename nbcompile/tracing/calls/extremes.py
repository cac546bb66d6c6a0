"""``min`` and ``max`` of numbers, symbols, tensors and objects while tracing.

    max(n, 3)      torch.sym_max(n, 3), a node, where n is a symbol
    min(a, b)      torch.where(b < a, b, a), where both are tensors with one element
    max(xs, key=f) one comparison after the other, where they are objects

In torch: torch/_dynamo/variables/builtin.py. Read next: totals.py
"""

from __future__ import annotations

import torch

from nbcompile.tracing.calls import comparisons
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import (
    Arguments,
    Keywords,
    VariableTracker,
    realise,
)
from nbcompile.tracing.variables.symbolic import SymbolicVariable
from nbcompile.tracing.variables.tensor import TensorVariable


def extreme(tracer: Tracer, function: object, symbol: str, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    """``min`` and ``max``: the first of the smallest (greatest) items."""
    given = arguments if len(arguments) > 1 else realise(tracer, arguments[0]).unpack(tracer)
    items = [realise(tracer, item) for item in given]  # those of an iterator are realised when they are used
    key, default = keywords.get("key"), keywords.get("default")
    if len(arguments) > 1 and default is not None:
        tracer.evaluate(function, (0, 0), {"default": 0})  # raises Python's error
    if key is not None and (found := realise(tracer, key)).is_constant() and found.constant() is None:
        key = None
    if not items:
        if default is not None:
            return default
        tracer.evaluate(function, ([],))  # raises; the message depends on the version
    return _best(tracer, symbol, items) if key is None else _best_by_key(tracer, symbol, items, key)


def _best(tracer: Tracer, symbol: str, items: list[VariableTracker]) -> VariableTracker:
    # Values of symbols and tensors are not read: the calls become nodes, without a guard.
    best = items[0]
    for item in items[1:]:
        is_symbolic = isinstance(item, SymbolicVariable) or isinstance(best, SymbolicVariable)
        if is_symbolic and item.python_type() is best.python_type():
            best = tracer.apply(torch.sym_max if symbol == ">" else torch.sym_min, (best, item))
        elif isinstance(item, TensorVariable) or isinstance(best, TensorVariable):
            best = _extreme_of_tensors(tracer, symbol, best, item)
        elif comparisons.compare(tracer, symbol, item, best).truth(tracer):
            best = item
    return best


def _best_by_key(tracer: Tracer, symbol: str, items: list[VariableTracker], key: VariableTracker) -> VariableTracker:
    # Only a strictly better item replaces the best: of equal ones the first stays, as in CPython.
    best, best_key = items[0], tracer.call(key, [items[0]])
    for item in items[1:]:
        item_key = tracer.call(key, [item])
        if comparisons.compare(tracer, symbol, item_key, best_key).truth(tracer):
            best, best_key = item, item_key
    return best


def _extreme_of_tensors(tracer: Tracer, symbol: str, left: VariableTracker, right: VariableTracker) -> VariableTracker:
    """Choose one of two tensors with one element each; break the graph if they differ in more than their value."""
    # Python evaluates `right > left`, and keeps the first if it is false: also for equal ones, and if one is NaN.
    # torch.maximum propagates NaN, returns either zero, and splits the gradient between equal ones.
    is_better = comparisons.compare(tracer, symbol, right, left)
    if not _are_alike(left, right):
        # A number or a tensor, of one dtype or another: Python's own type of the result depends on data.
        return right if is_better.truth(tracer) else left
    return tracer.apply(torch.where, (is_better, right, left))


def _are_alike(left: VariableTracker, right: VariableTracker) -> bool:
    """Return whether both are tensors of one element that differ only in value."""
    if not isinstance(left, TensorVariable) or not isinstance(right, TensorVariable):
        return False
    examples = left.example, right.example
    facts = [(tensor.dtype, tensor.device, tensor.shape, tensor.requires_grad) for tensor in examples]
    return facts[0] == facts[1] and examples[0].numel() == 1
