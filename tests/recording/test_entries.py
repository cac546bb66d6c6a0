"""Graphs as record entries: readable, and equal for every compile."""

from __future__ import annotations

import platform

import pytest
import torch

from nbcompile.record.model import StackLine
from nbcompile.recording import entries
from tests.support.captured import capture


def test_a_graph_as_data():
    """An entry has ids in order, inputs by id, the placeholders' sources, and the tensors' shapes."""
    captured = capture(lambda a, b: (torch.relu(a) + b, a.argmax(), 3), (torch.ones(2, 3), torch.ones(3)))
    fakes = [torch.empty(2, 3, device="meta"), torch.empty(3, device="meta")]
    for node, fake in zip(captured.module.graph.find_nodes(op="placeholder"), fakes, strict=True):
        node.meta["example_value"] = fake
    graph = entries.graph(captured.module, "4/1", sources={"a": "L['a']"})
    assert (graph.id, graph.stage) == ("4/1.captured", "captured")
    assert [node.id for node in graph.nodes] == [f"4/1.n{i}" for i in range(6)]
    a, b, relu, add, argmax, output = graph.nodes
    assert (a.source, a.shape, a.stride, a.dtype, a.device) == ("L['a']", ("2", "3"), ("3", "1"), "float32", "meta")
    assert (b.source, b.shape) == ("", ("3",))
    assert (relu.op, relu.target, relu.inputs, relu.shape) == ("call_function", "torch.relu", (a.id,), None)
    assert (add.target, add.arguments, add.inputs) == ("operator.add", "(relu, b)", (relu.id, b.id))
    assert (argmax.op, argmax.target) == ("call_method", "argmax")
    assert output.arguments == "((add, argmax, 3))"
    assert relu.stack == (StackLine("user.py", 2, "f", "relu"),)
    assert "# File: user.py:2 in f, code: relu" in graph.code
    assert graph.code.startswith("class GraphModule(torch.nn.Module):\n    def forward(self, a")


def test_symbolic_sizes_are_text():
    from tests.support.captured import fake_examples  # noqa: PLC0415

    captured = capture(lambda a: (a + 1,), (torch.ones(5, 3),))
    (node,) = captured.module.graph.find_nodes(op="placeholder")
    (node.meta["example_value"],) = fake_examples([torch.ones(5, 3)], dynamic=True)
    shape = entries.graph(captured.module, "0/0").nodes[0].shape
    assert all(size.startswith("s") for size in shape)


def test_two_records_of_one_compile_are_equal():
    def telling():
        return entries.graph(capture(lambda a: (a.sin(),), (torch.ones(3),)).module, "0/0")

    assert telling() == telling()


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("", ()),
        ('  File "a.py", line 3, in f\n    x + 1\n', (StackLine("a.py", 3, "f", "x + 1"),)),
        (
            'Traceback\n  File "a b.py", line 3, in <module>\n  File "c.py", line 12, in g.<locals>.h\n    y\n',
            (StackLine("a b.py", 3, "<module>"), StackLine("c.py", 12, "g.<locals>.h", "y")),
        ),
    ],
    ids=["nothing", "one line", "a line without source"],
)
def test_a_traceback_as_data(text, lines):
    assert entries.parse_stack(text) == lines


def test_the_environment():
    here = entries.environment(compiler="g++ 12.2.0")
    assert here.python == platform.python_version()
    assert here.torch == torch.__version__
    assert (here.device, here.compiler) == ("cpu", "g++ 12.2.0")
