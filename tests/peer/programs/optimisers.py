"""torch.optim and torch.nn.utils inside a compiled function."""

import torch
from torch import nn
from torch.nn.utils import parametrize

from tests.peer.program import program

ones, arange = torch.ones, torch.arange


def model():
    net = nn.Linear(3, 2)
    for p in net.parameters():
        p.grad = torch.full_like(p, 0.5)
    return net


def stepping(make, calls=3):
    net = model()
    opt = make(net.parameters())

    def step():
        opt.step()

    def call(compiled):
        compiled()
        return [p.detach().clone() for p in net.parameters()], [
            {k: v.clone() if isinstance(v, torch.Tensor) else v for k, v in s.items()} for s in opt.state.values()
        ]

    return step, [call] * calls


@program()
def manual_sgd_on_parameters():
    net = model()

    def f(lr):
        with torch.no_grad():
            for p in net.parameters():
                p -= lr * p.grad
                p.grad.zero_()

    def call(compiled):
        compiled(0.1)
        return [p.detach().clone() for p in net.parameters()]

    return f, [call, call]


@program()
def own_parametrization():
    class Symmetric(nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).transpose(-1, -2)

    net = nn.Linear(3, 3)
    parametrize.register_parametrization(net, "weight", Symmetric())

    def f(x):
        return net(x) + net.weight.sum()

    return f, [(ones(1, 3),)]
