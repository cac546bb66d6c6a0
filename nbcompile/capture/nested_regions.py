"""Calls of a graph inside of a graph: ``torch.compiler.nested_compile_region``.

    before    get_attr subgraph_0 ; invoke_subgraph(subgraph_0, "subgraph_0", x) ; getitem 0
    after     the operators of subgraph_0

Equal regions share one graph. A region with a single call is inlined, since nothing is shared; our own backends
compile all of them inlined.

In torch: torch/_higher_order_ops/passes/inline_invoke_subgraph.py, are_same_graph_modules in
torch/_dynamo/variables/higher_order_ops.py. Read next: nbcompile/tracing/calls/regions.py
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable

import torch
import torch.fx

from nbcompile.capture.node_meta import EXAMPLE

INVOKE = torch.ops.higher_order.invoke_subgraph

# -- inlining ----------------------------------------------------------------------------------------------------------


def inline_single_calls(module: torch.fx.GraphModule) -> None:
    """Inline, in the module itself, each region that has one call in all graphs of the module."""
    # A region that is called once gains nothing from being a graph of its own, and inside the main graph
    # it can be fused.
    calls = Counter(
        str(node.args[1])
        for graph in _graph_modules(module)
        for node in graph.graph.find_nodes(op="call_function", target=INVOKE)
    )
    if calls:
        _inline(module, lambda name: calls[name] == 1)


def with_inlined_regions(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The module itself, or a copy without calls of regions."""
    if not any(
        graph.graph.find_nodes(op="call_function", target=INVOKE, sort=False) for graph in _graph_modules(module)
    ):
        return module
    # A copy, as the caller's module keeps its calls.
    copied = _copy(module)
    _inline(copied, lambda name: True)
    return copied


def _graph_modules(module: torch.fx.GraphModule) -> list[torch.fx.GraphModule]:
    return [child for child in module.modules() if isinstance(child, torch.fx.GraphModule)]


def _copy(module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    graph = torch.fx.Graph()
    output = graph.graph_copy(module.graph, {})
    graph.output(output)
    copied = torch.fx.GraphModule(module, graph)
    for name, child in module.named_children():
        setattr(copied, name, _copy(child) if isinstance(child, torch.fx.GraphModule) else child)
    copied.meta.update(module.meta)
    return copied


def _inline(module: torch.fx.GraphModule, is_selected: Callable[[str], bool]) -> None:
    # The innermost regions first: they become part of those that contain them.
    for child in list(module.children()):
        if isinstance(child, torch.fx.GraphModule):
            _inline(child, is_selected)
    calls = [
        node for node in module.graph.find_nodes(op="call_function", target=INVOKE) if is_selected(str(node.args[1]))
    ]
    for node in calls:
        _inline_call(module, node)
    if calls:
        module.recompile()


def _inline_call(module: torch.fx.GraphModule, call: torch.fx.Node) -> None:
    attribute, _, *operands = call.args
    assert isinstance(attribute, torch.fx.Node)
    region = getattr(module, str(attribute.target))
    for name, child in region.named_children():  # names of regions and bodies are unique in the whole graph
        setattr(module, name, child)
    # The region's inputs are replaced by the call's arguments, its nodes are copied before the call, and each
    # ``getitem`` of the call by the copy of that result.
    copies = dict(zip(region.graph.find_nodes(op="placeholder"), operands, strict=True))
    examples = _examples_of_call(region.graph, call)
    with module.graph.inserting_before(call):
        for node in region.graph.nodes:
            if node.op not in ("placeholder", "output"):
                copies[node] = copied = module.graph.node_copy(node, copies.__getitem__)
                if EXAMPLE in copied.meta:
                    copied.meta[EXAMPLE] = examples.get(id(copied.meta[EXAMPLE]), copied.meta[EXAMPLE])
    results = region.graph.output_node().args[0]
    for user in list(call.users):
        assert user.target is operator.getitem
        result = results[user.args[1]]
        user.replace_all_uses_with(copies[result] if isinstance(result, torch.fx.Node) else result)
        module.graph.erase_node(user)
    module.graph.erase_node(call)
    if not attribute.users:
        module.graph.erase_node(attribute)
    if not any(node.target == attribute.target for node in module.graph.find_nodes(op="get_attr")):
        delattr(module, str(attribute.target))


def _examples_of_call(region: torch.fx.Graph, call: torch.fx.Node) -> dict[int, object]:
    """Counterparts of the fake tensors of the region's inputs and results in one of its calls, by their ``id``.

    Two calls of a region have one graph, whose fake tensors are those of the first call. With one fake tensor, the
    results of both calls would count as one tensor.
    """
    results = region.output_node().args[0]
    assert isinstance(results, tuple | list)
    counterparts: list[tuple[object, object]] = [(results[user.args[1]], user) for user in call.users]  # type: ignore[index]
    counterparts += zip(region.find_nodes(op="placeholder"), call.args[2:], strict=True)  # a result may be an input
    return {
        id(inner.meta[EXAMPLE]): outer.meta[EXAMPLE]
        for inner, outer in counterparts
        if isinstance(inner, torch.fx.Node) and isinstance(outer, torch.fx.Node)
        if EXAMPLE in inner.meta and EXAMPLE in outer.meta
    }


# -- equality ----------------------------------------------------------------------------------------------------------


def are_equal(one: torch.fx.Graph, other: torch.fx.Graph) -> bool:
    """True if two graphs apply the same operators to inputs of the same kind."""
    if len(one.nodes) != len(other.nodes):
        return False
    # In one pass: both graphs are in topological order, so the arguments of a node are matched before the node.
    counterparts: dict[torch.fx.Node, torch.fx.Node] = {}
    for left, right in zip(one.nodes, other.nodes, strict=True):
        if left.op != right.op:
            return False
        if left.op == "placeholder":
            if _kind(left.meta[EXAMPLE]) != _kind(right.meta[EXAMPLE]):
                return False
        elif left.target != right.target or not _same_arguments(left, right, counterparts):
            return False
        counterparts[left] = right
    return True


def _same_arguments(
    left: torch.fx.Node, right: torch.fx.Node, counterparts: dict[torch.fx.Node, torch.fx.Node]
) -> bool:
    expected = torch.fx.map_arg((left.args, left.kwargs), counterparts.__getitem__)
    given = (right.args, right.kwargs)
    return bool(expected == given) and repr(expected) == repr(given)  # 1 == 1.0 == True, 0.0 == -0.0


def _kind(example: object) -> object:
    """Everything about an input that its graph was traced for; two that are not known to be equal differ."""
    if not isinstance(example, torch.Tensor):
        return (type(example), str(example))
    if example.layout is not torch.strided:
        return object()
    return (
        type(example), example.dtype, example.device, str(tuple(example.shape)), str(example.stride()),
        str(example.storage_offset()), example.requires_grad, example.is_conj(), example.is_neg(),
        example.is_inference(),
    )  # fmt: skip
