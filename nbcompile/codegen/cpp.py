"""A schedule as one C++ translation unit, and the Python that calls it.

    kernel0: for i0 < 64:  for r0 < 1000: buf0 = max(x[1000*i0 + r0]) ...
    ->  EXPORT i64 kernel0(void *const *pointers, const i64 *sizes, Context *context) {
          ...
          #pragma omp parallel for num_threads(context->threads)
          for (i64 i0 = 0; i0 < 64; i0++) {
            F32 buf0[4] = {Max::start<f32, W>(), ...};
            const auto step = [&](auto lanes, i64 r0, int part) STEP { combine<Max>(buf0[part], lanes, ...); };

Kernels with equal text become one function: twelve equal layers of a model are compiled once.

In torch: torch/_inductor/codegen/cpp.py. Read next:
nbcompile/codegen/wrapper.py
"""

from __future__ import annotations

import re
from dataclasses import replace

from nbcompile.codegen.header import header_for
from nbcompile.codegen.kernels import emit_kernel
from nbcompile.codegen.plan import make_plan
from nbcompile.codegen.wrapper import write_wrapper
from nbcompile.ir.buffer import Extern
from nbcompile.ir.emitted import EmittedKernel, EmittedProgram
from nbcompile.ir.kernel import Schedule
from nbcompile.record import model


def emit(schedule: Schedule) -> EmittedProgram:
    """The source text of every kernel of a schedule, and its wrapper."""
    functions: dict[str, str] = {}
    kernels = []
    for kernel in schedule.kernels():
        emitted = emit_kernel(kernel, schedule)
        twin = functions.setdefault(_signature(emitted), emitted.name)
        kernels.append(replace(emitted, function=twin))
    source = "".join(kernel.source + "\n" for kernel in kernels if kernel.function == kernel.name)
    externs = tuple(step for step in schedule.steps if isinstance(step, Extern))
    plan, reason = make_plan(schedule, kernels)
    wrapper = write_wrapper(schedule, kernels)
    return EmittedProgram(schedule, unit(source), wrapper, tuple(kernels), externs, plan, reason)


def unit(functions: str) -> str:
    """Kernels as a translation unit; "" if there are none."""
    return f"{header_for(functions)}\nusing namespace nb;\n\n{functions}" if functions else ""


def describe(emitted: EmittedProgram, compile_id: str = "") -> tuple[model.Kernel, ...]:
    """The record's entries: what was generated, and what ATen runs and why."""
    generated = [
        model.Kernel(
            f"{compile_id}.{kernel.name}",
            kernel.name,
            kernel.language,
            kernel.source,
            kernel.buffers,
            kernel.from_nodes,
            kernel.lines,
        )
        for kernel in emitted.kernels
    ]
    called = [
        model.Kernel(
            f"{compile_id}.{extern.name}",
            str(extern.target),
            "aten",
            "",
            (extern.name,),
            extern.from_nodes,
            (),
            extern.reason,
        )
        for extern in emitted.externs
    ]
    return (*generated, *called)


def _signature(kernel: EmittedKernel) -> str:
    """The text without comments and its own name: equal for kernels that do the same."""
    text = re.sub(r"\s*//.*", "", kernel.source).replace(f" {kernel.name}(", " (")
    return f"{text}{kernel.complaints}"
