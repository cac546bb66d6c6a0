"""True if a graph does anything but compute its results, or has an operator that may fail because of values.

    y = x * 2; z = y.index_select(0, ids)     it does not: after an IndexError the function can be run from its start
    x.add_(1); torch.dropout(x, 0.5, True)    it does: an input is written, random numbers are drawn

In torch: nothing; what a compiled function had done before an operator failed is lost there. Read next:
nbcompile/rewriting/residual.py (Trace.reruns_on_error)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import FunctionType
from typing import Any

import torch
import torch.utils._pytree as pytree

_CHANGES_WITHOUT_OPERATOR = ("register_", "retain_grad", "backward", "requires_grad_", "share_memory_")
_SECRETLY = frozenset({"native_batch_norm", "_batch_norm_impl_index", "cudnn_batch_norm", "miopen_batch_norm"})
"""Operators that write to arguments of which their schema does not say so."""
_MAY_FAIL = (
    "index", "_index_put_impl", "gather", "scatter", "take", "put", "embedding", "nll_loss", "binary_cross_entropy",
)  # fmt: skip
"""Operators whose names begin so have an error that depends on values, which generated code words in its own way.
Those that ATen runs in any case raise ATen's own."""


class Purity:
    """The effects of one graph's operators, seen as they ran on fake tensors."""

    def __init__(self) -> None:
        self.computes = True
        self.may_fail = False
        self.operators = 0
        self._written: set[int] = set()
        """The memory that was written into."""

    def note_call(self, target: str | Callable[..., object], keywords: Mapping[str, Any], operators: int) -> None:
        """A call, with how many operators it took."""
        name = target if isinstance(target, str) else getattr(target, "__name__", "")
        if not operators and (name.startswith(_CHANGES_WITHOUT_OPERATOR) or name.endswith("_")):
            self.computes = False
        if isinstance(target, FunctionType) and target.__module__.partition(".")[0] != "torch":
            self.computes = False  # a function of the user's that is not traced

    def see(self, operator: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> None:
        """An operator that runs."""
        self.operators += 1
        if not isinstance(operator, torch._ops.OpOverload) or operator.namespace not in ("aten", "prim", "prims"):
            self.computes = False  # of the user's, or with functions as its arguments
            return
        name = operator.overloadpacket.__name__
        self.may_fail = self.may_fail or name.startswith(_MAY_FAIL)
        if torch.Tag.nondeterministic_seeded in operator.tags or name in _SECRETLY:
            self.computes = False
        if operator._schema.is_mutable:
            for parameter, value in zip(operator._schema.arguments, arguments, strict=False):
                self._note_write(parameter, value)
            for parameter in operator._schema.arguments[len(arguments) :]:
                self._note_write(parameter, keywords.get(parameter.name))

    def _note_write(self, parameter: torch._C.Argument, value: Any) -> None:
        if parameter.alias_info is not None and parameter.alias_info.is_write:
            self._written.update(_memory(value))

    def holds(self, inputs: Iterable[Any]) -> bool:
        """True if nothing was done that could be seen, given the values of the graph's inputs."""
        return self.computes and self._written.isdisjoint(_memory(list(inputs)))


def _memory(values: Any) -> Iterable[int]:
    for value in pytree.tree_leaves(values):
        if isinstance(value, torch.Tensor):
            try:
                yield value.untyped_storage()._cdata
            except NotImplementedError:  # a sparse tensor, or one under a transform of torch.func
                yield -1
