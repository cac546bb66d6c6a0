"""Functions of torch that create a tensor from numbers, from a list, or from another tensor's data.

    torch.tensor([x[0], 2.0])        stacked in the graph: the function itself would read the data
    torch.full((2, 3), x.sum())      empty ; fill_
    torch.FloatTensor([1.0])         a node

In torch: torch/_dynamo/variables/torch.py. Read next: nbcompile/tracing/variables/subclasses.py
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeGuard

import torch

from nbcompile import torch_internals
from nbcompile.tracing import breaks
from nbcompile.tracing.calls.registry import handles
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.known_callables import OperatorVariable
from nbcompile.tracing.variables.sequences import SequenceVariable
from nbcompile.tracing.variables.subclasses import as_subclass
from nbcompile.tracing.variables.symbolic import SymbolicVariable
from nbcompile.tracing.variables.tensor import TensorVariable

NONE = ConstantVariable(None)


def _maker(function: object) -> None:
    @handles(function)
    def _handler(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        data = realise(tracer, arguments[0]) if arguments else realise(tracer, keywords["data"])
        OperatorVariable.check_no_leaf(tracer, function, keywords)
        if _reads_numbers(tracer, function, data):
            # It reads the data of a list with tensors, and accepts no symbolic bool: the graph stacks them instead.
            return tracer.apply(torch._refs.tensor, arguments, keywords)
        return tracer.apply(function, arguments, keywords)


@handles(torch.full)
def _full(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    # ``torch.full`` reads its number on the host. For one in a tensor, memory is allocated and filled in the graph.
    named = {**dict(zip(("size", "fill_value"), arguments, strict=False)), **keywords}
    number = realise(tracer, named.get("fill_value", NONE))
    dtype = realise(tracer, named.get("dtype", NONE))
    if not _is_number(number) or "out" in named or "size" not in named or not _converts(number.example, dtype):
        return OperatorVariable(torch.full).call(tracer, arguments, keywords)
    del named["fill_value"]
    size = named.pop("size")
    own_dtype = _dtype_of_number(number.example)
    # The keyword is only written if it changes the dtype: otherwise the node is that of torch.
    if _is_none(dtype) and own_dtype is not None:
        named["dtype"] = ConstantVariable(own_dtype)
    return tracer.apply(torch.empty, [size], named).call_method(tracer, "fill_", [number], {})


def _counting(function: Callable[..., object]) -> None:
    @handles(function)
    def _count(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        """``torch.linspace``, whose fake tensors are real for a complex end in a tensor: the dtype is written out."""
        ends = [realise(tracer, each) for each in (*arguments[:2], *map(keywords.get, ("start", "end"))) if each]
        complex_ends = [each for each in ends if isinstance(each, TensorVariable) and each.example.dtype.is_complex]
        if complex_ends and "out" not in keywords and _is_none(realise(tracer, keywords.get("dtype", NONE))):
            keywords = {**keywords, "dtype": ConstantVariable(_dtype_of_number(complex_ends[0].example))}
        return OperatorVariable(function).call(tracer, arguments, keywords)


def _is_number(value: VariableTracker | None) -> TypeGuard[TensorVariable]:
    """True for a tensor that eager mode takes as a number."""
    return isinstance(value, TensorVariable) and value.example.dim() == 0 and not value.example.requires_grad


def _is_none(value: VariableTracker) -> bool:
    return value.is_constant() and value.constant() is None


def _converts(number: torch.Tensor, dtype: VariableTracker) -> bool:
    """True if the number has a value of the dtype; a complex one has none that is real, and eager mode raises."""
    if not number.dtype.is_complex or _is_none(dtype):
        return True
    requested = dtype.constant() if dtype.is_constant() else None
    return isinstance(requested, torch.dtype) and requested.is_complex


def _dtype_of_number(number: torch.Tensor) -> torch.dtype | None:
    """The dtype of a tensor that is filled with the number, which is one of Python by then: None is the default."""
    if number.dtype.is_complex:
        return torch.complex128 if torch.get_default_dtype() == torch.float64 else torch.complex64
    if number.dtype.is_floating_point:
        return None
    return torch.bool if number.dtype == torch.bool else torch.int64


@handles(torch.Tensor._make_subclass)
def _make_subclass(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    """``torch.Tensor._make_subclass(cls, data)``: the constructor of tensors of a class without own operators."""
    cls, data = (realise(tracer, each) for each in arguments[:2])
    value = getattr(cls, "value", None)
    requested = [realise(tracer, each) for each in (*arguments[2:], *keywords.values())]
    known = all(each.is_constant() for each in requested) and not any(each.constant() for each in requested)
    # Parameters, buffers and wrappers have rules of their own.
    special = value in (torch.nn.Parameter, torch.nn.Buffer) or torch_internals.is_wrapper(value)
    if not isinstance(data, TensorVariable) or not known or special:
        raise breaks.unsupported(breaks.TENSOR_SUBCLASS, "torch.Tensor._make_subclass", name=cls.describe())
    detached = data.call_method(tracer, "detach", [], {})
    assert isinstance(detached, TensorVariable)
    return as_subclass(detached, value)


def _legacy(cls: type) -> None:
    """``torch.Tensor([1.0])``, ``torch.FloatTensor(2, 3)``: the old constructors."""

    @handles(cls)
    def _make(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        return tracer.apply(cls, arguments, keywords)


def _reads_numbers(tracer: Tracer, function: object, data: VariableTracker) -> bool:
    """True if torch's own definition must replace a factory function that would read numbers of the run.

    Those are symbolic numbers and tensors of one number, also in a list; a list with larger tensors is an error
    in eager mode. Only ``torch.tensor`` reads them all: ``as_tensor`` accepts all but symbolic bools.
    """
    if isinstance(data, TensorVariable) or function is torch.scalar_tensor:
        return False
    leaves = list(_leaves(tracer, data))
    tensors = [each for each in leaves if isinstance(each, TensorVariable)]
    symbols = [each for each in leaves if isinstance(each, SymbolicVariable)]
    if any(each.example.numel() != 1 for each in tensors):
        return False
    return bool(tensors or symbols) if function is torch.tensor else any(each.python_type() is bool for each in symbols)


def _leaves(tracer: Tracer, data: VariableTracker) -> Iterator[VariableTracker]:
    if isinstance(data, SequenceVariable):
        for item in data.unpack(tracer):
            yield from _leaves(tracer, item)
    else:
        yield data


for _maker_function in (torch.tensor, torch.as_tensor, torch.asarray, torch.scalar_tensor):
    _maker(_maker_function)
for _counting_function in (torch.linspace, torch.logspace):
    _counting(_counting_function)
for _class in (
    torch.Tensor, torch.FloatTensor, torch.DoubleTensor, torch.HalfTensor, torch.BFloat16Tensor, torch.ByteTensor,
    torch.CharTensor, torch.ShortTensor, torch.IntTensor, torch.LongTensor, torch.BoolTensor,
):  # fmt: skip
    _legacy(_class)
