"""Captured graphs without a bytecode tracer: the front end's output, from symbolic_trace.

As the front end does it, parameters and buffers become inputs, and examples are fake tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx

from nbcompile import backends, torch_internals
from nbcompile.capture.node_meta import STACK
from nbcompile.record import recorder
from nbcompile.record.model import StackLine


class Inlining(torch.fx.Tracer):
    """A tracer that inlines each module."""

    def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
        return False


@dataclass
class Captured:
    module: torch.fx.GraphModule
    inputs: list[Any]
    """Real values, one per placeholder: the arguments, then parameters and buffers."""


def capture(function: Callable[..., Any], arguments: Sequence[Any]) -> Captured:
    """The graph of a function or module over tensors; it returns a tuple."""
    graph = Inlining().trace(function)
    inputs = list(arguments)
    if isinstance(function, torch.nn.Module):
        inputs += lift_attributes(graph, function)
    (output,) = graph.find_nodes(op="output")
    if not isinstance(output.args[0], tuple):
        output.args = ((output.args[0],),)
    for position, node in enumerate(graph.nodes):
        if node.op.startswith("call"):
            node.meta[STACK] = (StackLine("user.py", position, "f", node.name),)
            node.meta["stack_trace"] = f'  File "user.py", line {position}, in f\n    {node.name}'
    return Captured(torch.fx.GraphModule({}, graph), inputs)


def lift_attributes(graph: torch.fx.Graph, owner: torch.nn.Module) -> list[torch.Tensor]:
    """Replace the parameters and buffers that a graph reads by placeholders."""
    lifted: dict[str, torch.fx.Node] = {}
    values = []
    last = graph.find_nodes(op="placeholder")[-1]
    for node in graph.find_nodes(op="get_attr"):
        if node.target not in lifted:
            value = owner
            for name in node.target.split("."):
                value = getattr(value, name)
            with graph.inserting_after(last):
                last = lifted[node.target] = graph.placeholder("l_" + node.target.replace(".", "_") + "_")
            values.append(value)
        node.replace_all_uses_with(lifted[node.target])
        graph.erase_node(node)
    return values


def fake_examples(inputs: Sequence[Any], dynamic: bool = False) -> list[Any]:
    """Fakes of real inputs in a new FakeTensorMode; sizes are symbols if ``dynamic``."""
    shapes = torch_internals.symbolic_shapes()
    mode = torch_internals.fake_tensor().FakeTensorMode(shape_env=shapes.ShapeEnv())
    return [
        mode.from_tensor(each, static_shapes=not dynamic) if isinstance(each, torch.Tensor) else each for each in inputs
    ]


def compiled(captured: Captured, backend: Any, dynamic: bool = False) -> Callable[..., Any]:
    return backends.lookup(backend)(captured.module, fake_examples(captured.inputs, dynamic))


def copies(inputs: Sequence[Any]) -> list[Any]:
    """Independent leaves with the same content; inputs that alias still do."""
    twins: dict[int, torch.Tensor] = {}
    bases: dict[int, torch.Tensor] = {}
    result = []
    for each in inputs:
        if not isinstance(each, torch.Tensor):
            result.append(each)
            continue
        if id(each) not in twins:
            storage = each.untyped_storage()
            base = bases.setdefault(storage._cdata, torch.tensor(storage.clone(), dtype=torch.uint8))
            twin = torch.empty(0, dtype=each.dtype).set_(
                base.untyped_storage(), each.storage_offset(), each.size(), each.stride()
            )
            twins[id(each)] = twin.requires_grad_(each.requires_grad)
        result.append(twins[id(each)])
    return result


def check(function: Callable[..., Any], arguments: Sequence[Any], backend: Any, dynamic: bool = False) -> None:
    """Compile, and compare results, mutations, aliases and gradients with eager mode's."""
    captured = capture(function, arguments)
    run = compiled(Captured(captured.module, copies(captured.inputs)), backend, dynamic)
    for seed in (0, 1):  # twice: the first call may differ from the others
        expected_inputs, inputs = copies(captured.inputs), copies(captured.inputs)
        torch.manual_seed(seed)
        expected = captured.module.forward(*expected_inputs)
        torch.manual_seed(seed)
        results = run(*inputs)
        compare(expected, results, expected_inputs, inputs)
    wanted = [each for each in expected if isinstance(each, torch.Tensor) and each.requires_grad]
    got = [each for each in results if isinstance(each, torch.Tensor) and each.requires_grad]
    assert len(wanted) == len(got)
    if wanted:
        sum((each * torch.linspace(1, 2, each.numel()).view(each.shape)).sum() for each in wanted).backward()
        sum((each * torch.linspace(1, 2, each.numel()).view(each.shape)).sum() for each in got).backward()
    for ours, eager in zip(inputs, expected_inputs, strict=True):
        if isinstance(eager, torch.Tensor) and eager.is_leaf:
            assert (ours.grad is None) == (eager.grad is None)
            if eager.grad is not None:
                torch.testing.assert_close(ours.grad, eager.grad)


def compare(expected: Sequence[Any], results: Sequence[Any], expected_inputs: list[Any], inputs: list[Any]) -> None:
    assert len(expected) == len(results)
    for eager, ours in zip(expected, results, strict=True):
        assert type(eager) is type(ours)
        if isinstance(eager, torch.Tensor):
            torch.testing.assert_close(ours, eager, equal_nan=True, check_stride=True)
            assert ours.requires_grad == eager.requires_grad
        else:
            assert ours == eager
    torch.testing.assert_close([*map(plain, inputs)], [*map(plain, expected_inputs)])
    assert sharing([*inputs, *results]) == sharing([*expected_inputs, *expected])


def plain(value: Any) -> Any:
    return value.detach() if isinstance(value, torch.Tensor) else value


def sharing(values: Sequence[Any]) -> list[tuple[int, int]]:
    """For each value: the index of the first one that is the same object, and of the first that aliases it."""
    tensors = [each if isinstance(each, torch.Tensor) else None for each in values]
    objects = [next(i for i, other in enumerate(tensors) if other is each) for each in tensors]
    memory = [next(i for i, other in enumerate(tensors) if storage_of(other) == storage_of(each)) for each in tensors]
    return list(zip(objects, memory, strict=True))


def storage_of(value: torch.Tensor | None) -> int:
    return 0 if value is None else value.untyped_storage()._cdata


def recorded_graph(captured, backend):
    """The recorded graph of a compiled captured graph."""
    listener = recorder.Recorder("f")
    with listener.listening(), recorder.frame("0/0", "f"):
        compiled(captured, backend)
    return listener.record().frames[0].compiled_graph
