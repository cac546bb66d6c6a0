"""Kernels that were written for a node, as emitted kernels."""

from __future__ import annotations

import torch

from nbcompile.codegen import written_kernels
from nbcompile.ir.buffer import BufferView, Extern, GraphInput
from nbcompile.ir.layout import contiguous
from nbcompile.ir.written_kernel import WrittenKernel

SOURCE = "import triton\n\n@triton.jit\ndef copied(x, out):\n    pass\n"
KERNEL = WrittenKernel("copied", SOURCE, ("x", "out"), 3, 8, 2, 5)


def launch() -> tuple[Extern, dict[str, GraphInput]]:
    layout = contiguous((4,))
    tensors = {
        name: GraphInput(name, dtype, torch.device("cuda", 1), layout, at)
        for at, (name, dtype) in enumerate((("a", torch.bfloat16), ("b", torch.int32)))
    }
    views = tuple(BufferView(name, layout) for name in tensors)
    return Extern("copied0", KERNEL, views, {}, "because", ("b",), ("node",)), tensors


def test_it_is_compiled_and_launched_as_a_generated_kernel():
    """The kernel has its own function, a unique name in the graph, and the dtypes and GPU of its arguments."""
    extern, tensors = launch()
    assert written_kernels.is_written(extern)
    kernel = written_kernels.emit_written(extern, tensors)
    assert (kernel.name, kernel.function, kernel.gpu) == ("copied0", "copied", 1)
    assert (kernel.types, kernel.parameters) == (("*bf16", "*i32"), ("x", "out"))
    assert (kernel.grid, kernel.warps, kernel.stages, kernel.rounds) == ("3", 8, 2, "5")
    assert kernel.header == "import triton\n\n"
    assert kernel.header + kernel.source == SOURCE
    assert [line.nodes for line in kernel.lines] == [("node",)] * 3


def test_other_calls_are_not_written():
    """A call of an ATen operator is no written kernel."""
    assert not written_kernels.is_written(Extern("extern0", torch.ops.aten.sort.default, (), {}, "sorting"))
