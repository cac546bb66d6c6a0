"""Hooks registered in the function, stored gradients and data, modules with sizes from the first input."""

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


# -- data, leaves and hooks of tensors that the function creates ----------------------------


@program()
def data_of_an_input_is_set():
    def f(x):
        x.data = x * 2
        return x + 1

    def call(g):
        x = arange(3.0)
        return g(x), x, x._version

    return f, [call]


@program()
def data_of_a_result_is_set():
    def f(x):
        y = x * 2
        y.data = x + 1
        return y * 3

    return f, [(ones(3),)]


@program()
def data_of_a_parameter_is_set():
    linear = nn.Linear(3, 3)

    def f(x):
        linear.weight.data = linear.weight.data * 0.5
        return linear(x)

    def call(g):
        g(ones(2, 3)).sum().backward()
        return linear.weight.detach() * 0, linear.weight.grad

    return f, [call]


@program()
def a_module_is_converted_inside():
    linear = nn.Linear(3, 3)

    def f(x):
        return linear.double()(x.double())

    return f, [(ones(2, 3),), (ones(2, 3),)]


@program()
def a_module_that_is_converted_already():
    linear = nn.Linear(3, 3)

    def f(x):
        return linear.to(x.dtype).cpu()(x)

    return f, [(ones(2, 3),)]


@program()
def a_new_leaf_stays_inside():
    def f(x):
        y = (x * 2).detach().requires_grad_()
        return (y * 3).detach() + x

    return f, [(ones(3),)]


@program()
def a_new_leaf_is_returned():
    def f(x):
        y = x * 2
        y.requires_grad_()
        return y.sum() * 2

    return f, [(ones(3),)]


def backward_of(g):
    x = arange(3.0).requires_grad_()
    g(x).sum().backward()
    return x.grad


@program()
def hook_of_a_result():
    def f(x):
        y = x * 2
        y.register_hook(lambda grad: grad * 3)
        return y.sin()

    return f, [backward_of]


@program()
def two_hooks_of_a_result_one_closes_over_a_tensor():
    k = torch.tensor(5.0)

    def f(x):
        y = x * 2
        y.register_hook(lambda grad: grad * k)
        z = y.cos()
        y.register_hook(lambda grad: grad + 1)
        return z * y

    return f, [backward_of]


@program()
def hook_of_a_result_that_returns_nothing():
    def f(x):
        y = x * 2
        y.register_hook(lambda grad: None)
        return y.sin()

    return f, [backward_of]


@program(torch_differs="torch fails: the handle of a hook in the graph cannot be removed")
def hook_of_a_result_is_removed():
    def f(x):
        y = x * 2
        handle = y.register_hook(lambda grad: grad * 3)
        z = y.sin()
        handle.remove()
        return z

    return f, [backward_of]
