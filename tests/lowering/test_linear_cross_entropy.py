"""Linear layer and cross entropy on a GPU: the launch, and the combination of its splits."""

from __future__ import annotations

import torch
from torch import fx

from nbcompile.ir import buffer as ir
from nbcompile.ir.buffer import BufferView, Program
from nbcompile.ir.evaluate import run
from nbcompile.ir.index import indices
from nbcompile.ir.layout import of_tensor
from nbcompile.ir.written_kernel import WrittenKernel
from nbcompile.lowering import (
    graph as lowering,  # noqa: F401  (fills the table of lowerings)
    linear_cross_entropy,
)
from nbcompile.lowering.builder import Builder
from nbcompile.lowering.linear_cross_entropy import CrossEntropyLaunch, lower_linear_cross_entropy

SPLITS, ROWS = 3, 4
KERNEL = WrittenKernel("triton_thing", "", ("x", "w", "largests", "totals", "picks", "sums"), 4, 4, 3)


def lowered():
    """The builder, and the values."""
    build, graph = Builder(), fx.Graph()
    values, arguments = {}, {}
    for at, (name, tensor) in enumerate((("w", torch.ones(7, 5)), ("x", torch.ones(ROWS, 5)))):
        node = arguments[name] = graph.placeholder(name)
        node.meta["val"] = tensor
        build.add(ir.GraphInput(name, torch.float32, torch.device("cpu"), of_tensor(tensor), at))
        values[node] = build.whole(name)
    node = graph.placeholder("loss")
    node.meta["val"] = (torch.ones(ROWS),) * 3
    build.node = node
    return build, lower_linear_cross_entropy(build, node, CrossEntropyLaunch(KERNEL, arguments, SPLITS), values)


def launch_of(build):
    (launch,) = [buffer for buffer in build.buffers if isinstance(buffer, ir.Extern) and buffer.target is KERNEL]
    return launch


def test_the_launch_writes_its_last_four_arguments():
    """The last four arguments have one row for each split, and are mutated; the first arguments are read."""
    build, _ = lowered()
    launch = launch_of(build)
    assert [view.buffer for view in launch.args][:2] == ["x", "w"]
    written = [view.buffer for view in launch.args][2:]
    assert launch.mutates == tuple(written) and len(set(written)) == 4
    for view in launch.args[2:]:
        assert tuple(view.layout.size) == tuple(indices((SPLITS, ROWS)))
    assert launch.reason == linear_cross_entropy.REASON


def test_splits_are_put_together_as_a_logarithm_of_a_sum():
    """Each split has a maximum and a sum relative to it; a split without classes has minus infinity and 0."""
    build, results = lowered()
    names = [view.buffer for view in launch_of(build).args][2:]
    torch.manual_seed(0)
    logits = torch.randn(ROWS, 7) * 40
    parts = [logits[:, :3], logits[:, 3:], logits[:, :0]]
    none = torch.full((ROWS,), -torch.inf)
    largests = torch.stack([part.amax(1) if part.numel() else none for part in parts])
    totals = torch.stack([
        (part - most[:, None]).exp().sum(1) if part.numel() else torch.zeros(ROWS)
        for part, most in zip(parts, largests, strict=True)
    ])  # fmt: skip
    picks, sums = torch.randn(SPLITS, ROWS), torch.randn(SPLITS, ROWS)
    outputs = [build.realize(value) for value in results]
    # The buffers after the launch, as a program whose inputs are the buffers that the launch mutates.
    start = build.buffers.index(launch_of(build)) + 1
    given = tuple(
        ir.GraphInput(name, torch.float32, torch.device("cpu"), of_tensor(tensor), at)
        for at, (name, tensor) in enumerate(zip(names, (largests, totals, picks, sums), strict=True))
    )
    views = tuple(BufferView(buffer_of(value), build.tensors[buffer_of(value)].layout) for value in outputs)
    program = Program((*given, *build.buffers[start:]), views, len(given))
    found = run(program, (largests, totals, picks, sums), None)
    torch.testing.assert_close(tuple(found), (logits.logsumexp(1), picks.sum(0), sums.sum(0)))


def buffer_of(value):
    """The buffer from which a stored value is loaded."""
    return next(node.buffer for node in [value.body] if hasattr(node, "buffer"))
