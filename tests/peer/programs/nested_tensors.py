"""Nested tensors of layout jagged: as inputs, created in the function, and as arguments of operators."""

import torch
import torch.nn.functional as F
from torch import nn

from tests.peer.program import program

ones, arange = torch.ones, torch.arange


def jagged(*lengths, width=3, grad=False):
    rows = [torch.arange(float(n * width)).reshape(n, width) for n in lengths]
    return torch.nested.nested_tensor(rows, layout=torch.jagged, requires_grad=grad)


def parts(nested):
    return [each.detach().clone() for each in nested.unbind()]


@program()
def jagged_input():
    def f(x):
        return x.sin() * 2

    return f, [lambda g: parts(g(jagged(2, 3)))]


@program()
def jagged_input_other_ragged_size():
    def f(x):
        return x.sin() * 2

    return f, [lambda g: parts(g(jagged(2, 3))), lambda g: parts(g(jagged(2, 4))), lambda g: parts(g(jagged(2, 5, 1)))]


@program()
def jagged_binary_of_two():
    def f(x, y):
        return x + y

    def call(g):
        a = jagged(2, 3)
        return parts(g(a, a * 2))

    return f, [call, call]


@program()
def jagged_made_inside():
    def f(v, o):
        nt = torch.nested.nested_tensor_from_jagged(v, o)
        return (nt * 2).values().sum()

    return f, [(arange(15.0).reshape(5, 3), torch.tensor([0, 2, 5]))]


@program()
def jagged_returned_made_inside():
    def f(v, o):
        return torch.nested.nested_tensor_from_jagged(v, o) * 2

    return f, [lambda g: parts(g(arange(15.0).reshape(5, 3), torch.tensor([0, 2, 5])))]


@program()
def jagged_backward():
    def f(x):
        return (x.sin() * 2).values().sum()

    def call(g):
        x = jagged(2, 3, grad=True)
        g(x).backward()
        return parts(x.grad)

    return f, [call]


@program()
def jagged_linear():
    lin = nn.Linear(3, 2)
    with torch.no_grad():
        lin.weight.fill_(0.5)
        lin.bias.fill_(1)

    def f(x):
        return F.relu(lin(x))

    return f, [lambda g: parts(g(jagged(2, 3)))]


@program()
def jagged_values_and_offsets():
    def f(x):
        return x.values() * 2, x.offsets(), x.size(0), x.dim()

    return f, [lambda g: g(jagged(2, 3))]


@program()
def jagged_unbind():
    def f(x):
        return [t * 2 for t in x.unbind()]

    return f, [lambda g: g(jagged(2, 3))]


@program()
def jagged_sdpa():
    def f(q):
        h = q.unflatten(-1, (2, 2)).transpose(1, 2)
        return F.scaled_dot_product_attention(h, h, h).transpose(1, 2).flatten(2)

    return f, [lambda g: parts(g(jagged(2, 3, width=4)))]


@program()
def jagged_sdpa_contiguous():
    def f(q, k):
        return F.scaled_dot_product_attention(q.transpose(1, 2), k.transpose(1, 2), k.transpose(1, 2)).transpose(1, 2)

    def call(g):
        a = torch.nested.nested_tensor(
            [torch.arange(float(n * 4)).reshape(n, 2, 2) for n in (2, 3)], layout=torch.jagged
        )
        return parts(g(a, a * 2))

    return f, [call]


@program()
def jagged_to_padded():
    def f(x):
        return torch.nested.to_padded_tensor(x, 0.0) * 2

    return f, [lambda g: g(jagged(2, 3))]


@program()
def jagged_shape_ops():
    def f(x):
        return (
            x.unsqueeze(-1).squeeze(-1),
            x.sum(-1),
            x.mean(dim=-1, keepdim=True),
            x.clone(),
            x.detach(),
            x.transpose(1, 2).transpose(1, 2),
        )

    return f, [lambda g: [parts(t) for t in g(jagged(2, 3))]]


@program()
def jagged_from_list_inside():
    def f(a, b):
        return torch.nested.nested_tensor([a, b], layout=torch.jagged) * 2

    return f, [lambda g: parts(g(ones(2, 3), ones(3, 3)))]


@program()
def jagged_as_nested_inside():
    def f(a, b):
        return torch.nested.as_nested_tensor([a, b], layout=torch.jagged) * 2

    return f, [lambda g: parts(g(ones(2, 3), ones(3, 3)))]


@program()
def jagged_narrow_inside():
    def f(a, s, l):
        return torch.nested.narrow(a, 1, s, l, layout=torch.jagged).clone() * 2

    return f, [lambda g: parts(g(ones(2, 5, 3), torch.tensor([0, 1]), torch.tensor([2, 3])))]


@program()
def jagged_isinstance_and_flags():
    def f(x):
        return x.is_nested, x.layout, x.dim(), x.dtype, x.size(0), isinstance(x, torch.Tensor), x.values() + 1

    return f, [lambda g: g(jagged(2, 3))]


@program()
def jagged_softmax_and_layer_norm():
    def f(x):
        return F.layer_norm(x, (3,)), F.softmax(x, -1), F.gelu(x), F.dropout(x, 0.5, False)

    return f, [lambda g: [parts(t) for t in g(jagged(2, 3))]]


@program()
def jagged_module():
    m = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.LayerNorm(4), nn.Linear(4, 2))
    with torch.no_grad():
        for p in m.parameters():
            p.copy_(torch.linspace(-1, 1, p.numel()).reshape(p.shape))

    def f(x):
        return m(x)

    return f, [lambda g: parts(g(jagged(2, 3))), lambda g: parts(g(jagged(4, 3)))]
