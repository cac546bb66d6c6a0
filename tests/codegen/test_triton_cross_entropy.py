"""Text and grid of the kernel of a linear layer and its cross entropy."""

from __future__ import annotations

import torch

from nbcompile.codegen.triton_cross_entropy import LinearCrossEntropy, emit


def test_programs_share_the_classes():
    """Two tiles of rows, three parts of five blocks of classes; a bias that is missing is no argument."""
    loss = LinearCrossEntropy(100, 300, 48, (48, 1), (48, 1), (), (1,), -100, torch.float16, 3, 100)
    assert loss.programs == 2 * 3
    assert loss.parameters == ("x", "weight", "target", "largests", "totals", "picks", "sums")
    text = emit(loss, "kernel")
    assert "for block in range(split * 2, tl.minimum(split * 2 + 2, 5)):" in text
    compile(text, "kernel", "exec")
