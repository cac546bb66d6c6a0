"""Collectives between processes, and properties of process groups.

    all_gather_tensor(x, 0, group)      traced: all_gather_into_tensor(x, 2, "0"), wait_tensor
    torch.distributed.all_reduce(y)     the functional operator, and a copy into y
    group.size(), get_rank(group)       constants, with a guard on the group

The graph breaks, so that eager mode's own call runs, for an asynchronous call (``async_op``), a tensor that needs a
gradient (in eager mode, an in-place write has none), and arguments for which eager mode raises or converts.

In torch: CollectiveFunctionRewriteVariable in torch/_dynamo/variables/functions.py,
torch/_dynamo/variables/distributed.py. Read next: torch_functions.py
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch

from nbcompile import torch_internals
from nbcompile.capture.guard import GuardKind
from nbcompile.tracing import breaks
from nbcompile.tracing.calls.folding import fold_of_process
from nbcompile.tracing.calls.registry import handles, handles_named
from nbcompile.tracing.polyfills import collectives as polyfills
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, VariableTracker, realise
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.known_values import whole
from nbcompile.tracing.variables.sequences import SequenceVariable
from nbcompile.tracing.variables.tensor import TensorVariable

MODULE = "torch.distributed.distributed_c10d"
REDUCTIONS = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")
Bound = dict[str, VariableTracker]


def _unsupported(name: str, why: str) -> breaks.Unsupported:
    context = f"module: {MODULE}, qualname: {name}, skip reason: {why}"
    return breaks.unsupported(breaks.SKIPPED_FUNCTION, context, name=name, file=torch.distributed.__file__)


# -- groups ------------------------------------------------------------------------------


def _group_of(value: VariableTracker) -> Any:
    """The process group of a tracker; None: it is no group."""
    found = getattr(value, "value", None)
    return found if isinstance(found, torch.distributed.ProcessGroup) else None


def _of_group(property_name: str, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    """A property of a process group, which never changes; a guard compares the group."""
    values = [realise(tracer, each) for each in (*arguments, *keywords.values())]
    group = _group_of(values[0]) if len(values) == 1 else None
    if group is None:
        raise _unsupported(property_name, "the argument is no process group")
    if values[0].source is not None:
        tracer.guard(values[0].source, GuardKind.ID_MATCH, group)
    group_arguments = [group.group_name, property_name]
    answer = torch_internals.group_property(*group_arguments)
    if property_name not in ("group_name", "group_desc"):  # no other process may take them for its own
        tracer.assume_constant_result(torch_internals.group_property, group_arguments, {}, answer)
    return tracer.constant_or_wrap(answer)


def _register_property(property_name: str, name: str) -> None:
    function: Any = getattr(torch.distributed.distributed_c10d, name)

    @handles_named(MODULE, name)
    def _handler(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
        """A property of a group, of the default group, or of a named one."""
        values = [realise(tracer, each) for each in (*arguments, *keywords.values())]
        if len(values) == 1 and _group_of(values[0]) is not None:
            return _of_group(property_name, tracer, values, {})
        return fold_of_process(function, tracer, arguments, keywords)


def _group_of_ranks(tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    """An existing group; the creation of one is a collective itself."""
    known: list[Any] = [each[0] for value in arguments if (each := whole(tracer, value)) is not None]
    is_known = len(known) == 3 and not keywords
    found = torch_internals.registered_group(*known) if is_known else None
    if found is None:
        raise _unsupported("_find_or_create_pg_by_ranks_and_tag", "a new group would be created")
    tracer.depend_on_process("a process group of ranks")
    return tracer.wrap(found, None)


# -- collectives that write their arguments ------------------------------------------------


def _bound(function: Callable[..., object], tracer: Tracer, arguments: Arguments, keywords: Keywords) -> Bound:
    """Arguments by name, if the call is one that can be traced."""
    name = function.__name__
    if not torch.distributed.is_initialized():
        raise _unsupported(name, "there is no process group")
    try:
        bound = inspect.signature(function).bind(*arguments, **keywords).arguments
    except TypeError as error:
        raise _unsupported(name, str(error)) from error
    given = {key: realise(tracer, value) for key, value in bound.items()}
    group = given.setdefault("group", ConstantVariable(None))
    # In a process that is no member of a group, torch represents it by the number GroupMember.NON_GROUP_MEMBER,
    # and eager mode's call returns immediately with a warning, which cannot be in a graph.
    if not (group.is_constant() and group.constant() is None) and _group_of(group) is None:
        raise _unsupported(name, "the process is no member of the group")
    asynchronous = given.get("async_op", ConstantVariable(False))
    if not asynchronous.is_constant() or asynchronous.constant():
        raise _unsupported(name, "async_op=True returns before it has finished")
    return given


def _tensors(name: str, values: Sequence[VariableTracker]) -> None:
    """Break the graph for tensors for which eager mode raises, converts, or differentiates in another way."""
    examples = [value.example for value in values if isinstance(value, TensorVariable)]
    if len(examples) != len(values):
        raise _unsupported(name, "an argument is no tensor")
    if torch._C.is_grad_enabled() and any(each.requires_grad for each in examples):
        raise _unsupported(name, "no gradient flows through its in-place write")
    if any(each.is_sparse or each.is_complex() or not each.is_contiguous() for each in examples):
        raise _unsupported(name, "a tensor is sparse, complex or not contiguous")
    if len({(each.dtype, each.device) for each in examples}) > 1:
        raise _unsupported(name, "tensors have different types or devices")


def _reduction(name: str, given: Bound, tracer: Tracer) -> ConstantVariable:
    """The name of the reduction; a sum if none is given."""
    if "op" not in given:
        return ConstantVariable("sum")
    kinds: Any = torch.distributed.ReduceOp
    variable = given["op"]
    value = variable.constant() if variable.is_constant() else getattr(variable, "value", None)
    found = next((each for each in REDUCTIONS if getattr(kinds, each) == value), None)
    if found is None:
        raise _unsupported(name, f"the reduction is {value}")
    if variable.source is not None:
        tracer.guard(variable.source, GuardKind.EQUALS_MATCH, value)
    return ConstantVariable(found.lower())


def _write(tracer: Tracer, polyfill: Callable[..., object], *given: VariableTracker) -> VariableTracker:
    tracer.call(tracer.wrap(polyfill, None), list(given))
    return ConstantVariable(None)  # the result of eager mode for a call that is not asynchronous


def _size(given: Bound) -> int:
    return torch.distributed.get_world_size(_group_of(given["group"]))


def _expect_sizes(name: str, holds: bool) -> None:
    if not holds:  # an error in eager mode; with NCCL a dimension more for the ranks is none
        raise _unsupported(name, "sizes do not fit")


#      all_gather_into      output [size * n, ...]   the inputs [n, ...] of all ranks, one after the other
#      reduce_scatter       output [n, ...]          this rank's part of the sum of the inputs [size * n, ...]
#      all_to_all           part k of the input goes to rank k; without split sizes, all parts are equally long
def _is_joined(whole_tensor: VariableTracker, part: VariableTracker, size: int) -> bool:
    """True if a tensor is as large as the parts of all ranks, one after the other."""
    assert isinstance(whole_tensor, TensorVariable)
    assert isinstance(part, TensorVariable)
    rows, *others = part.example.shape or (0,)  # a number is rejected, too: there is no first dimension
    return tuple(whole_tensor.example.shape) == (rows * size, *others)


def _all_reduce(function: Any, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    given = _bound(function, tracer, arguments, keywords)
    _tensors(function.__name__, [given["tensor"]])
    op = _reduction(function.__name__, given, tracer)
    return _write(tracer, polyfills.all_reduce, given["tensor"], op, given["group"])


def _all_gather_into(function: Any, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    given = _bound(function, tracer, arguments, keywords)
    output, sent, size = given["output_tensor"], given["input_tensor"], _size(given)
    _tensors(function.__name__, [output, sent])
    _expect_sizes(function.__name__, _is_joined(output, sent, size))
    return _write(tracer, polyfills.all_gather_into, output, sent, ConstantVariable(size), given["group"])


def _all_gather(function: Any, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    given = _bound(function, tracer, arguments, keywords)
    outputs, sent, size = given["tensor_list"], given["tensor"], _size(given)
    if not isinstance(outputs, SequenceVariable):
        raise _unsupported(function.__name__, "the results are no list")
    items = [realise(tracer, item) for item in outputs.items]
    _tensors(function.__name__, [*items, sent])
    assert isinstance(sent, TensorVariable)
    shapes = [
        item.example.dim() > 0 and item.example.shape == sent.example.shape
        for item in items
        if isinstance(item, TensorVariable)
    ]
    _expect_sizes(function.__name__, all(shapes) and len(shapes) == size)
    return _write(tracer, polyfills.all_gather, outputs, sent, ConstantVariable(size), given["group"])


def _reduce_scatter_into(function: Any, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    given = _bound(function, tracer, arguments, keywords)
    output, sent, size = given["output"], given["input"], _size(given)
    _tensors(function.__name__, [output, sent])
    _expect_sizes(function.__name__, _is_joined(sent, output, size))
    op = _reduction(function.__name__, given, tracer)
    return _write(tracer, polyfills.reduce_scatter_into, output, sent, op, ConstantVariable(size), given["group"])


def _all_to_all_single(function: Any, tracer: Tracer, arguments: Arguments, keywords: Keywords) -> VariableTracker:
    given = _bound(function, tracer, arguments, keywords)
    output, sent, size = given["output"], given["input"], _size(given)
    _tensors(function.__name__, [output, sent])
    assert isinstance(output, TensorVariable)
    assert isinstance(sent, TensorVariable)
    splits = [given.get(f"{side}_split_sizes", ConstantVariable(None)) for side in ("output", "input")]
    for example, split in zip((output.example, sent.example), splits, strict=True):
        known = whole(tracer, split)
        sizes = known[0] if known else None
        rows = sum(sizes) if isinstance(sizes, list | tuple) and sizes else example.shape[0] // size
        parts = 1 if isinstance(sizes, list | tuple) and sizes else size
        _expect_sizes(function.__name__, known is not None and bool(rows * parts == example.shape[0]))
    return _write(tracer, polyfills.all_to_all_single, output, sent, *splits, ConstantVariable(size), given["group"])


MEANINGS: dict[str, Callable[..., VariableTracker]] = {
    "all_reduce": _all_reduce,
    "all_gather_into_tensor": _all_gather_into,
    "all_gather_single": _all_gather_into,
    "_all_gather_base": _all_gather_into,
    "all_gather": _all_gather,
    "reduce_scatter_tensor": _reduce_scatter_into,
    "reduce_scatter_single": _reduce_scatter_into,
    "_reduce_scatter_base": _reduce_scatter_into,
    "all_to_all_single": _all_to_all_single,
}
"""Handlers of functions of torch.distributed, by name; torch 2.13 has some of them under two names."""
GROUP_PROPERTIES = {
    "get_rank": "rank",
    "get_world_size": "size",
    "get_process_group_ranks": "ranks",
    "_get_group_size_by_name": "size",
    "_get_group_tag": "tag",
    "_resolve_group_name_by_ranks_and_tag": "group_name",
}

if torch.distributed.is_available():
    for _name, _meaning in MEANINGS.items():
        if (_function := getattr(torch.distributed.distributed_c10d, _name, None)) is not None:
            handles_named(MODULE, _name)(functools.partial(_meaning, _function))
    for _name, _property_name in GROUP_PROPERTIES.items():
        if hasattr(torch.distributed.distributed_c10d, _name):
            _register_property(_property_name, _name)
    handles_named(MODULE, "_find_or_create_pg_by_ranks_and_tag")(_group_of_ranks)
    for _property_name in ("group_name", "group_desc"):
        handles(getattr(torch.distributed.ProcessGroup, _property_name).fget)(
            functools.partial(_of_group, _property_name)
        )
    for _property_name in ("size", "rank"):
        handles(getattr(torch.distributed.ProcessGroup, _property_name))(functools.partial(_of_group, _property_name))
