"""Trace a graph and its derivative into one joint graph of ATen operators, in one pass.

    captured   relu(x @ w).sum()
    joint      primals_1, primals_2 -> mm, relu, sum | tangents_1 -> expand, le, where, t, mm -> the gradients

The same tracer as for inference (inference_tracer.py), with autograd above it: the operators of the derivative pass
through it as those of the forward pass do. Which captured node an operator of the derivative belongs to is known from
autograd's own graph: each of its nodes was created while one captured node ran.

In torch: torch/_functorch/_aot_autograd/graph_capture.py, torch/fx/traceback.py. Read next: nbcompile/aot/partition.py
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.fx

from nbcompile import torch_internals
from nbcompile.aot import exposed_memory
from nbcompile.aot.decompositions import Table
from nbcompile.aot.traced_graphs import JointGraph, requires_grad
from nbcompile.capture.node_meta import ORIGIN
from nbcompile.fast import inference_eligibility, inference_tracer
from nbcompile.fast.inference_tracer import AtenTracer, NeedsAotAutograd, Replay


def trace(module: torch.fx.GraphModule, example_inputs: Sequence[Any], table: Table) -> JointGraph | None:
    """The joint graph; None if it needs AOTAutograd, or if no output requires grad."""
    if not _may_be_traced(module, example_inputs):
        return None
    fake_mode = inference_eligibility.fake_mode_of(example_inputs)
    with fake_mode:
        primals = [_leaf(each, fake_mode) for each in example_inputs]
    transforms = torch_internals.transform_state()
    try:
        tracer = AtenTracer(table, primals, "primals_{}")
        symbolic = any(isinstance(each, torch.SymInt) for each in primals)
        rules = torch_internals.rules_in_python(symbolic)
        with torch_internals.kept_dispatch_keys(), fake_mode, torch.enable_grad(), rules:
            return _trace(module, primals, tracer)
    except (NeedsAotAutograd, RuntimeError):  # AOTAutograd raises the second again, with its own words
        torch_internals.restore_transforms(transforms)  # the graph enters and leaves them by its nodes
        torch_internals.drop_new_symbols(fake_mode.shape_env)
        return None


def _leaf(example: Any, fake_mode: Any) -> Any:
    if not isinstance(example, torch.Tensor):
        return example
    # A leaf of its own: the derivative ends at the input of the graph, whatever the input was computed from.
    return inference_tracer.fake(example, fake_mode).detach().requires_grad_(example.requires_grad)


def _trace(module: torch.fx.GraphModule, primals: Sequence[Any], tracer: AtenTracer) -> JointGraph | None:
    inputs = zip(tracer.graph.find_nodes(op="placeholder"), module.graph.find_nodes(op="placeholder"), strict=True)
    # Provenance: a placeholder comes from the captured placeholder of the same position.
    for node, captured in inputs:
        node.meta[ORIGIN] = (captured.name,)
    provenance = AutogradProvenance()
    with tracer:
        outputs = provenance.replay(module, tracer).run(*primals)
    returned = tracer.returned(outputs)
    differentiable_outputs = [each for each in outputs if requires_grad(each)]
    differentiable_inputs = [at for at, each in enumerate(primals) if requires_grad(each)]
    if not differentiable_outputs:
        return None
    # One tracer sees both halves: under its dispatch mode, autograd runs the operators of the derivatives at once,
    # and they are recorded after those of the forward pass. The partitioner divides the graph again.
    tangents = [torch.empty_like(each, requires_grad=False) for each in differentiable_outputs]
    # The gradients of the outputs are inputs of the backward half.
    for number, tangent in enumerate(tangents, start=1):
        tracer.define(tangent, f"tangents_{number}")
    forward = frozenset(tracer.graph.nodes)
    # From here on the origin is set by hooks on autograd's nodes.
    tracer.captured_node = None
    with tracer, provenance.attribute(differentiable_outputs, tracer):
        found = torch.autograd.grad(
            differentiable_outputs, [primals[at] for at in differentiable_inputs], tangents, allow_unused=True
        )
    gradients = dict(zip(differentiable_inputs, found, strict=True))
    gradient_of_input = map(gradients.get, range(len(primals)))
    nodes = [tracer.node_of(each) if each is not None else None for each in gradient_of_input]
    graph = tracer.module((*returned, *nodes))
    exposed_memory.mark_saved(graph.graph, len(outputs), forward)
    with_gradient = [at for at, each in gradients.items() if each is not None]
    return JointGraph(graph, outputs, with_gradient, _reached(differentiable_outputs, primals))


def _reached(outputs: Sequence[torch.Tensor], primals: Sequence[Any]) -> list[int]:
    """Inputs that are leaves of autograd's graph of the outputs."""
    leaves = {
        id(variable) for node in _autograd_graph(outputs) if (variable := getattr(node, "variable", None)) is not None
    }
    return [at for at, each in enumerate(primals) if id(each) in leaves]


def _may_be_traced(module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> bool:
    return (
        torch._C.is_grad_enabled()
        and any(requires_grad(each) for each in example_inputs)
        and inference_eligibility.is_eligible(module, example_inputs)
        and not torch_internals.in_transform()
        and not torch_internals.saved_tensors_are_hooked()
    )


class AutogradProvenance:
    """Map from nodes of autograd's graph to captured nodes: autograd numbers its nodes in the order of creation."""

    def __init__(self) -> None:
        self.captured: dict[int, torch.fx.Node] = {}
        self.seen = torch_internals.next_autograd_number()

    def replay(self, module: torch.fx.GraphModule, tracer: AtenTracer) -> Replay:
        """An interpreter of the captured graph that notes the numbers of autograd's nodes."""
        provenance = self

        class NumberingReplay(Replay):
            def run_node(self, n: torch.fx.Node) -> Any:
                result = super().run_node(n)
                # Autograd numbers its nodes: those between two readings were created by this captured node.
                now = torch_internals.next_autograd_number()
                provenance.captured.update(dict.fromkeys(range(provenance.seen, now), n))
                provenance.seen = now
                return result

        return NumberingReplay(module, tracer)

    @contextmanager
    def attribute(self, outputs: Sequence[torch.Tensor], tracer: AtenTracer) -> Iterator[None]:
        """Inside, operators of the derivative are attributed to captured nodes."""

        def set_node(node: torch.fx.Node | None) -> Any:
            def before(_gradients: Any) -> None:
                tracer.captured_node = node

            return before

        hooks = [
            # A prehook runs before the derivative of its node, so operators after it belong to that node.
            autograd_node.register_prehook(set_node(self.captured.get(autograd_node._sequence_nr())))
            for autograd_node in _autograd_graph(outputs)
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()


def _autograd_graph(outputs: Sequence[torch.Tensor]) -> Iterator[Any]:
    todo = [each.grad_fn for each in outputs]
    seen = set()
    while todo:
        node = todo.pop()
        if node is not None and node not in seen:
            seen.add(node)
            yield node
            todo.extend(each for each, _ in node.next_functions)
