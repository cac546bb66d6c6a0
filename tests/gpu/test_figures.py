"""Figures of a kernel in the record."""

from __future__ import annotations

import pytest

from nbcompile.gpu import figures
from nbcompile.gpu.costs import SECTOR, Costs
from nbcompile.gpu.machine_code import MachineCode
from nbcompile.gpu.predict import Times
from nbcompile.gpu.simulated import Launch
from nbcompile.ir.emitted import EmittedKernel
from nbcompile.record import model


@pytest.mark.parametrize(
    ("name", "expected"),
    [("ld.global.v4.b32", True), ("STG.E.128", True), ("red.global.add.f32", True), ("RED.E.ADD", True),
     ("ld.shared.b32", False), ("LDS", False), ("fma.rn.f32", False), ("REDUX", False)],
)  # fmt: skip
def test_accesses_to_global_memory(name, expected):
    """PTX and SASS instructions that load, store or update global memory are accesses."""
    assert figures.is_access(name) is expected


def test_instructions_of_a_line_are_counted():
    """Accesses come first, then instructions by frequency, with a count if there are several."""
    assert list(figures._counted(["add", "mul", "mul", "LDG", "mul"])) == ["LDG", "3 mul", "add"]


def test_a_launch_adds_its_costs():
    """Bytes are sectors times their size, times are in microseconds, and each line has separate costs."""
    gpu = model.Gpu("sm_90", 32, 0, 0, 128, 1.0, lines=(model.GpuLine(1), model.GpuLine(2)))
    times = Times(memory=3e-6, issue=1e-6, latency=2e-6, matrix=0.0, least=1e-6)
    line = Costs(12, instructions=40, sectors=8, least_sectors=4)
    launch = Launch(EmittedKernel("k", "k", "", ()), MachineCode("", b"", 128, 0, 32, 0), 7, {12: line}, times, 100)
    found = figures.launched(gpu, launch, first_line=11)
    assert (found.blocks, found.moved, found.least, found.limit) == (7, 8 * SECTOR, 100, "memory")
    assert found.predicted_us == pytest.approx(times.predicted * 1e6)
    assert [(each.line, each.instructions, each.least) for each in found.lines] == [
        (1, 0, 0),
        (2, 40, 4 * SECTOR),
    ]
