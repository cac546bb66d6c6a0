"""Register bits as values of a dtype."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nbcompile.gpu.values import as_bits, as_type, bits_of, flush_subnormals, resize


def test_pairs_have_the_low_half_first():
    """A 32-bit register has two bfloat16 values, the low half first."""
    assert as_type(np.array([0x40003F80], np.uint32), "bf16x2").tolist() == [[1.0, 2.0]]
    assert bits_of("bf16x2") == 32


@pytest.mark.parametrize(("kind", "dtype"), [("bf16", torch.bfloat16), ("f16", torch.float16)])
def test_numbers_are_rounded_as_torch_rounds_them(kind, dtype):
    """Values are rounded to nearest, ties to even, with infinities and signs of zero."""
    numbers = np.concatenate(
        [np.random.default_rng(0).standard_normal(1000), [0.0, -0.0, np.inf, 1e38, 65520, 1.00390625]]
    )
    numbers = numbers.astype(np.float32)
    with np.errstate(over="ignore"):
        given = numbers if kind == "bf16" else numbers.astype(np.float16)
    wanted = torch.from_numpy(numbers).to(dtype).view(torch.int16).numpy().view(np.uint16)
    assert (as_bits(given, kind) == wanted).all()


def test_subnormal_numbers_become_zeros_of_their_sign():
    """``.ftz`` flushes subnormal values to a zero of the same sign; the smallest normal value remains."""
    tiny = np.finfo(np.float32).tiny
    found = flush_subnormals(np.array([tiny / 2, -tiny / 2, tiny], np.float32))
    assert found.tolist() == [0.0, -0.0, tiny] and np.signbit(found).tolist() == [False, True, False]


def test_a_register_is_extended_by_zeros_or_the_sign():
    """A narrower register truncates; a wider one is extended by zeros or by the sign."""
    minus_one = np.array([0xFFFF], np.uint16)
    assert resize(minus_one, 32).tolist() == [0xFFFF]
    assert resize(minus_one, 32, signed=True).tolist() == [0xFFFFFFFF]
    assert resize(np.array([0x12345678], np.uint32), 16).tolist() == [0x5678]
