"""Triton's matrix products on simulated tensor cores: ``mma`` and ``wgmma``, with asynchronous copies."""

from __future__ import annotations

import re

import pytest
import torch

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from nbcompile.gpu import ptx, simulator
from nbcompile.gpu.memory import Fault, GlobalMemory
from tests.gpu.product import multiply

KINDS = {"fp16": torch.float16, "bf16": torch.bfloat16, "fp32": torch.float32}


def compiled(capability: int, kind: str, tile: tuple[int, int, int]) -> tuple[str, int]:
    """PTX and shared memory of the product."""
    names = {name: f"*{kind}" for name in "abc"} | dict.fromkeys("MNK", "i32")
    aligned = {(at,): [["tt.divisibility", 16]] for at in range(6)}
    source = ASTSource(
        multiply, names | dict.fromkeys(("BM", "BN", "BK"), "constexpr"),
        dict(zip(("BM", "BN", "BK"), tile, strict=True)), aligned,
    )  # fmt: skip
    made = triton.compile(
        source, target=GPUTarget("cuda", capability, 32), options={"num_stages": 3, "enable_fp_fusion": True}
    )
    return made.asm["ptx"], made.metadata.shared


def product(text: str, shared: int, kind: str, tile: tuple[int, int, int], sizes=(96, 80, 112)):
    """The simulated product, and eager mode's in float32."""
    m, n, k = sizes
    torch.manual_seed(0)
    a, b = torch.randn(m, k).to(KINDS[kind]), torch.randn(k, n).to(KINDS[kind])
    c = torch.zeros(m, n, dtype=KINDS[kind])
    memory = GlobalMemory()
    arguments = [memory.copy_in(each, name) for each, name in ((a, "a"), (b, "b"), (c, "c"))]
    grid = -(-m // tile[0]) * -(-n // tile[1])
    simulator.run(ptx.parse(text), grid, [*arguments, m, n, k], memory, shared)
    return c.float(), a.float() @ b.float()


CASES = [
    (80, "fp16", (32, 32, 32)), (80, "bf16", (64, 16, 16)), (80, "fp32", (32, 32, 32)),
    (90, "fp16", (64, 64, 32)), (90, "bf16", (64, 32, 64)), (90, "fp16", (128, 128, 64)), (90, "fp32", (64, 32, 32)),
    (90, "bf16", (32, 32, 32)),
]  # fmt: skip


@pytest.mark.parametrize(("capability", "kind", "tile"), CASES)
def test_a_product_of_matrices(capability, kind, tile):
    """Fragments, swizzled tiles in shared memory, and copies in flight give ``a @ b``."""
    text, shared = compiled(capability, kind, tile)
    assert "cp.async" in text
    assert ("wgmma" if capability == 90 and tile[0] >= 64 else "mma.sync") in text
    found, expected = product(text, shared, kind, tile)
    torch.testing.assert_close(found, expected, rtol=2e-2, atol=0.15)


def test_tensor_memory_is_named():
    """A B200's matrix instructions, which the simulator lacks, are rejected before anything runs."""
    text, _ = compiled(100, "fp16", (64, 64, 32))
    with pytest.raises(ptx.UnsupportedInstruction, match="lacks tcgen05"):
        simulator.expect_supported(ptx.parse(text))


BROKEN = {
    "no wait for copies": (80, r"cp\.async\.wait_group\s+\d+;", "asynchronous copy to these bytes is not waited for"),
    "a wait for too few groups": (
        80,
        r"cp\.async\.wait_group\s+(\d);",
        "asynchronous copy to these bytes is not waited",
    ),
    "no barrier after the wait": (80, r"(?<=wait_group)(\s+\d;)(.*?)bar\.sync\s+0;", "no barrier between"),
    "no wait for the product": (90, r"wgmma\.wait_group\.sync\.aligned\s+\d;", "before wgmma.wait_group|while a wgmma"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_missing_around_copies_and_products(name):
    """A removed wait or barrier is a fault at the first use."""
    capability, pattern, said = BROKEN[name]
    tile = (64, 64, 32)
    text, shared = compiled(capability, "fp16", tile)
    change = {"a wait for too few groups": "cp.async.wait_group 4;", "no barrier after the wait": r"\1\2"}.get(name, "")
    broken = re.sub(pattern, change, text, flags=re.DOTALL)
    assert broken != text
    with pytest.raises(Fault, match=said):
        product(broken, shared, "fp16", tile)
