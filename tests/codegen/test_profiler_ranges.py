"""The name of a kernel's range in a profile."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from torch import fx

from nbcompile.capture.node_meta import STACK
from nbcompile.codegen.profiler_ranges import MOST_OPERATORS, profiler_ranges
from nbcompile.ir import profiler_ranges as ranges
from nbcompile.ir.profiler_ranges import OWN
from nbcompile.record.model import StackLine


def f(x):
    return x


def graph(*targets) -> fx.GraphModule:
    made = fx.Graph()
    x = made.placeholder("x")
    for at, target in enumerate(targets):
        node = made.call_function(target, (x,), name=f"n{at}")
        node.meta[STACK] = (
            StackLine(f.__code__.co_filename, f.__code__.co_firstlineno + at % 2, "f"),
            StackLine("lib.py", 9, "g"),
        )
    made.output(x)
    return fx.GraphModule(torch.nn.Module(), made)


def emitted(*steps):
    kernels = tuple(SimpleNamespace(name=name, from_nodes=nodes) for name, nodes in steps)
    return SimpleNamespace(kernels=kernels, externs=())


def test_a_range_names_operators_and_lines_of_the_frame():
    """Overloads of one operator appear once; lines count from the frame's first line; library lines are left out."""
    module = graph(torch.ops.aten.add.Tensor, torch.ops.aten.add.Scalar, len)
    with ranges.of_frame(f.__code__):
        ((name, found),) = profiler_ranges(module, "inference", emitted(("kernel0", ("n0", "n1", "n2", "gone"))))
    assert (name, found.name, found.operators) == ("kernel0", "inference.kernel0", "add, len")
    assert found.lines == ((OWN, 0), (OWN, 1))


def test_outside_of_a_frame_the_innermost_line_is_named():
    """Outside of a frame the innermost line has its file; a kernel without nodes has no operators and lines."""
    found = dict(profiler_ranges(graph(torch.sin), "forward", emitted(("k0", ("n0",)), ("k1", ()))))
    assert found["k0"].lines == (("lib.py", 9),)
    assert (found["k1"].operators, found["k1"].lines) == ("", ())


def test_a_long_list_of_operators_is_cut():
    """A long list of operators is cut, and ends in the number of the others."""
    targets = [torch.sin, torch.cos, torch.tan, torch.exp, torch.log, torch.abs, torch.neg, torch.sqrt]
    ((_, found),) = profiler_ranges(graph(*targets), "forward", emitted(("k", tuple(f"n{at}" for at in range(8)))))
    assert found.operators.endswith(f", {len(targets) - MOST_OPERATORS} more")
