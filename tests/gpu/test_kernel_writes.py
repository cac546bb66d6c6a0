"""The arguments that a Triton kernel mutates, from its first IR, wherever a pointer is computed."""

from __future__ import annotations

import pytest

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")

import triton
import triton.language as tl

from nbcompile.gpu import kernel_writes
from nbcompile.gpu.chip import CHIPS


@triton.jit(noinline=True)
def store_through(place, value):
    tl.store(place, value)


@triton.jit(noinline=True)
def moved(place, by):
    return place + by


@triton.jit
def direct(a, b, n):
    places = tl.arange(0, 16)
    tl.store(b + places, tl.load(a + places, mask=places < n, other=0.0), mask=places < n)


@triton.jit
def index_is_loaded(a, b, n):
    tl.store(b + tl.load(a).to(tl.int32), 1.0)


@triton.jit
def carried(a, b, n):
    place = a
    for _ in range(n):
        place += 1
    tl.store(place, tl.load(b))


@triton.jit
def chosen(a, b, n):
    place = a
    if n > 3:
        place = b
    tl.store(place, 1.0)


@triton.jit
def atomic(a, b, n):
    tl.atomic_add(b, 1.0)


@triton.jit
def by_a_helper(a, b, n):
    store_through(moved(b, n), tl.load(a))


@triton.jit
def early_return(a, b, n):
    if n > 3:
        return
    tl.store(a, tl.load(b))


@triton.jit
def through_a_number(a, b, n):
    place = b.to(tl.uint64, bitcast=True).to(tl.pointer_type(tl.float32), bitcast=True)
    tl.store(place, 1.0)


@triton.jit
def described(a, b, n):
    block = tl.make_tensor_descriptor(b, shape=[16, 16], strides=[16, 1], block_shape=[16, 16])
    block.store([0, 0], tl.zeros((16, 16), tl.float32))


@triton.jit
def reads(a, b, n):
    tl.device_assert(tl.sum(tl.load(a + tl.arange(0, 16))) > n)


CASES = {
    direct: "b", index_is_loaded: "b", carried: "a", chosen: "ab", atomic: "b", by_a_helper: "b", early_return: "a",
    through_a_number: "ab", described: "b", reads: "",
}  # fmt: skip


@pytest.mark.parametrize(("kernel", "expected"), CASES.items(), ids=[kernel.__name__ for kernel in CASES])
def test_written_arguments(kernel, expected):
    """The mutated arguments are exactly those of stores; if a pointer comes from a number, all are."""
    source = triton.compiler.ASTSource(kernel, {"a": "*fp32", "b": "*fp32", "n": "i32"}, {}, {})
    assert kernel_writes.find(source, CHIPS["sm_90"]) - {"n"} == set(expected)
