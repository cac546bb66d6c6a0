"""Nodes of the graph and the trackers of their results.

    torch.sin(x)    create_node    n = graph.call_function(torch.sin, (x,))    TensorVariable(n)
    x.dim()         the same       no node: the number is known, and guarded through x

In torch: torch/_dynamo/variables/builder.py (wrap_fx_proxy). Read next: nbcompile/tracing/graph/output_graph.py
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Sequence
from typing import Any

import torch
import torch.fx

from nbcompile import torch_internals
from nbcompile.capture import arrays
from nbcompile.capture.node_meta import EXAMPLE
from nbcompile.errors import TorchRuntimeError
from nbcompile.torch_internals import operators as torch_operators
from nbcompile.tracing import breaks, rules
from nbcompile.tracing.calls import overrides
from nbcompile.tracing.protocol import Tracer
from nbcompile.tracing.variables.base import Keywords, VariableTracker, realise
from nbcompile.tracing.variables.constant import ConstantVariable, is_constant_value
from nbcompile.tracing.variables.context_variables import expect_no_reader
from nbcompile.tracing.variables.mappings import DictVariable
from nbcompile.tracing.variables.ndarray import has_array
from nbcompile.tracing.variables.sequences import ListVariable, SequenceVariable, TupleVariable
from nbcompile.tracing.variables.symbolic import SymbolicVariable
from nbcompile.tracing.variables.tensor import TensorVariable
from nbcompile.tracing.variables.wrappers import WrapperVariable

TAKE_ARRAYS = (arrays.ArrayFunction, arrays.ArrayMethod)
"""Classes of operators that compute with arrays of NumPy."""
MAKE_TENSORS = (torch.as_tensor, torch.tensor, torch.asarray)
"""Functions of torch that take arrays."""
CONSTANT_RESULTS = frozenset((getattr, operator.eq, operator.ne, torch.broadcast_shapes))
"""Nodes that stay in the graph, as in torch, although their result is known: ``x.is_leaf``, ``x == None``."""


def create_node(
    tracer: Tracer, op: str, target: Any, arguments: Sequence[VariableTracker], keywords: Keywords
) -> VariableTracker:
    """Add a node for a call of an operator, and return the tracker of its result."""
    # The steps: call overrides, reject arrays, realise the arguments, run the operator on fake tensors, wrap its
    # result. If a ``__torch_function__`` of an argument or mode replaces the operator, no node is created.
    answer = overrides.override_of_node(tracer, op, target, arguments, keywords)
    if answer is not None:
        return answer
    expect_no_reader(tracer, target)
    _check_no_arrays(tracer, target, (*arguments, *keywords.values()))
    plain = [_deep(tracer, each).proxy() for each in arguments]
    named = {name: _deep(tracer, each).proxy() for name, each in keywords.items()}
    warned = len(tracer.output.warnings)
    try:
        node = tracer.output.apply(op, target, plain, named)
    except IndexError as error:  # an index or a dimension out of range
        tracer.raise_exception(IndexError, *error.args)  # the program may catch it, as in eager mode
    except ZeroDivisionError as error:  # symbolic numbers: a guard requires the divisor to be zero
        realise(tracer, arguments[-1]).truth(tracer)
        tracer.raise_exception(ZeroDivisionError, *_words_of_division(target, arguments, error))
    except TorchRuntimeError as error:  # the program may catch the operator's own error, which has another text
        if tracer.may_catch():
            name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
            inner = error.inner_exception
            raise breaks.unsupported(breaks.FAKE_NOT_IMPLEMENTED, str(inner), name=name, error=inner) from None
        raise
    # The operator ran under the real filters of the module ``warnings``. Filters of the traced code are not
    # installed yet, so it is unknown whether this warning is shown, ignored or raised.
    if len(tracer.output.warnings) > warned and tracer.side_effects.stored_globals(vars(warnings)):
        name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
        what = f"{name}, which warns, under filters that the traced code set"
        raise breaks.unsupported(breaks.UNSUPPORTED_CALL, what, name=what)
    tracer.output.is_caught = tracer.output.is_caught or tracer.may_catch()
    computed = result(tracer, node)
    # ``torch.add(x, y, out=z)`` returns z itself: the result has z's tracker, so that ``is`` and later changes of z
    # concern one tensor.
    out = keywords.get("out")
    return realise(tracer, out) if out is not None and isinstance(realise(tracer, out), TensorVariable) else computed


def _check_no_arrays(tracer: Tracer, target: Any, arguments: Sequence[VariableTracker]) -> None:
    # An array of NumPy is a tensor of the graph that only its own operators may take: torch rejects a real array, too.
    if not isinstance(target, TAKE_ARRAYS) and target not in MAKE_TENSORS and has_array(arguments):
        name = getattr(target, "__name__", str(target))
        if getattr(target, "__module__", "") != "_operator" and target is not arrays.array_attribute:
            raise breaks.unsupported(breaks.NDARRAY_IN_TORCH, name, name=name)


def _deep(tracer: Tracer, tracker: VariableTracker) -> VariableTracker:
    tracker = realise(tracer, tracker)
    # A node refers to the elements of a list argument, not to the list. Lazy elements are realised (and guarded)
    # first.
    match tracker:
        case SequenceVariable():
            for item in tracker.unpack(tracer):
                _deep(tracer, item)
        case DictVariable():
            for value in tracker.values(tracer):
                _deep(tracer, value)
    return tracker


def result(tracer: Tracer, node: torch.fx.Node) -> VariableTracker:
    """The tracker of a node's result; a constant needs no node."""
    example = node.meta[EXAMPLE]
    match example:
        case torch.Tensor():
            if example.is_sparse or example.layout in rules.SPARSE_COMPRESSED:
                tracer.output.erase(node)
                raise breaks.unsupported(breaks.SPARSE_RESULT, str(node.target), name=node.target)
            if torch_internals.is_wrapper(example):
                return WrapperVariable(node, cls=type(example))
            is_parameter = isinstance(example, torch.nn.Parameter)
            return TensorVariable(node, cls=torch.nn.Parameter if is_parameter else torch.Tensor)
        case torch.SymInt() | torch.SymFloat() | torch.SymBool():
            return _symbolic(tracer, node, example)
        case None:
            return ConstantVariable(None)
        case tuple() | list():
            return _items(tracer, node, example)
    # A plain value (``x.dim()``) is known while tracing and guarded through its inputs: no user would need the
    # node.
    if node.target not in CONSTANT_RESULTS and node.target not in torch_operators.transform_steps():
        tracer.output.erase(node)
    return tracer.constant_or_wrap(example)


