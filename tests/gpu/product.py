"""A matrix product in Triton, which the tests of matrix instructions compile."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def multiply(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):  # noqa: N803
    """One tile of ``c = a @ b``, with row-major tensors."""
    pid = tl.program_id(0)
    across = tl.cdiv(N, BN)
    m = pid // across * BM + tl.arange(0, BM)
    n = pid % across * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    pa = a + m[:, None] * K + k[None, :]
    pb = b + k[:, None] * N + n[None, :]
    total = tl.zeros([BM, BN], tl.float32)
    for begin in range(0, K, BK):
        left = tl.load(pa, (m[:, None] < M) & (k[None, :] + begin < K), 0.0)
        right = tl.load(pb, (k[:, None] + begin < K) & (n[None, :] < N), 0.0)
        total = tl.dot(left, right, total)
        pa += BK
        pb += BK * N
    tl.store(c + m[:, None] * N + n[None, :], total.to(c.dtype.element_ty), (m[:, None] < M) & (n[None, :] < N))
