"""Memory accesses of the blocks of a simulated kernel."""

from __future__ import annotations

import re

import pytest
import torch

from nbcompile.gpu import ptx, simulator
from nbcompile.gpu.memory import Fault, GlobalMemory
from tests.gpu.test_simulator import built


def test_a_load_without_its_mask():
    """A load without its mask is outside of the tensor."""
    kernel = built(lambda x: x + 1, torch.randn(100))
    x, y = torch.randn(100), torch.empty(100)
    unmasked = re.sub(r"@%p\d+ (ld\.global)", r"\1", kernel.ptx)
    for text, fault in ((kernel.ptx, False), (unmasked, True)):
        memory = GlobalMemory()
        arguments = [memory.copy_in(x, "x"), memory.copy_in(y, "y")]
        if not fault:
            simulator.run(ptx.parse(text), 1, arguments, memory)
            assert torch.equal(x + 1, y)
            continue
        with pytest.raises(Fault, match="outside of every tensor"):
            simulator.run(ptx.parse(text), 1, arguments, memory)


def test_an_index_out_of_bounds():
    """The index check is in the compiled code: the fault has its text and its line."""
    table, wrong = torch.randn(10, 8), torch.tensor([3, 10])
    kernel = built(lambda t, i: t[i], table, torch.tensor([3, 9]))
    memory = GlobalMemory()
    arguments = [memory.copy_in(t, n) for t, n in ((table, "table"), (wrong, "index"), (torch.empty(2, 8), "out"))]
    with pytest.raises(Fault, match=r"line \d+: index out of bounds, in \d+ threads"):
        simulator.run(ptx.parse(kernel.ptx), 1, arguments, memory)
