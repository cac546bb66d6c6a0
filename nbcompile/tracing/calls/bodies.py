"""Bodies of higher-order operators: trace a function into a body, and add the operator that runs it to the graph.

    body = trace_body(tracer, function, arguments)     placeholder ..., output (a, b)
    call(tracer, operator, [node of the body, ...])    node ; getitem 0 ; getitem 1

The containers and objects that the function returned are kept; only their tensors
(and symbolic numbers) now represent the results of the operator's node.

In torch: torch/_dynamo/variables/higher_order_ops.py (speculate_subgraph,
speculate_subgraph_with_auto_output_flattening). Read next: higher_order.py
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch.fx

from nbcompile.capture.node_meta import EXAMPLE
from nbcompile.tracing import breaks
from nbcompile.tracing.graph.body import Body
from nbcompile.tracing.protocol import Change, Tracer
from nbcompile.tracing.variables.base import Arguments, Keywords, LazyVariable, VariableTracker, realise
from nbcompile.tracing.variables.cells import CellVariable
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.functions import BaseFunctionVariable
from nbcompile.tracing.variables.mappings import DictVariable
from nbcompile.tracing.variables.objects import ObjectVariable
from nbcompile.tracing.variables.sequences import SequenceVariable
from nbcompile.tracing.variables.symbolic import SymbolicVariable
from nbcompile.tracing.variables.tensor import TensorVariable

GRAPH_VALUES = (TensorVariable, SymbolicVariable)


@dataclass(frozen=True, slots=True)
class TracedBody:
    """A function that was traced into a body."""

    body: Body
    result: VariableTracker
    outputs: tuple[VariableTracker, ...]
    """Outputs of the body's graph, in order: tensors and symbolic numbers (or, flattened, constants too)."""


def trace_body(
    tracer: Tracer,
    function: VariableTracker,
    arguments: Arguments,
    keywords: Keywords | None = None,
    *,
    body: Body | None = None,
    flat: bool = False,
) -> TracedBody:
    """Trace a call as a graph of its own.

    Args:
        tracer: the interpreter.
        function: the function.
        arguments: trackers of the enclosing graphs (or of inputs of ``body``, created by :func:`inputs`).
        keywords: the same, by name.
        body: the body to trace into; None: a new one.
        flat: the result is a pytree of tensors and numbers, all of which the graph returns.
    """
    output = tracer.output
    for value in (function, *arguments):
        realise(tracer, value)
    if flat and isinstance(function, BaseFunctionVariable):  # the values of its closure come first, as in torch
        for cell in function.closure_cells(tracer):
            if cell.content is not None:
                realise(tracer, cell.content)
    body = body or output.new_body()
    # From here on nodes go to the body. Values of the enclosing graphs that it uses are lifted: they become inputs of
    # the body, in order of first use, and further arguments of the operator.
    with output.inside(body):
        before = len(tracer.side_effects.order)
        result = realise(tracer, tracer.call(function, arguments, keywords))
        outputs = list(leaves(tracer, result)) if flat else list(graph_values(tracer, result))
        if body.may_change:
            outputs += _changed(tracer, body, before, outputs)
        returned: Any = tuple(each.proxy() for each in outputs)
        body.graph.output(torch.fx.map_arg(returned, body.lift))
    return TracedBody(body, result, tuple(outputs))


def _changed(tracer: Tracer, body: Body, before: int, known: Sequence[VariableTracker]) -> list[VariableTracker]:
    """Values that the body stored in objects outside of it, which must be outputs, too."""
    found: list[VariableTracker] = []
    for change in tracer.side_effects.order[before:]:
        if isinstance(change, Change) and body.is_outside(change.tracker):
            found += graph_values(tracer, change.tracker)
    # Only values of this body: a value from outside needs no output.
    mine = {id(each): each for each in found if each.node.graph is body.graph}  # type: ignore[attr-defined]
    return [each for key, each in mine.items() if key not in set(map(id, known))]


