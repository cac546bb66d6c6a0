"""Reproducer: a captured graph as a program, with similar inputs, that compares eager and compiled.

    graph, inputs = GraphModule(), [torch.randn(8, 16)]
    torch.testing.assert_close(nbcompile.compile(graph, fullgraph=True)(*inputs), graph(*inputs))

For bug reports, tests and minimisation: it needs torch and nbcompile, and none of the user's code.

In torch: torch/_dynamo/repro/after_dynamo.py. Read next: nbcompile/views/report.py
"""

from __future__ import annotations

from collections.abc import Iterator

from nbcompile.record.model import CompiledFrame, Graph, Node

_HEAD = '''"""Graph {id} of {function}, with inputs like those of the call that it was captured for."""

import torch
from torch import device, inf, nan  # names that the text of a graph may use

import nbcompile

torch.manual_seed(0)
'''
_TAIL = """
graph = GraphModule()
compiled = nbcompile.compile(GraphModule(), fullgraph=True, backend={backend})
expected = graph(*[each.clone() if isinstance(each, torch.Tensor) else each for each in inputs])
torch.testing.assert_close(compiled(*inputs), expected, rtol=1e-4, atol=1e-5, equal_nan=True)
print("{id}: compiled equals eager")
"""


def script(frame: CompiledFrame) -> str:
    """Text of the program.

    Raises:
        ValueError: the frame has no graph, or one with a value that has no text form.
    """
    graph = frame.graph
    if graph is None or not graph.code:
        raise ValueError(f"{frame.id} has no graph to reproduce")
    if held := [node.target for node in graph.nodes if node.op in ("get_attr", "call_module")]:
        raise ValueError(f"the graph of {frame.id} holds an object of its own, {held[0]}, which no text can say")
    sizes = [f"{each.name} = {each.hint}" for each in frame.symbols if each.hint]
    inputs = [f"    {_input(each, frame)},  # {each.source or each.name}" for each in _inputs(graph)]
    given = ["", *sizes, "inputs = [", *inputs, "]"]
    backend = frame.compiled_graph.backend if frame.compiled_graph else "inductor"
    fields = {"{id}": frame.id, "{function}": frame.function, "{backend}": repr(backend)}
    head, tail = (_filled(each, fields) for each in (_HEAD, _TAIL))
    return "\n".join((head, graph.code, *given)) + "\n" + tail


def _filled(text: str, fields: dict[str, str]) -> str:
    for name, value in fields.items():
        text = text.replace(name, value)
    return text


def _inputs(graph: Graph) -> Iterator[Node]:
    return (node for node in graph.nodes if node.op == "placeholder")


def _input(node: Node, frame: CompiledFrame) -> str:
    """An input of the same shape, strides, dtype and device; a size is its symbol."""
    if node.shape is None:
        return next((each.name for each in frame.symbols if node.source in each.sources), "None")
    where = f"dtype=torch.{node.dtype}" + (f", device={node.device!r}" if node.device not in ("", "cpu") else "")
    floating = "float" in node.dtype or "complex" in node.dtype
    strided = f"torch.empty_strided({_tuple(node.shape)}, {_tuple(node.stride or ())}, {where})"
    # Integers may be indices: 0 is valid for every size.
    return f"{strided}.normal_()" if floating else f"{strided}.zero_()"


def _tuple(sizes: tuple[str, ...]) -> str:
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"
