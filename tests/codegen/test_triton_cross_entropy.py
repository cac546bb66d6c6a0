"""Text and grid of the kernel for a linear layer with cross entropy."""

from __future__ import annotations

import torch

from nbcompile.codegen.triton_cross_entropy import LinearCrossEntropy, emit


def test_programs_share_the_classes():
    """The grid has two tiles of rows and three parts of five blocks of classes; a missing bias is no argument."""
    loss = LinearCrossEntropy(100, 300, 48, (48, 1), (48, 1), (), (1,), -100, torch.float16, 3, 100)
    assert loss.programs == 2 * 3
    assert loss.parameters == ("x", "weight", "target", "largests", "totals", "picks", "sums")
    text = emit(loss, "kernel")
    assert "for block in range(split * 2, tl.minimum(split * 2 + 2, 5)):" in text
    compile(text, "kernel", "exec")
