"""A graph that a test extends: an input for each tensor, and nodes that call functions."""

from __future__ import annotations

import builtins

from nbcompile.capture.frame import Frame
from nbcompile.options import Options
from nbcompile.tracing.graph.output_graph import OutputGraph
from nbcompile.tracing.inputs.dynamism import Dynamism


def growing(*tensors):
    """A graph, and an input for each tensor."""

    def f(x):
        return x

    frame = Frame(f.__code__, {"x": tensors[0] if tensors else None}, globals(), vars(builtins))
    output = OutputGraph(frame, Options(), Dynamism())
    nodes = []
    for at, tensor in enumerate(tensors):
        node = output.root.placeholder(f"x{at}", output.fake_mode.from_tensor(tensor))
        nodes.append(node)
    return output, *nodes


def call(output, function, *arguments, **keywords):
    """A node that calls a function."""
    return output.apply("call_function", function, arguments, keywords)


def targets(output):
    """The targets of the nodes that call a function or a method."""
    return [node.target for node in output.graph.nodes if node.op.startswith("call")]
