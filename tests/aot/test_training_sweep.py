"""Many small networks and losses train as in eager mode: in float32, in float64, and in bfloat16 under autocast."""

from __future__ import annotations

import contextlib

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import nbcompile
from tests.support.observed import agrees_with_eager, is_as_near_as_eager

IMAGE, ROWS, WORDS = (2, 4, 8, 8), (5, 8), (3, 6)
NETWORKS = {
    # name: (network, shape of its input)
    "linear": (lambda: nn.Linear(8, 3), ROWS), "bilinear": (lambda: TwoInputs(nn.Bilinear(8, 8, 3)), ROWS),
    "two layers": (lambda: nn.Sequential(nn.Linear(8, 9), nn.ReLU(), nn.Linear(9, 2)), ROWS),
    "activations": (lambda: nn.Sequential(nn.GELU(), nn.SiLU(), nn.Mish(), nn.ELU(), nn.Softplus(), nn.Tanh(), nn.Hardswish()), ROWS),
    "more activations": (lambda: nn.Sequential(nn.LeakyReLU(), nn.SELU(), nn.CELU(), nn.Softsign(), nn.LogSigmoid(), nn.Tanhshrink(), nn.Hardtanh()), ROWS),
    "gates": (lambda: nn.Sequential(nn.Linear(8, 8), nn.GLU(), nn.PReLU(), nn.Softmin(-1)), ROWS),
    "layer norm": (lambda: nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 4)), ROWS),
    "rms norm": (lambda: nn.Sequential(nn.RMSNorm(8), nn.Linear(8, 4)), ROWS),
    "batch norm": (lambda: nn.Sequential(nn.BatchNorm1d(8), nn.Linear(8, 4)), ROWS),
    "batch norm of images": (lambda: nn.Sequential(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6), nn.ReLU()), IMAGE),
    "group norm": (lambda: nn.Sequential(nn.GroupNorm(2, 4), nn.Conv2d(4, 2, 1)), IMAGE),
    "instance norm": (lambda: nn.InstanceNorm2d(4, affine=True), IMAGE),
    "local response norm": (lambda: nn.LocalResponseNorm(2), IMAGE),
    "convolutions": (lambda: nn.Sequential(nn.Conv2d(4, 8, 3, padding=1, groups=2), nn.Conv2d(8, 2, 3, stride=2, dilation=2)), IMAGE),
    "transposed convolution": (lambda: nn.ConvTranspose2d(4, 3, 3, stride=2), IMAGE),
    "max pool": (lambda: nn.Sequential(nn.Conv2d(4, 4, 3), nn.MaxPool2d(3, 2, 1)), IMAGE),
    "average pool": (lambda: nn.Sequential(nn.AvgPool2d(3, 2, 1), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 2)), IMAGE),
    "adaptive max pool": (lambda: nn.AdaptiveMaxPool2d(3), IMAGE),
    "resized": (lambda: nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(4, 2, 3), nn.Upsample(size=5, mode="bilinear")), IMAGE),
    "padded": (lambda: nn.Sequential(nn.ReflectionPad2d(2), nn.ReplicationPad2d(1), nn.ConstantPad2d(1, 0.5), nn.Conv2d(4, 2, 3)), IMAGE),
    "shuffled": (lambda: nn.Sequential(nn.PixelShuffle(2), nn.PixelUnshuffle(4), nn.Conv2d(16, 1, 1)), IMAGE),
    "attention": (lambda: Attention(), (2, 6, 8)),
    "encoder layer": (lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), (2, 6, 8)),
    "decoder layer": (lambda: Decoder(), (2, 6, 8)),
    "one parameter twice": (lambda: Tied(), ROWS), "frozen half": (lambda: Frozen(), ROWS),
    "weight norm": (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(8, 3)), ROWS),
    "one hot": (lambda: Mixture(), ROWS), "scan": (lambda: Scan(), ROWS), "sorted": (lambda: Sorted(), ROWS),
    "unused part": (lambda: Residual(), ROWS),
}  # fmt: skip


class TwoInputs(nn.Module):
    """A network that takes the same input twice."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner(x, x.flip(0))


class Attention(nn.Module):
    """Attention with a causal mask."""

    def __init__(self):
        super().__init__()
        self.inner = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        mask = torch.ones(6, 6, dtype=torch.bool).triu(1)
        return self.inner(x, x, x, attn_mask=mask, need_weights=False)[0]


class Decoder(nn.Module):
    """A decoder layer over its own input."""

    def __init__(self):
        super().__init__()
        self.inner = nn.TransformerDecoderLayer(8, 2, 16, dropout=0.0, batch_first=True)

    def forward(self, x):
        return self.inner(x, x.flip(1))


class Tied(nn.Module):
    """A matrix that is used twice, the second time transposed."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 5))

    def forward(self, x):
        return (x @ self.weight).tanh() @ self.weight.t()


