"""The operator ``in``: known while tracing, or a truth value of the graph where sizes decide it.

    3 in [1, 3]                 True
    x.shape[0] in (1, 5)        eq = x.shape[0] == 1;  eq_1 = x.shape[0] == 5;  eq | eq_1
    key in mapping              True or False; the presence of the key is guarded

In torch: torch/_dynamo/utils.py (iter_contains). Read next: nbcompile/tracing/calls/comparisons.py
"""

from __future__ import annotations

import operator
from typing import TypeGuard

import torch

from nbcompile.tracing.calls import comparisons, operations
from nbcompile.tracing.calls.registry import handles
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.sequences import SequenceVariable
from nbcompile.tracing.variables.symbolic import SymbolicVariable


def contains(tracer: Tracer, container: VariableTracker, item: VariableTracker) -> VariableTracker:
    """``item in container``."""
    container, item = realise(tracer, container), realise(tracer, item)
    if not _may_depend_on_sizes(container, item):
        return ConstantVariable(container.contains(tracer, item))
    items = [realise(tracer, container.at(tracer, index)) for index in range(len(container.items))]
    if not _is_number(item) or not all(value.is_constant() or _is_number(value) for value in items):
        return ConstantVariable(container.contains(tracer, item))
    # One condition instead of a guard for each item: the result may be used without being decided here.
    found: VariableTracker = ConstantVariable(False)
    for candidate in filter(_is_number, items):
        is_equal = comparisons.compare(tracer, "==", candidate, item)
        if is_equal.is_constant() and is_equal.constant():
            return is_equal
        if not is_equal.is_constant():
            found = is_equal if found.is_constant() else operations.binary(tracer, "|", found, is_equal)
    return found


def _may_depend_on_sizes(container: VariableTracker, item: VariableTracker) -> TypeGuard[SequenceVariable]:
    # Nothing is read from another list: that would guard items after the one that is found.
    return (
        isinstance(container, SequenceVariable)
        and container.python_type() in (list, tuple, torch.Size)
        and (isinstance(item, SymbolicVariable) or any(isinstance(each, SymbolicVariable) for each in container.items))
    )


def _is_number(value: VariableTracker) -> bool:
    # A float of the graph may be NaN, which is in a list without being equal to itself.
    if isinstance(value, SymbolicVariable):
        return value.python_type() is int
    return value.is_constant() and isinstance(value.constant(), (int, float))


@handles(operator.contains)
def _contains(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    owner, item = (realise(tracer, each) for each in arguments)
    return contains(tracer, owner, item)