def inputs(body: Body, arguments: Arguments) -> list[VariableTracker]:
    """Create an input of the body for each argument, whether it is used or not."""
    trackers: list[VariableTracker] = []
    for argument in arguments:
        if isinstance(argument, TensorVariable):
            trackers.append(TensorVariable(body.placeholder(argument.node.name, argument.example), cls=argument.cls))
        elif isinstance(argument, SymbolicVariable):
            trackers.append(SymbolicVariable(body.placeholder(argument.node.name, argument.example)))
        else:
            # The operator passes its arguments by position, constants too: each needs an input.
            body.placeholder("const_unused", argument.constant())
            trackers.append(argument)
    return trackers


def call(
    tracer: Tracer, target: Any, arguments: Sequence[Any], traced: TracedBody, keywords: dict[str, Any] | None = None,
    example: object = None,
) -> VariableTracker:  # fmt: skip
    """Add the operator's node; the body's results represent the node's results from now on."""
    node = tracer.output.apply("call_function", target, arguments, keywords or {}, example)
    for index, output in enumerate(traced.outputs):
        item = tracer.output.apply("call_function", operator.getitem, (node, index), {})
        # The trackers of the body's results now represent values of the enclosing graph.
        if isinstance(output, GRAPH_VALUES) and output.node.graph is traced.body.graph:
            output.node = item
    return traced.result


def body_example(traced: TracedBody) -> object:
    """Outputs of the body's graph, as fake values."""
    (output,) = traced.body.graph.find_nodes(op="output")
    return torch.fx.map_arg(output.args[0], lambda node: node.meta[EXAMPLE])


# -- the tensors in a value ------------------------------------------------------------------


def graph_values(
    tracer: Tracer, tracker: VariableTracker | None, seen: set[int] | None = None, *, look: bool = False
) -> Iterator[Any]:
    """The tensors and symbolic numbers in a value, each once; ``look``: also in lazy trackers, which it realises."""
    seen = set() if seen is None else seen
    if isinstance(tracker, LazyVariable):
        tracker = realise(tracer, tracker) if look else tracker.realised
    if tracker is None or id(tracker) in seen:
        return
    seen.add(id(tracker))
    if isinstance(tracker, GRAPH_VALUES):
        yield tracker
    for part in _parts(tracer, tracker):
        yield from graph_values(tracer, part, seen, look=look)


def _parts(tracer: Tracer, tracker: VariableTracker) -> list[VariableTracker | None]:
    stored = list(tracer.side_effects.stored_attributes(tracker).values())
    match tracker:
        case SequenceVariable():
            return [*tracker.items, *stored]
        case DictVariable():
            return [*(value for _, value in tracker.entries.values()), *stored]
        case ObjectVariable():
            return [tracker.base_items, *stored]
        case CellVariable():
            return [tracker.content]
    return stored


def leaves(tracer: Tracer, tracker: VariableTracker) -> Iterator[VariableTracker]:
    """The leaves of a pytree of the built-in containers, in order."""
    match realise(tracer, tracker):
        case SequenceVariable() as sequence:
            for item in sequence.items:
                yield from leaves(tracer, item)
        case DictVariable() as mapping:
            for _, value in mapping.entries.values():
                yield from leaves(tracer, value)
        case ConstantVariable() | TensorVariable() | SymbolicVariable() as leaf:
            yield leaf
        case other:
            raise breaks.unsupported(
                breaks.BODY_MISUSE, other.describe(), name="a body", problem=f"it handles a {other.type_name()}"
            )


def structure(tracer: Tracer, tracker: VariableTracker) -> object:
    """The structure of a pytree, without its leaves, for comparisons."""
    match realise(tracer, tracker):
        case SequenceVariable() as sequence:
            return (sequence.cls, tuple(structure(tracer, item) for item in sequence.items))
        case DictVariable() as mapping:
            return (mapping.cls, tuple((key, structure(tracer, value[1])) for key, value in mapping.entries.items()))
    return "*"


def rebuilt(tracer: Tracer, tracker: VariableTracker, fresh: Iterator[VariableTracker]) -> VariableTracker:
    """The same pytree with other leaves."""
    match realise(tracer, tracker):
        case SequenceVariable() as sequence:
            return sequence.like([rebuilt(tracer, item, fresh) for item in sequence.items])
        case DictVariable() as mapping:
            pairs = [(key, rebuilt(tracer, value, fresh)) for key, value in mapping.entries.values()]
            return DictVariable(tracer, pairs, cls=mapping.cls)
    return next(fresh)
