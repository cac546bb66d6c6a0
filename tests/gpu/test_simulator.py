"""The simulator of GPU code finds each fault, and counts the memory traffic."""

from __future__ import annotations

import re

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")

from nbcompile.codegen import triton as generator
from nbcompile.gpu import costs, cubins, ptx, simulator
from nbcompile.gpu.machine_code import MachineCode
from nbcompile.gpu.memory import Fault, GlobalMemory
from tests.support.lowered import programs

ROWS, COLUMNS = 6, 1000


def built(function, *inputs) -> MachineCode:
    """The only kernel of a function."""
    _, planned = programs(function, *inputs)
    (kernel,) = generator.emit(planned).kernels
    (cubin,) = cubins.obtain([cubins.Request(kernel, "sm_90")])
    return cubin.machine_code


@pytest.fixture(scope="module")
def softmax() -> MachineCode:
    return built(lambda x: x.softmax(-1), torch.randn(ROWS, COLUMNS))


def run(
    kernel: MachineCode, text: str | None = None, grid: int = ROWS, shift: int = 0, shared_bytes: int | None = None
):
    """Simulate a kernel over rows, and compare with eager mode."""
    torch.manual_seed(0)
    x, y = torch.randn(ROWS, COLUMNS), torch.empty(ROWS, COLUMNS)
    memory = GlobalMemory()
    arguments = [memory.copy_in(x, "x") + shift, memory.copy_in(y, "y")]
    shared = kernel.shared_bytes if shared_bytes is None else shared_bytes
    found = simulator.run(ptx.parse(text or kernel.ptx), grid, arguments, memory, shared)
    torch.testing.assert_close(y, x.softmax(-1))
    return costs.total(found.lines.values())


def test_rows_are_read_and_written_once(softmax):
    """The compiled softmax gives eager's values, and moves as many bytes as its tensors have."""
    found = run(softmax)
    assert found.least_sectors == 2 * ROWS * COLUMNS * 4 // costs.SECTOR
    assert found.coalescing > 0.95
    assert found.passes == found.least_passes > 0


def test_a_block_too_many(softmax):
    """An additional block reads the row after the last one, which is a fault."""
    with pytest.raises(Fault, match=r"outside of every tensor; the first \d+ bytes past the end of x"):
        run(softmax, grid=ROWS + 1)


def test_a_pointer_that_is_shifted(softmax):
    """A pointer that is shifted by a byte is misaligned; shifted by a number, its last access leaves the tensor."""
    with pytest.raises(Fault, match="no multiple of"):
        run(softmax, shift=2)
    with pytest.raises(Fault, match="no multiple of|past the end"):
        run(softmax, shift=4 * COLUMNS)


def test_every_barrier_is_needed(softmax):
    """Without any one of its barriers the kernel has a race, and the simulator names the line."""
    count = len(re.findall(r"bar\.sync", softmax.ptx))
    assert count > 2
    for at in range(count):
        parts = re.split(r"bar\.sync\s+0;", softmax.ptx)
        text = "bar.sync 0;".join(parts[: at + 1]) + "bar.sync 0;".join(parts[at + 1 :])
        with pytest.raises(Fault, match="no barrier between"):
            run(softmax, text)


def test_shared_memory_has_an_end(softmax):
    """An access beyond the shared memory of the launch is a fault."""
    with pytest.raises(Fault, match="past the end of the 16 bytes of shared memory"):
        run(built_wide(), shared_bytes=0)


def built_wide() -> MachineCode:
    """A kernel whose warps exchange more than 16 bytes."""
    return built(lambda x: x.cumsum(-1), torch.randn(ROWS, COLUMNS))


def test_threads_that_store_to_one_address(softmax):
    """If all threads store to the first element, values differ, and the stores race."""
    address = re.findall(r"st\.global\S* \[ (%rd\d+)", softmax.ptx)
    text = re.sub(rf"add\.s64 \t({'|'.join(address)}), (%rd\d+), %rd\d+;", r"mov.b64 \1, \2;", softmax.ptx)
    assert text != softmax.ptx
    with pytest.raises(Fault, match="race"):
        run(softmax, text)


def test_the_second_operand_of_cat_is_loaded_where_it_is_used():
    """Each load is masked, because its address is outside of the operand for the other operand's elements."""
    kernel = built(lambda a, b: torch.cat([a, b, a]), torch.randn(8), torch.randn(8))
    a, b, out = torch.randn(8), torch.randn(8), torch.empty(24)
    memory = GlobalMemory()
    simulator.run(
        ptx.parse(kernel.ptx), 1, [memory.copy_in(t, n) for t, n in ((a, "a"), (b, "b"), (out, "out"))], memory
    )
    assert torch.equal(out, torch.cat([a, b, a]))
