"""Text of a schedule whose kernels are for the CPU, for GPUs, or for both: C++ and Triton, one wrapper, one plan.

    emit(schedule)      EmittedProgram(kernels=(kernel0 in C++, kernel1 in Triton), source="...", ...)

A kernel belongs to one device (fusion never combines devices); an extern call copies tensors between devices.

In torch: torch/_inductor/scheduler.py (get_backend), one for each device. Read next: nbcompile/codegen/launch_plan.py
"""

from __future__ import annotations

from nbcompile.codegen import cpp, triton
from nbcompile.codegen.kernels import emit_kernel
from nbcompile.codegen.launch_plan import make_launch_plan
from nbcompile.codegen.triton_values import NoTriton
from nbcompile.codegen.wrapper import write_wrapper
from nbcompile.codegen.written_kernels import called, emit_all_written
from nbcompile.ir.emitted import EmittedKernel, EmittedProgram
from nbcompile.ir.kernel import Schedule


def emit(schedule: Schedule, capability: int = 0) -> EmittedProgram:
    """Generate every kernel in the language of its device, the wrapper and the launch plan.

    Raises:
        NoTriton: operations have no Triton form; the exception names the fx nodes that need them.
    """
    kernels: list[EmittedKernel] = []
    unsupported: dict[str, tuple[str, tuple[str, ...]]] = {}
    for kernel in schedule.kernels():
        try:
            on_gpu = kernel.device.type == "cuda"
            kernels.append(
                triton.emit_kernel(kernel, schedule, capability) if on_gpu else emit_kernel(kernel, schedule)
            )
        except NoTriton as reason:
            unsupported.update(reason.unsupported)
    if unsupported:
        error = NoTriton("; ".join(dict.fromkeys(reason for reason, _ in unsupported.values())))
        error.unsupported = unsupported
        raise error
    # C++ kernels are one translation unit; each Triton kernel is compiled by itself.
    in_cpp = "".join(kernel.source + "\n" for kernel in kernels if kernel.language == "cpp")
    kernels += emit_all_written(schedule)
    named = make_launch_plan(schedule, kernels)
    plan = None if named.obstacle else named.plan
    wrapper = write_wrapper(named)
    return EmittedProgram(schedule, cpp.unit(in_cpp), wrapper, tuple(kernels), called(schedule), plan, named.obstacle)
