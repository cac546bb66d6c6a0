"""Kernels that were written for a node, among the generated ones: the extern calls of a schedule that launch them.

    emit_written(extern, tensors)     EmittedKernel("triton_grouped_mm0", "triton_grouped_mm", "@triton.jit ...", ...)
    called(schedule)                  the other extern calls

In torch: torch/_inductor/select_algorithm.py (TritonTemplateKernel). Read next: nbcompile/gpu/cubins.py
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch

from nbcompile.ir.buffer import BufferView, Extern, Tensor
from nbcompile.ir.emitted import EmittedKernel
from nbcompile.ir.expr import FLOAT8
from nbcompile.ir.kernel import Schedule
from nbcompile.ir.written_kernel import WrittenKernel
from nbcompile.record.model import KernelLine

POINTERS = {
    torch.float32: "*fp32", torch.float64: "*fp64", torch.bfloat16: "*bf16", torch.float16: "*fp16", torch.bool: "*i1",
    torch.int8: "*i8", torch.int16: "*i16", torch.int32: "*i32", torch.int64: "*i64",
    torch.uint8: "*u8", torch.uint16: "*u16", torch.uint32: "*u32", torch.uint64: "*u64",
    **dict.fromkeys(FLOAT8, "*u8"),
}  # fmt: skip
"""Triton's types of arguments."""


def called(schedule: Schedule) -> tuple[Extern, ...]:
    """The extern calls of a schedule that call an operator."""
    return tuple(step for step in schedule.steps if isinstance(step, Extern) and not is_written(step))


def is_written(extern: Extern) -> bool:
    """Return whether a call is the launch of a kernel of ours."""
    return isinstance(extern.target, WrittenKernel)


def views_of(extern: Extern) -> tuple[BufferView, ...]:
    """The arguments of such a launch."""
    return extern.args


def emit_all_written(schedule: Schedule) -> Iterator[EmittedKernel]:
    """Emit the kernels of a schedule that were written for its nodes."""
    tensors = schedule.program.tensors()
    for step in schedule.steps:
        if isinstance(step, Extern) and is_written(step):
            yield emit_written(step, tensors)


def emit_written(extern: Extern, tensors: Mapping[str, Tensor]) -> EmittedKernel:
    """Emit the kernel of a launch."""
    kernel: WrittenKernel = extern.target
    views = views_of(extern)
    types = tuple(POINTERS[tensors[view.buffer].dtype] for view in views)
    device = tensors[views[0].buffer].device
    gpu = (device.index or 0) if device.type == "cuda" else -1
    return emit_text(kernel, extern.name, types, gpu, extern.from_nodes)


def emit_text(
    kernel: WrittenKernel, name: str, types: tuple[str, ...], gpu: int, from_nodes: tuple[str, ...] = ()
) -> EmittedKernel:
    """Emit a kernel under its own name."""
    header, mark, text = kernel.source.partition("@triton.jit")
    source = mark + text
    lines = tuple(KernelLine(line, from_nodes) for line in range(1, source.count("\n") + 1))
    return EmittedKernel(
        name, kernel.name, source, kernel.parameters, kernel.sizes, (name,), from_nodes, lines,
        language="triton", types=(*types, *("i64" for _ in kernel.sizes)), rounds=str(kernel.rounds),
        warps=kernel.warps, stages=kernel.stages, grid=str(kernel.programs), header=header, gpu=gpu,
        parameters=kernel.parameters,
    )  # fmt: skip
