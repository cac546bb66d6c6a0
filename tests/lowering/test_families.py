"""Every family of operators computes what eager computes: as a program, and as kernels."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests import targets
from tests.lowering.programs import check, programs

torch.manual_seed(0)
x, y, v = torch.randn(8, 16), torch.randn(8, 16), torch.randn(16)
i, n = torch.randint(0, 8, (5,)), torch.randint(-5, 9, (8, 16))
b, h, big = x > 0, x.bfloat16(), torch.randn(2, 3, 4, 5)

FAMILIES = [
    (
        "unary",
        lambda x: [
            getattr(torch, k)(x)
            for k in "exp exp2 expm1 sin cos tan atan sinh cosh asinh tanh erf erfc sigmoid floor ceil trunc round neg abs sign relu frac square reciprocal isnan isinf signbit logical_not".split()
        ],
        (x,),
    ),
    (
        "unarypos",
        lambda x: [getattr(torch, k)(x) for k in "log log2 log10 log1p sqrt rsqrt lgamma digamma".split()],
        (x.abs() + 0.1,),
    ),
    (
        "int unary",
        lambda n: [
            torch.exp(n),
            n.neg(),
            n.abs(),
            n.sign(),
            torch.sqrt(n.abs()),
            n.floor(),
            ~n,
            torch.isnan(n),
            n.float().to(torch.int8),
        ],
        (n,),
    ),
    (
        "bin",
        lambda x, y, n: [
            x + y,
            x - y,
            x * y,
            x / y,
            x + n,
            n / 3,
            n + 2.5,
            x + 2,
            torch.add(x, y, alpha=2.5),
            torch.maximum(x, y),
            torch.minimum(x, y),
            torch.fmax(x, y),
            torch.atan2(x, y),
            torch.pow(x.abs(), y),
            x**2,
            x**3,
            x**0.5,
            2**x,
            n**2,
            x // y,
            x % y,
            torch.fmod(x, y),
            n // 3,
            n % 3,
            torch.div(n, 3, rounding_mode="trunc"),
            torch.div(x, y, rounding_mode="trunc"),
            torch.copysign(x, y),
            torch.hypot(x, y),
            1 - x,
            3 / x,
        ],
        (x, y, n),
    ),
    (
        "cmp",
        lambda x, y, n, b: [
            x < y,
            x == y,
            n > 2,
            n >= 2.5,
            x != n,
            b & (x < 0),
            b | b,
            b ^ (x > 1),
            torch.logical_and(n, x),
            torch.logical_xor(x, b),
            n & 3,
            n | 1,
            n ^ 2,
            n << 2,
            n >> 1,
            b + b,
            b * b,
        ],
        (x, y, n, b),
    ),
    (
        "clamp",
        lambda x, y, n: [
            x.clamp(-1, 1),
            x.clamp(min=0),
            x.clamp(max=y),
            n.clamp(0, 3),
            n.clamp(min=0.5),
            torch.clamp(x, y - 1, y + 1),
        ],
        (x, y, n),
    ),
    (
        "where",
        lambda x, y, b, n: [
            torch.where(b, x, y),
            torch.where(b, x, 1.0),
            torch.where(b, n, x),
            x.masked_fill(b, -1e9),
            torch.where(b, 1, 0),
        ],
        (x, y, b, n),
    ),
    (
        "act",
        lambda x: [
            F.gelu(x),
            F.gelu(x, approximate="tanh"),
            F.silu(x),
            F.relu6(x),
            F.leaky_relu(x),
            F.hardtanh(x),
            F.hardsigmoid(x),
            F.hardswish(x),
            F.elu(x),
            F.softplus(x),
            F.mish(x),
            F.threshold(x, 0.1, 3.0),
            F.logsigmoid(x),
        ],
        (x,),
    ),
    (
        "half",
        lambda h: [
            h + 1,
            h * h,
            F.gelu(h),
            h.sum(1),
            h.mean(0),
            torch.softmax(h, -1),
            h.float(),
            h > 0,
            h.max(1),
            F.layer_norm(h, (16,)),
        ],
        (h,),
    ),
    (
        "cast",
        lambda x, n, b: [
            x.double(),
            x.to(torch.int32),
            n.float(),
            b.float(),
            x.bool(),
            x.bfloat16(),
            x.half().float(),
            n.to(torch.uint8),
        ],
        (x, n, b),
    ),
    (
        "red",
        lambda x, n, b: [
            x.sum(),
            x.sum(0),
            x.sum(1, keepdim=True),
            x.mean(),
            x.mean(1),
            n.sum(1),
            b.sum(0),
            x.amax(1),
            x.amin(),
            x.max(),
            x.min(),
            x.max(1),
            x.min(0),
            x.argmax(),
            x.argmin(1, keepdim=True),
            x.prod(),
            x.prod(1),
            (x > 0).any(),
            (x > 0).all(1),
            n.any(1),
            n.prod(0),
            b.amax(1),
        ],
        (x, n, b),
    ),
    (
        "var",
        lambda x: [
            x.var(),
            x.var(1),
            x.std(0, keepdim=True),
            *torch.var_mean(x, 1),
            x.var(1, correction=0),
            torch.logsumexp(x, 1),
            x.norm(),
            x.norm(dim=1),
            x.norm(p=1, dim=1),
            x.norm(p=float("inf")),
            x.norm(p=3, dim=0),
        ],
        (x,),
    ),
    (
        "views",
        lambda x, big: [
            x.t(),
            x[2],
            x[:, 3],
            x[1:5, ::2],
            x.view(4, 32),
            x.reshape(-1),
            x.unsqueeze(1),
            x[:, None].expand(8, 3, 16),
            big.permute(0, 2, 3, 1),
            big.transpose(1, 2).reshape(2, 4, 15),
            big.flatten(1),
            x.diagonal(),
            x.flip(0),
            x.roll(3, 1),
            x.roll(2),
            x.repeat(2, 3),
            x.unfold(1, 4, 2),
            big.transpose(0, 3).reshape(5, -1),
            x.squeeze(),
            x.unbind(0)[3],
            torch.split(x, 3, 0)[1],
            x.chunk(2, 1)[1],
            torch.tile(x, (2,)),
            x.as_strided((3, 4), (2, 1), 1),
        ],
        (x, big),
    ),
    (
        "views2",
        lambda x, big: [
            x.t() + 1,
            x[2] * 2,
            x[:, 3] + 1,
            x[1:5, ::2] + 1,
            x.view(4, 32) + 1,
            (x + 1).view(4, 32),
            (x + 1).t().reshape(-1),
            x[:, None].expand(8, 3, 16) + 1,
            big.permute(0, 2, 3, 1) * 2,
            (big + 1).transpose(1, 2).reshape(2, 4, 15) * 2,
            x.diagonal() + 1,
            x.flip(0) + 1,
            x.roll(3, 1) + x,
            x.repeat(2, 3) * 2,
            x.unfold(1, 4, 2) + 1,
            (big * 2).transpose(0, 3).reshape(5, -1).sum(1),
            (x + 1).expand(3, 8, 16),
            (x + 1)[:, ::2],
            (x + 1).t(),
            x.view(2, 4, 16).sum(1),
            x.view(8, 4, 4).transpose(1, 2).reshape(8, 16) + x,
            (x + 1)[:, None].expand(8, 3, 16),
        ],
        (x, big),
    ),
    (
        "cat",
        lambda x, y, v, n: [
            torch.cat([x, y]),
            torch.cat([x, y], 1),
            torch.stack([x, y], 1),
            torch.cat([x, n.float() + 1]),
            torch.cat([x + 1, y.t().reshape(8, 16) * 2], 1) + 1,
            F.pad(x, (1, 2)),
            F.pad(x, (1, -2, 3, 0), value=2.0),
            F.pad(x, (-1, -1)),
            torch.cat([x[:, 8:], -x[:, :8]], 1) * y,
        ],
        (x, y, v, n),
    ),
    (
        "scatterish",
        lambda x, y: [
            torch.slice_scatter(x, y[:, :4], 1, 2, 6),
            torch.slice_scatter(x, y[:, :3], 1, 2, 8, 2),
            torch.diagonal_scatter(x, y[0, :8], 1),
            torch.diagonal_scatter(x, y[0, :6], -2),
            torch.take(x, torch.tensor([[3, -1], [127, 0]])),
            torch.select_scatter(x, y[0], 0, 3),
            torch.select_scatter(x, y[0], 0, -1),
            torch.as_strided_scatter(x, y[0, :5], (5,), (7,), 3),
            torch.as_strided_scatter(x, y[:3, :4], (3, 4), (2, 11), 1),
            torch.as_strided_scatter(x * 2, y[:4, :4, None], (4, 4, 1), (16, 1, 5)),
            torch.as_strided_scatter(x, y, x.shape, x.stride()) + torch.as_strided_scatter(x, y[0, 0], (), ()),
            torch.as_strided_scatter(x, y[:0], (0, y.shape[1]), (1, 1)),
            torch.as_strided_scatter(x[1:], y[0, :3], (3,), (2,), x.shape[1] + 1),
        ],
        (x, y),
    ),
    (
        "index",
        lambda x, i, big: [
            F.embedding(i, x),
            x[i],
            x[:, i],
            x[i, i],
            x[i][:, i],
            big[:, i % 3, :, i % 5],
            big[i % 2, :, i % 4],
            big[:, i % 3, i % 4],
            x[i - 8],
            torch.gather(x, 1, (i[:, None] * 1).expand(5, 3)),
            torch.index_select(x, 0, i),
            torch.index_select(x, 1, i),
            x[i[:, None], i],
            (x.exp() + x)[i],
            x[i].sum(0),
            F.embedding(i, x).t() + 1,
        ],
        (x, i, big),
    ),
    (
        "create",
        lambda x: [
            torch.ones(3),
            torch.zeros(2, 2, dtype=torch.int64),
            torch.full((2,), 3.5),
            torch.arange(5),
            torch.arange(2, 10, 3),
            torch.arange(0, 1, 0.1),
            torch.eye(4),
            torch.ones_like(x),
            torch.zeros_like(x) + x,
            torch.full_like(x, 2),
            torch.tril(x),
            torch.triu(x, 1),
            torch.tril(torch.ones(4, 4, dtype=torch.bool)),
            torch.scalar_tensor(3.0),
            x.new_zeros(3),
            torch.linspace(0, 1, 5),
            torch.arange(16) + x,
            torch.eye(3, 5),
        ],
        (x,),
    ),
    (
        "norm",
        lambda x, v: [
            torch.softmax(x, 0),
            torch.softmax(x, 1),
            torch.log_softmax(x, 1),
            F.layer_norm(x, (16,), v, v),
            F.layer_norm(x, (8, 16)),
            x / x.norm(dim=1, keepdim=True),
            x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * v,
        ],
        (x, v),
    ),
    (
        "extern",
        lambda x, y, v: [
            x @ y.t(),
            (x @ y.t()).relu() + 1,
            torch.cumsum(x, 1),
            torch.sort(x, 1)[0] + 1,
            F.linear(x + 1, y, None).sum(0),
            torch.topk(x, 3)[1],
            F.conv1d(x[None], y[:, :8, None]),
        ],
        (x, y, v),
    ),
    ("alias", lambda x: [x, x.clone(), x.t(), (x + 1).clone(), x.t().clone(), x.contiguous()], (x,)),
    ("scalar", lambda x: [x.sum() * 2 + x, x / x.sum(), (x - x.mean()) / x.std()], (x,)),
    (
        "many",
        lambda x, v: [
            (x + v * 2) * 3,
            (x * v.exp()).sum(1),
            (x.exp() * v.exp() + 1).sum(0),
            x.exp().sum(1),
            x.exp().sum(0),
            x.exp(),
        ],
        (x, v),
    ),
]
HOW = {"whole": {}, "decomposed": {"decomposed": True}, "dynamic": {"dynamic": True}}
NEEDS_ATEN = {"extern": HOW, "scatterish": ("dynamic",)}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(("name", "function", "inputs"), FAMILIES, ids=[each[0] for each in FAMILIES])
def test_family(name, function, inputs, how):
    """Program and schedule give eager's values, dtypes and strides, without ATen's help but where that is meant."""
    check(function, *inputs, allow_extern=how in NEEDS_ATEN.get(name, ()), **HOW[how])


def test_the_share_of_a_normal_distribution():
    """ndtr and what is made of it, in each type: gelu and its derivative."""
    x, grad = torch.randn(7, 33), torch.randn(7, 33)
    check(lambda x: F.gelu(x) + torch.special.ndtr(x), x, must_be_triton=True)
    check(lambda grad, x: torch.ops.aten.gelu_backward(grad, x), grad, x, must_be_triton=True)
    check(F.gelu, x.double())
    check(F.gelu, x.bfloat16())


NOTHING_IN_ANOTHER_SHAPE = {
    "joined": (lambda x: torch.cat([x.flatten(), x.flatten()]), (2, 0)),
    "in the middle": (lambda x: (x + 1).reshape(3, 0, 4) * 2, (2, 0, 6)),
    "to one dimension": (lambda x: (x + 1).reshape(0), (0, 3, 2)),
    "a sum of none": (lambda x: (x.mT + 1).reshape(0, 6).sum(0), (0, 3, 2)),
    "no sum": (lambda x: (x.mT + 1).reshape(0, 6).sum(1), (2, 3, 0)),
    "two without extent": (lambda x: (x + 1).reshape(0, 5, 0), (2, 0, 0, 3)),
}


@pytest.mark.parametrize("name", NOTHING_IN_ANOTHER_SHAPE)
def test_a_tensor_without_elements_in_another_shape(name):
    """An extent of zero divides nothing: code is generated, for kernels that store nothing, or a sum of nothing."""
    function, shape = NOTHING_IN_ANOTHER_SHAPE[name]
    check(function, torch.ones(shape), exact_strides=False)


BOUNDS = {
    "relu": torch.relu, "relu6": F.relu6, "between": lambda x: x.clamp(0, 2), "from": lambda x: x.clamp(min=0),
    "to": lambda x: x.clamp(max=-0.0), "hardtanh": lambda x: F.hardtanh(x, 0),
}  # fmt: skip


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds_have_eagers_sign_of_zero(name):
    """Beside a number that is the value's own (beside a tensor eager's vectors and their remainder differ)."""
    given = torch.tensor([-0.0, 0.0, -1.0, 1.0, 9.0] * 8)
    (found,) = targets.run_cpp(programs(BOUNDS[name], given)[1], (given,))
    assert torch.equal(found.signbit(), BOUNDS[name](given).signbit())


def test_powers_are_products():
    """Integers to any constant, floats up to the eighth power; a power of two is exact."""
    check(lambda n: [n**0, n**4, n**7, n**63, n.to(torch.uint8) ** 5], n, must_be_triton=True)
    check(lambda x: [x**4, x**5, x**7, x**8, x**9, 2.0**x], x)
    whole = torch.arange(-150.0, 129.0)
    (found,) = targets.run_cpp(programs(lambda x: 2.0**x, whole)[1], (whole,))
    assert torch.equal(found, 2.0**whole)
