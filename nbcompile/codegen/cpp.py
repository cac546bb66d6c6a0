"""C++ of a schedule: one translation unit, and the wrapper that launches its kernels.

    kernel0: for i0 < 64:  for r0 < 1000: buf0 = max(x[1000*i0 + r0]) ...
    ->  EXPORT i64 kernel0(void *const *pointers, const i64 *sizes, Context *context) {
          ...
          #pragma omp parallel for num_threads(context->threads)
          for (i64 i0 = 0; i0 < 64; i0++) {
            F32 v0_acc[4] = {Max::identity<f32, W>(), ...};
            const auto step = [&](auto lanes, i64 r0, int part) STEP { combine<Max>(v0_acc[part], lanes, ...); };

Kernels with equal text become one function: twelve equal layers of a model are compiled once.

In torch: torch/_inductor/codegen/cpp.py. Read next:
nbcompile/codegen/wrapper.py
"""

from __future__ import annotations

import re
from dataclasses import replace

from nbcompile.codegen.header import header_for
from nbcompile.codegen.kernels import emit_kernel
from nbcompile.codegen.launch_plan import make_launch_plan
from nbcompile.codegen.wrapper import write_wrapper
from nbcompile.ir.buffer import Extern
from nbcompile.ir.emitted import EmittedKernel, EmittedProgram
from nbcompile.ir.kernel import Schedule


def emit(schedule: Schedule) -> EmittedProgram:
    """Generate the source of every kernel of a schedule, the wrapper and the launch plan."""
    functions: dict[str, str] = {}
    kernels = []
    for kernel in schedule.kernels():
        emitted = emit_kernel(kernel, schedule)
        function = functions.setdefault(_signature(emitted), emitted.name)
        kernels.append(replace(emitted, function=function))
    source = "".join(kernel.source + "\n" for kernel in kernels if kernel.function == kernel.name)
    externs = tuple(step for step in schedule.steps if isinstance(step, Extern))
    named = make_launch_plan(schedule, kernels)
    plan = None if named.obstacle else named.plan
    return EmittedProgram(schedule, unit(source), write_wrapper(named), tuple(kernels), externs, plan, named.obstacle)


def unit(functions: str) -> str:
    """Translation unit of the kernels; "" if there are none."""
    return f"{header_for(functions)}\nusing namespace nb;\n\n{functions}" if functions else ""


def _signature(kernel: EmittedKernel) -> str:
    """Text without comments and without its own name: equal for equal kernels."""
    # Comments name nodes of the graph, in which equal layers differ.
    # A kernel's text has only the numbers of its error messages, so kernels of equal text may need different messages.
    text = re.sub(r"\s*//.*", "", kernel.source).replace(f" {kernel.name}(", " (")
    return f"{text}{kernel.complaints}"