class Frozen(nn.Module):
    """A frozen first layer, and a sum with a detached part."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 8).requires_grad_(False), nn.Linear(8, 8)

    def forward(self, x):
        y = self.first(x).relu()
        with torch.no_grad():
            scale = y.norm()
        return self.second(y) / scale + y.detach()


class Mixture(nn.Module):
    """Each row goes to one of three layers, by a computed index."""

    def __init__(self):
        super().__init__()
        self.gate, self.experts = nn.Linear(8, 3), nn.Parameter(torch.randn(3, 8, 4))

    def forward(self, x):
        probability = self.gate(x).softmax(-1)
        best = probability.argmax(-1)
        return torch.einsum("bi,bij->bj", x, self.experts[best].to(x.dtype)) * probability.gather(1, best[:, None])


class Scan(nn.Module):
    """Running sums, products and maxima."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x):
        y = self.inner(x)
        return y.cumsum(1) + y.tanh().cumprod(1) + y.cummax(1)[0] + y.logcumsumexp(1)


class Sorted(nn.Module):
    """The largest elements, in order."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(8, 8)

    def forward(self, x):
        y = self.inner(x)
        return y.sort(1)[0] * y.topk(3, 1)[0].sum(1, keepdim=True) + y.median(1, keepdim=True)[0]


class Residual(nn.Module):
    """A chain of residual blocks."""

    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    def forward(self, x):
        for block in self.blocks:
            x = x + F.gelu(block(F.layer_norm(x, (8,))))
        return x


LOSSES = {
    "mse": lambda x, t: F.mse_loss(x, t), "l1": lambda x, t: F.l1_loss(x, t), "smooth": lambda x, t: F.smooth_l1_loss(x, t),
    "huber": lambda x, t: F.huber_loss(x, t, reduction="sum"), "bce": lambda x, t: F.binary_cross_entropy_with_logits(x, t.sigmoid()),
    "kl": lambda x, t: F.kl_div(x.log_softmax(1), t.softmax(1), reduction="batchmean"),
    "cross entropy": lambda x, t: F.cross_entropy(x, t.argmax(1), label_smoothing=0.1, weight=torch.arange(1.0, 9).to(x)),
    "probabilities": lambda x, t: F.cross_entropy(x, t.softmax(1)), "nll": lambda x, t: F.nll_loss(x.log_softmax(1), t.argmin(1), ignore_index=2),
    "poisson": lambda x, t: F.poisson_nll_loss(x, t.abs()), "cosine": lambda x, t: F.cosine_embedding_loss(x, t, torch.ones(5).to(x)),
    "hinge": lambda x, t: F.hinge_embedding_loss(x, t.sign()), "margin": lambda x, t: F.multi_margin_loss(x, t.argmax(1)),
    "triplet": lambda x, t: F.triplet_margin_loss(x, t, t.flip(0)), "ranking": lambda x, t: F.margin_ranking_loss(x, t, t.sign()),
    "soft": lambda x, t: F.soft_margin_loss(x, t.detach().sign()), "many labels": lambda x, t: F.multilabel_soft_margin_loss(x, (t > 0).to(x)),
    "distance": lambda x, t: torch.cdist(x, t).mean() + F.pairwise_distance(x, t).sum(),
}  # fmt: skip
ONLY_IN_PARTS = {("margin", torch.bfloat16)}
"""Eager has no kernel for these; they are compiled, as by torch.compile, from operators that have one."""
WAYS = ["float32", "float64", "autocast"]


def step(compiled, network, inputs, way):
    """The state after two steps of gradient descent."""
    network = network.double() if way == "float64" else network
    x = (inputs.double() if way == "float64" else inputs).requires_grad_()
    run = compiled(network)
    losses = []
    for _ in range(2):
        casting = torch.autocast("cpu", torch.bfloat16) if way == "autocast" else contextlib.nullcontext()
        with casting:
            loss = run(x).float().square().mean()
        loss.backward()
        losses.append(loss.detach())
        with torch.no_grad():
            for each in network.parameters():
                if each.grad is not None:
                    each -= 0.01 * each.grad
    return losses, x, list(network.buffers()), [each.grad for each in network.parameters()]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name, way):
    """Losses, gradients and running statistics of two steps equal eager's."""
    make, shape = NETWORKS[name]

    def program(compiled, way=way):
        return step(compiled, make(), torch.randn(shape), way)

    if way == "autocast":
        is_as_near_as_eager(program, lambda same: program(same, "float64"), torch.finfo(torch.bfloat16).eps)
    else:
        agrees_with_eager(program)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", LOSSES)
def test_losses(name, dtype):
    """The loss and the gradients of both arguments equal eager's."""

    def program(compiled, computed=dtype):
        x, t = (torch.randn(5, 8).to(dtype).to(computed).requires_grad_() for _ in range(2))
        loss = compiled(LOSSES[name])(x, t)
        loss.backward()
        return loss.detach(), x, t

    if (name, dtype) not in ONLY_IN_PARTS:
        return agrees_with_eager(program)
    with pytest.raises(NotImplementedError):
        program(lambda function: function)
    torch.manual_seed(0)
    found = program(nbcompile.compile)
    torch.manual_seed(0)
    expected = program(lambda function: function, torch.float32)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.float(), other, rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(found[1].grad.float(), expected[1].grad, rtol=1e-2, atol=1e-2)
