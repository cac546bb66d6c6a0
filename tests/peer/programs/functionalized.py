"""Functions that are compiled under torch.func.functionalize, and receive its wrappers as arguments."""

import torch
from torch import nn
from torch.func import functionalize, grad, vmap

from tests.peer.program import program

ones = torch.ones


@program()
def functionalized_call():
    def f(x):
        y = x.clone()
        y.add_(1)
        return y.sin()

    return f, [lambda c: functionalize(c)(ones(3))]


@program()
def functionalized_mutation_of_an_argument():
    def f(x):
        x.add_(1)
        return x[0:2].mul_(2)

    return f, [lambda c: functionalize(c)(ones(3)), lambda c: functionalize(c)(ones(4)), lambda c: c(ones(3))]


@program()
def functionalized_call_that_breaks():
    def f(x):
        x = x + 1
        torch._dynamo.graph_break()
        return x * 2

    return f, [lambda c: functionalize(c)(ones(3))]


@program()
def functionalized_without_views():
    def f(x):
        return x.view(-1).add_(1).t()

    return f, [lambda c: functionalize(c, remove="mutations_and_views")(ones(3, 3))]


@program()
def functionalized_call_that_writes_a_closed_over_tensor():
    k = ones(3)

    def f(x):
        k.add_(x)
        return k * 2

    return f, [lambda c: functionalize(c)(ones(3)), lambda c: functionalize(c)(ones(3))]


@program()
def functionalized_module_call():
    m = nn.Linear(3, 3)

    def f(x):
        return m(x).relu_()

    return f, [lambda c: functionalize(c)(ones(3)), lambda c: functionalize(c)(ones(2, 3))]


@program()
def functionalized_vmap():
    def f(x):
        return vmap(lambda z: z.sin().add_(1))(x)

    return f, [lambda c: functionalize(c)(ones(3, 2))]


@program()
def functionalized_call_that_needs_a_gradient():
    def f(x):
        return x.sin().add_(1)

    return f, [lambda c: functionalize(c)(ones(3, requires_grad=True))]


@program()
def functionalized_dict():
    def f(x, d):
        d["a"].add_(x)
        return {"r": d["a"] * 2}

    return f, [lambda c: functionalize(c)(ones(3), {"a": ones(3)})]


@program()
def functionalized_and_plain_calls_in_turn():
    def f(x):
        y = x.sin()
        y.add_(1)
        return y

    return f, [lambda c: functionalize(c)(ones(3))] * 5 + [lambda c: c(ones(3))] * 4 + [
        lambda c: functionalize(c)(ones(3))
    ] * 3


@program()
def functionalized_call_without_arguments():
    def f():
        y = torch.ones(3)
        y.add_(1)
        return y

    return f, [lambda c: functionalize(c)()] * 4 + [lambda c: c()] * 4 + [lambda c: functionalize(c)()] * 2


@program()
def functionalized_call_of_a_helper_that_prints():
    def helper(x):
        print("in helper")
        return x.mul_(2)

    def f(x):
        y = x + 1
        y = helper(y)
        return y.sin()

    return f, [lambda c: functionalize(c)(ones(3))] * 3


@program()
def functionalized_sizes():
    def f(x):
        return x.sin().add_(x.shape[0])

    return f, [lambda c, n=n: functionalize(c)(ones(n)) for n in (3, 4, 5, 6)]


@program()
def functionalized_gradient():
    def f(x):
        return grad(lambda z: z.sin().add_(1).sum())(x)

    return f, [lambda c: functionalize(c)(ones(3))]


@program()
def functionalized_module_that_counts():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.n = 0

        def forward(self, x):
            self.n += 1
            return x.mul_(2) + self.n

    m = M()
    return m, [lambda c: functionalize(c)(ones(3)), lambda c: functionalize(c)(ones(3)), lambda c: m.n]
