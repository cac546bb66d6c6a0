"""The choices of matrix products for the record: candidates with their times, by the name of the chosen kernel.

    described_steps(planned, choices)["triton_mm_relu_0"].candidates[0].name      "64x64x32, 4 warps, 3 stages"

In torch: torch/_inductor/select_algorithm.py (the printed table). Read next: nbcompile/gpu/templates.py
"""

from __future__ import annotations

from collections.abc import Sequence

from nbcompile.gpu.templates import Choice, operator_of, product_nodes
from nbcompile.ir.buffer import Extern
from nbcompile.ir.kernel import Kernel, Schedule
from nbcompile.record import model


def described(choice: Choice) -> model.Autotuning:
    """The candidates in the form of the record."""
    operator = operator_of(choice.nodes)
    entries = tuple(
        model.Candidate(
            operator if candidate.tile is None else candidate.label, candidate.seconds * 1e6, candidate.is_measured
        )
        for candidate in choice.candidates
    )
    columns = [(factor.size, factor.stride, factor.dtype) for factor in choice.factors]
    sizes, strides, dtypes = zip(*columns, strict=True)
    return model.Autotuning(operator, sizes, strides, dtypes, entries)


def described_steps(planned: Schedule, choices: Sequence[Choice]) -> dict[str, model.Autotuning]:
    """The candidates by the name of the kernel or of the extern call that was chosen."""
    of_nodes = {node: choice for choice in choices for node in choice.nodes}
    found = {}
    for step in planned.steps:
        if not isinstance(step, (Kernel, Extern)):
            continue
        nodes = step.from_nodes if isinstance(step, Extern) else product_nodes(step, planned) if step.product else ()
        chosen = next((of_nodes[node] for node in nodes if node in of_nodes), None)
        if chosen is not None:
            found[step.name] = described(chosen)
    return found
