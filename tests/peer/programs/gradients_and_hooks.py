"""Hooks registered inside, gradients and data that are stored, modules that get their sizes from the first input."""

import torch
from torch import nn

from tests.peer.program import program

ones, arange = torch.ones, torch.arange


class Counted(torch.Tensor):
    calls = 0

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls += 1
        return super().__torch_function__(func, types, args, kwargs or {})


@program(torch_differs="torch counts its own looks at the tensor, too")
def counter_in_class():
    Counted.calls = 0

    def f(x):
        return (x + 1) * 2

    def call(g):
        out = g(ones(3).as_subclass(Counted))
        return type(out).__name__, Counted.calls

    return f, [call, call]


@program()
def data_in_place():
    def f(x):
        x.data.add_(1)
        return x * 2

    return f, [(ones(3),)]


@program()
def grad_setter_none():
    def f(x):
        x.grad = None
        return x * 2

    def call(g):
        x = ones(3, requires_grad=True)
        x.sum().backward()
        g(x)
        return x.grad

    return f, [call]


@program()
def grad_setter_tensor():
    def f(x):
        x.grad = ones(3) * 2
        return x * 2

    def call(g):
        x = ones(3, requires_grad=True)
        g(x)
        return x.grad

    return f, [call]


@program()
def register_hook_on_input():
    def f(x):
        x.register_hook(lambda g: g * 2)
        return (x * 3).sum()

    def call(g):
        x = ones(3, requires_grad=True)
        g(x).backward()
        return x.grad

    return f, [call]


@program()
def post_accumulate_hook():
    def f(x):
        x.register_post_accumulate_grad_hook(lambda p: p.grad.mul_(2))
        return (x * 3).sum()

    def call(g):
        x = ones(3, requires_grad=True)
        g(x).backward()
        return x.grad

    return f, [call]


@program()
def hook_removed():
    def f(x):
        h = x.register_hook(lambda g: g * 2)
        y = x * 3
        h.remove()
        return y.sum()

    def call(g):
        x = ones(3, requires_grad=True)
        g(x).backward()
        return x.grad

    return f, [call]


@program(torch_differs="torch leaves another state of the random numbers behind")
def lazy_linear():
    torch.manual_seed(0)
    net = nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyLinear(2))

    def call(g):
        torch.manual_seed(0)
        return g(ones(2, 3)).shape

    return net, [call, (ones(2, 3),)]


@program(torch_differs="torch leaves another state of the random numbers behind")
def lazy_conv_and_norm():
    net = nn.Sequential(nn.LazyConv2d(2, 3), nn.LazyBatchNorm2d())

    def call(g):
        torch.manual_seed(0)
        return g(ones(1, 2, 5, 5)).shape

    return net, [call]