def _symbolic(
    tracer: Tracer, node: torch.fx.Node, example: torch.SymInt | torch.SymFloat | torch.SymBool
) -> VariableTracker:
    expr = example.node.expr
    # SymPy removed all symbols, as in ``s0 - s0``: the number is the same in each run.
    if not expr.free_symbols:
        kind: Any = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}[type(example)]
        tracer.output.erase(node)
        # SymPy gives infinity for some powers; the real value is finite.
        return ConstantVariable(kind(example.node.hint if example.node.has_hint() else example))
    # Python's ints are unbounded, those of a graph are int64. An int that may overflow becomes a constant.
    if isinstance(example, torch.SymInt) and not tracer.output.inputs.keep_in_range(example):
        tracer.output.erase(node)
        return ConstantVariable(example.node.hint)
    return SymbolicVariable(node)


def _items(tracer: Tracer, node: torch.fx.Node, example: Sequence[object]) -> VariableTracker:
    if all(is_constant_value(each) for each in example):
        if node.target not in CONSTANT_RESULTS:
            tracer.output.erase(node)
        return tracer.constant_or_wrap(example)
    items: list[VariableTracker] = []
    for index, item in enumerate(example):
        # Uses of this item then depend on no node: only the items that vary are read from the result.
        if is_constant_value(item):
            items.append(ConstantVariable(item))
        else:
            items.append(result(tracer, tracer.output.apply("call_function", operator.getitem, (node, index), {})))
    return ListVariable(items) if isinstance(example, list) else TupleVariable(items, cls=type(example))


def sizes(tracer: Tracer, tensor: VariableTracker, property: str) -> VariableTracker:
    """Return the sizes (``size``) or strides (``stride``) of a tensor, as a torch.Size or tuple."""
    assert isinstance(tensor, TensorVariable)
    values = tensor.example.shape if property == "size" else tensor.example.stride()
    cls = torch.Size if property == "size" else tuple
    # Static sizes are constants without a node; only a dynamic size is read from the call's result.
    if all(isinstance(each, int) for each in values):
        return TupleVariable([ConstantVariable(each) for each in values], cls=cls)
    node = tracer.output.apply("call_method", property, (tensor.node,), {})
    items = [
        ConstantVariable(value)
        if isinstance(value, int)
        else result(tracer, tracer.output.apply("call_function", operator.getitem, (node, index), {}))
        for index, value in enumerate(values)
    ]
    return TupleVariable(items, cls=cls)


def _words_of_division(
    target: Any, arguments: Sequence[VariableTracker], error: ZeroDivisionError
) -> tuple[object, ...]:
    """Arguments of Python's ZeroDivisionError for numbers of these classes: symbols raise another text."""
    kinds = [each.python_type() for each in arguments]
    if len(kinds) == 2 and all(each in (bool, int, float) for each in kinds):
        try:  # the numbers 1 and 0 of the same Python classes give the interpreter's own text
            target(kinds[0](1), kinds[1](0))
        except ZeroDivisionError as own:
            return own.args
    return error.args
