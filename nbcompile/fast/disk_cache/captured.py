"""A captured graph as data: where it runs as it was captured, in every call or where inputs overlap.

    targets    [["builtin", "_operator", "iadd"], ...]                each function that is called, described
    nodes      [["placeholder", "x"], ["call_function", 0, [["node", 0], ["value", 1]], {}], ...]

The functions are looked up when the entry is read, and are those that the description says; the graph is built of
nodes again at its first run, which most entries never see.

In torch: torch/fx/_graph_pickler.py. Read next: nbcompile/fast/disk_cache/descriptions.py
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from nbcompile import torch_internals
from nbcompile.capture.complex_literals import exact
from nbcompile.capture.literals import NotStorable, Unreadable, decode, encode
from nbcompile.fast.disk_cache.kernel_table import KernelTable
from nbcompile.fast.disk_cache.object_lookup import find, findable

_CONTAINERS: dict[str, type[Any]] = {"list": list, "tuple": tuple}


def write(module: torch.fx.GraphModule, parts: Sequence[Callable[..., Any]] = ()) -> dict[str, Any]:
    """A captured graph, or one of calls of compiled parts, as JSON.

    Raises:
        NotStorable: it calls, or holds, an object that only this process has.
    """
    targets: dict[Any, int] = {}
    numbers: dict[torch.fx.Node, int] = {}
    nodes: list[list[Any]] = []
    for node in module.graph.nodes:
        target = targets.setdefault(node.target, len(targets)) if node.op == "call_function" else node.target
        if node.op in ("get_attr", "call_module"):
            raise NotStorable(f"the captured graph holds {node.target}")
        keywords = {name: _part(value, numbers) for name, value in node.kwargs.items()}
        nodes.append([node.op, target, [_part(each, numbers) for each in node.args], keywords])
        # By position: the graph that is read names its nodes itself.
        numbers[node] = len(numbers)
    own = {part: ["part", at] for at, part in enumerate(parts)}
    return {"targets": [own.get(each) or findable(each) for each in targets], "nodes": nodes}


def _part(value: Any, numbers: dict[torch.fx.Node, int]) -> list[Any]:
    if isinstance(value, torch.fx.Node):
        return ["node", numbers[value]]
    for name, kind in _CONTAINERS.items():  # fx has subclasses of its own, which cannot be changed
        if isinstance(value, kind) and not isinstance(value, torch.Size) and not hasattr(value, "_fields"):
            return [name, [_part(each, numbers) for each in value]]
    if isinstance(value, dict):
        return ["dict", [[encode(key), _part(each, numbers)] for key, each in value.items()]]
    if isinstance(value, slice):
        return ["slice", [_part(each, numbers) for each in (value.start, value.stop, value.step)]]
    return ["value", encode(complex(value) if isinstance(value, complex) else value)]


def read(data: dict[str, Any], kernels: KernelTable, parts: Sequence[Callable[..., Any]] = ()) -> Callable[..., Any]:
    """The graph as a callable over its inputs.

    Raises:
        Unreadable: a function that it calls is another one now.
    """
    targets = [parts[each[1]] if each[0] == "part" else find(each) for each in data["targets"]]
    callables: list[Callable[..., Any]] = []

    def run(*arguments: Any) -> Any:
        if not callables:
            module = _module(data["nodes"], targets, kernels)
            torch_internals.free_text_with(module)
            callables.append(torch_internals.forward_of(module))
        return callables[0](*arguments)

    torch_internals.hide_from_hook(run.__code__)
    return run


def _module(rows: list[list[Any]], targets: list[Any], kernels: KernelTable) -> torch.fx.GraphModule:
    graph = torch.fx.Graph()
    nodes: list[torch.fx.Node] = []
    for op, target, args, keywords in rows:
        called = targets[target] if op == "call_function" else target
        given = tuple(_read_part(each, nodes) for each in args)
        named = {name: _read_part(each, nodes) for name, each in keywords.items()}
        # The numbers in torch's table of Triton kernels are those of this process.
        if torch_internals.is_kernel_launch(called):
            named |= kernels.numbers_here(named["kernel_idx"], named["constant_args_idx"])
        nodes.append(graph.create_node(op, called, given, named))
    return torch.fx.GraphModule({}, graph)


def _read_part(data: list[Any], nodes: list[torch.fx.Node]) -> Any:
    match data:
        case ["node", int(at)]:
            return nodes[at]
        case ["list" | "tuple" as name, list(parts)]:
            return _CONTAINERS[name](_read_part(each, nodes) for each in parts)
        case ["dict", list(pairs)]:
            return {decode(key): _read_part(each, nodes) for key, each in pairs}
        case ["slice", list(parts)]:
            return slice(*(_read_part(each, nodes) for each in parts))
        case ["value", value]:
            return exact(decode(value))
    raise Unreadable(f"malformed part of a node: {str(data)[:80]}")
