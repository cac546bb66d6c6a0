"""Dtypes that fake tensors accept and the real operator rejects: the error is raised while the operator is traced.

    torch.ones(3, 3) @ torch.ones(3, 3, dtype=torch.int64)       a product of two dtypes
    cross_entropy(logits, target.int())                          class indices that are neither int64 nor uint8
    gelu(torch.arange(4))                                        the kernel has no code for int64
    torch.ones(3).add_(1j)                                       the complex result does not fit into the floats

Each operator is tried: it runs once, on small tensors of zeros, for each combination of dtypes that is not float32 or
only float64. If it rejects them, the graph breaks and the operator runs in eager mode, where it raises its own error.
The other way round, real_run.py tries what fake tensors reject.

In torch: checks in aten/src/ATen/native/LinearAlgebra.cpp and LossNLL.cpp; the meta functions of
torch/_meta_registrations.py have none of them. Read next: nbcompile/tracing/graph/output_graph.py
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, ClassVar

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from nbcompile import torch_internals
from nbcompile.tracing.graph import in_place_shapes


class DtypeTrial(TorchDispatchMode):
    """Tries each operator of ATen on real tensors, before it runs on fake ones.

    Raises:
        NotImplementedError: with the operator's text, where it rejects the dtypes.
        RuntimeError: an in-place operator has no space for its result.
    """

    supports_higher_order_operators = True
    messages: ClassVar[dict[Hashable, str | None]] = {}
    """Message with which each operator rejected a combination of dtypes; None if it ran."""

    def __init__(self, see: Callable[[Any, Sequence[Any], Mapping[str, Any]], None]) -> None:
        super().__init__()
        self.see = see
        """Function that is called with each operator that runs."""

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> object:
        """Try an operator on small real tensors, once for each combination of dtypes, and run it."""
        keywords = kwargs or {}
        if isinstance(func, torch._ops.OpOverload):
            values = tree_leaves((args, keywords))
            if _is_worth_trying(func, values):
                # Sizes are not in the key, so that a trial serves many calls:
                # rejections depend on dtypes and numbers of dims.
                key = (func, *keywords, *map(_kind, values))
                if key not in self.messages:
                    self.messages[key] = _try(func, args, keywords)
                if message := self.messages[key]:
                    raise NotImplementedError(message)
            in_place_shapes.check(func, args, keywords)
        self.see(func, args, keywords)
        return func(*args, **keywords)


def _is_worth_trying(function: torch._ops.OpOverload, values: Sequence[object]) -> bool:
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    dtypes = {tensor.dtype for tensor in tensors}
    # ``x.add_(1j)`` of a float tensor: the result is complex, and x cannot be. Graphs without mutation would drop 1j.
    has_complex_number = any(isinstance(value, complex) for value in values)
    if not dtypes or (dtypes in ({torch.float32}, {torch.float64}) and not has_complex_number):
        return False
    if function.namespace != "aten" or function.is_view or torch_internals.in_transform():
        return False
    return all(
        torch_internals.is_plain(tensor) and tensor.layout is torch.strided and tensor.device.type == "cpu"
        for tensor in tensors
    )


def _kind(value: object) -> object:
    """Part of an argument that decides if its dtype is rejected."""
    match value:
        case torch.Tensor():
            return value.dtype, value.dim()
        case torch.dtype() | bool() | str():
            return value
    return type(value)


_OF_DTYPES = re.compile(
    r"dtype|data ?type|scalar type|not implemented for|not supported for|[Tt]ype promot|[Ii]nput type|floating"
    r"|[Ii]ntegral|\b(Bool|Byte|Char|Short|Int|Long|Half|BFloat16|Float|Double|Complex\w*)\b|\b(int|long|bool)\b"
)
"""An error about anything else may come from the small tensors."""


def _try(function: torch._ops.OpOverload, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> str | None:
    values = tree_leaves((arguments, keywords))
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    is_small = all(isinstance(size, int) for tensor in tensors for size in tensor.shape) and not any(
        isinstance(value, (torch.SymInt, torch.SymFloat)) for value in values
    )
    is_small = is_small and sum(tensor.numel() for tensor in tensors) <= _LARGE
    # ``x.new_full((100_000, 100_000), 1)``: the numbers are sizes of a result that is never needed.
    is_small = is_small and math.prod(max(value, 1) for value in values if type(value) is int) <= _LARGE_RESULT
    # A trial must not move the user's generator.
    is_random = torch.Tag.nondeterministic_seeded in function.tags
    with (
        torch_internals.real_dispatch(),
        torch.random.fork_rng(devices=()) if is_random else nullcontext(),
        warnings.catch_warnings(action="ignore"),
    ):
        try:
            given, named = tree_map(lambda value: _small(value, is_small), (arguments, dict(keywords)))
            function(*given, **named)
        except (RuntimeError, IndexError, TypeError, ValueError) as error:
            return str(error) if _OF_DTYPES.search(str(error)) else None
    return None


_LARGE = 4096
"""Elements; with more, every size is at most ``_SIZE`` in a trial."""
_LARGE_RESULT = 2**20
"""Elements that the numbers among the arguments may ask for in a trial; with more, they are at most ``_SIZE``, too."""
_SIZE = 8


def _small(value: object, as_it_is: bool) -> object:
    match value:
        case torch.Tensor():
            sizes = [_small(size, as_it_is) for size in value.shape]
            return torch.zeros(sizes, dtype=value.dtype, device="cpu")  # type: ignore[arg-type]
        case torch.Generator():
            return None
        case torch.SymFloat():
            return 1.0
        case torch.SymInt():
            return _SIZE
        case int() if not isinstance(value, bool) and not as_it_is:
            return min(value, _SIZE)
    return value
