"""The code for a GPU of every case page, in the simulator: eager's results, and nothing that a GPU would stop for."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch

from nbcompile.backends import attribute_of, compile_aten_graph
from nbcompile.codegen import triton as generator
from nbcompile.codegen.wrapper import opaque_values
from nbcompile.ir.kernel import Kernel
from nbcompile.lowering import lower
from nbcompile.scheduling import schedule
from tests.cases import cases

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")
pytest.importorskip("numpy", reason="the simulator computes with NumPy")

from nbcompile.gpu import simulated
from nbcompile.gpu.chip import CHIPS

REFUSED = {"dynamic_shapes": "a scratch row that is too long for registers"}
"""Pages with a kernel that has no Triton form yet. It may only shrink."""


def simulating(compared: list[str], refused: list[str]) -> Any:
    """What compiles a graph for ``cases.made``: its kernels are simulated and compared with ATen."""

    def stage_compiler(_: cases.Page, stage: str) -> Any:
        def compile_one(graph: torch.fx.GraphModule, examples: Any) -> Any:
            planned = schedule(lower(graph, examples, keep_sharing=stage == "inference"))
            eager = compile_aten_graph(graph, examples, stage)
            if not any(isinstance(step, Kernel) for step in planned.steps):
                return eager
            try:
                emitted = generator.emit(planned)
            except generator.NoTriton as reason:
                refused.append(str(reason))
                return eager
            attribute = functools.partial(attribute_of, graph)
            program = simulated.load(emitted, planned, CHIPS["sm_90"], attribute, opaque_values(planned))

            def run(inputs: list[Any]) -> Any:
                copies = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]
                found, expected = program(*copies), eager(inputs)
                for mine, theirs in zip(found, expected, strict=True):
                    torch.testing.assert_close(mine, theirs, equal_nan=True)
                compared.append(stage)
                assert all(launch.built.spilled_bytes == 0 for launch in program.launches)
                return expected

            run._boxed_call = True
            return run

        return compile_one

    return stage_compiler


@pytest.mark.parametrize("path", cases.CASES, ids=lambda path: path.stem)
def test_the_compiled_code_gives_eagers_results(path):
    """No access outside of a tensor, no misaligned vector, no race, no spilled register; and the same numbers."""
    compared, refused = [], []
    cases.made(path, simulating(compared, refused))
    assert refused == ([REFUSED[path.stem]] if path.stem in REFUSED else [])
    assert compared or refused
