"""nn.Module apart from calls: created in the function, lazy, hooks, names, state, parameters as values."""

import collections

import torch
import torch.nn.functional as F
from torch import nn

from tests.peer.program import program

ones, arange = torch.ones, torch.arange


@program()
def activation_made_inside():
    def f(x):
        return nn.Sequential(nn.ReLU(), nn.Sigmoid())(x) + nn.Softmax(dim=-1)(x)

    return f, [(ones(1, 3),)]


@program()
def buffer_registered_in_forward():
    class Net(nn.Module):
        def forward(self, x):
            if not hasattr(self, "seen"):
                self.register_buffer("seen", torch.zeros(3))
            self.seen += x
            return self.seen * 2

    return Net(), [(ones(3),), (ones(3),)]


@program()
def names_of_members():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
            self.b = nn.ModuleDict({"k": nn.Linear(2, 2)})
            self.register_buffer("buf", ones(2))

        def forward(self, x):
            total = 0
            for name, p in self.named_parameters():
                if "bias" in name:
                    total = total + p.sum()
            for name, m in self.named_modules():
                if isinstance(m, nn.Linear):
                    x = m(x)
            for name, b in self.named_buffers():
                x = x + b
            for name, c in self.named_children():
                x = x + len(name)
            return x + total, [n for n, _ in self.named_parameters()], len(list(self.children()))

    return Net(), [(ones(1, 2),)]


@program()
def forward_hooks():
    net = nn.Linear(3, 2)
    net.register_forward_hook(lambda m, i, o: o * 2)
    net.register_forward_pre_hook(lambda m, i: (i[0] + 1,))

    def f(x):
        return net(x)

    return f, [(ones(1, 3),)]


@program()
def forward_hook_with_kwargs():
    class Net(nn.Module):
        def forward(self, x, *, k=1):
            return x * k

    net = Net()
    net.register_forward_pre_hook(lambda m, args, kwargs: (args, {**kwargs, "k": 3}), with_kwargs=True)
    net.register_forward_hook(lambda m, args, kwargs, out: out + kwargs["k"], with_kwargs=True)

    def f(x):
        return net(x, k=2)

    return f, [(ones(3),)]


@program()
def batch_norm_updates():
    net = nn.BatchNorm1d(3)

    def call(compiled):
        out = compiled(arange(6.0).reshape(2, 3))
        return out, net.running_mean.clone(), net.num_batches_tracked.clone()

    return net, [call, call]


@program()
def parameter_list_and_dict():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.ps = nn.ParameterList([nn.Parameter(ones(3)), nn.Parameter(ones(3) * 2)])
            self.pd = nn.ParameterDict({"a": nn.Parameter(ones(3) * 3)})

        def forward(self, x):
            for p in self.ps:
                x = x * p
            return x + self.ps[1] + self.pd["a"] + len(self.ps) + sum(len(k) for k in self.pd), "a" in self.pd

    return Net(), [(ones(3),)]


@program()
def module_list_operations():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3)])

        def forward(self, x):
            for layer in self.layers[1:]:
                x = layer(x)
            for i, layer in enumerate(reversed(self.layers)):
                x = layer(x) + i
            return self.layers[-1](x), len(self.layers)

    return Net(), [(ones(1, 3),)]


@program()
def apply_and_buffers():
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))

    def f(x):
        count = sum(p.numel() for p in net.parameters() if p.requires_grad)
        names = [type(m).__name__ for m in net.modules()]
        return net(x) * count, names, next(net.parameters()).dtype, net.get_parameter("0.weight").shape

    return f, [(ones(2, 3),)]


@program()
def submodule_replaced():
    net = nn.Sequential(nn.Linear(3, 3), nn.ReLU())

    def f(x):
        return net(x)

    def replace(compiled):
        net[1] = nn.Sigmoid()
        return compiled(ones(1, 3))

    return f, [(ones(1, 3),), replace]


@program()
def buffer_class():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.b = nn.Buffer(ones(3))
            self.register_buffer("n", None)
            self.register_parameter("p", None)

        def forward(self, x):
            if self.n is None and self.p is None:
                x = x + 1
            return x * self.b

    return Net(), [(ones(3),)]


@program()
def recurrent_cells():
    net = nn.GRUCell(3, 4)

    def f(x, h):
        for _ in range(2):
            h = net(x, h)
        return h

    return f, [(ones(1, 3), ones(1, 4))]


@program()
def lstm_breaks():
    net = nn.LSTM(3, 4)

    def f(x):
        return net(x)[0] * 2

    return f, [(ones(2, 1, 3),)]


@program()
def attention_and_transformer():
    net = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)

    def f(x):
        return net(x)

    return f, [(ones(1, 4, 8),)]


@program()
def multihead_attention_of_a_function():
    net = nn.MultiheadAttention(8, 2, batch_first=True)

    def f(x):
        return net(x, x, x, need_weights=False)[0]

    return f, [(ones(1, 4, 8),)]


@program()
def losses():
    ce, mse = nn.CrossEntropyLoss(label_smoothing=0.1), nn.MSELoss(reduction="sum")

    def f(x, t):
        return (
            ce(x, t)
            + mse(x, x * 2)
            + F.nll_loss(F.log_softmax(x, -1), t)
            + F.smooth_l1_loss(x, x + 1)
            + F.kl_div(x, x.exp())
        )

    return f, [(arange(6.0).reshape(2, 3), torch.tensor([0, 2]))]


@program()
def convolutions_and_pools():
    net = nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1),
        nn.BatchNorm2d(2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )

    def f(x):
        return net(x)

    return f, [(arange(64.0).reshape(1, 1, 8, 8),)]


@program()
def embeddings():
    emb, bag = nn.Embedding(10, 4, padding_idx=0), nn.EmbeddingBag(10, 4)

    def f(i):
        return emb(i), bag(i), F.one_hot(i, 10)

    return f, [(torch.tensor([[1, 2], [0, 3]]),)]


@program()
def module_with_slots_and_properties():
    class Net(nn.Module):
        factor = 3

        def __init__(self):
            super().__init__()
            self._scale = 2.0

        @property
        def scale(self):
            return self._scale * self.factor

        @scale.setter
        def scale(self, value):
            self._scale = value

        def forward(self, x):
            self.scale = self.scale + 1
            return x * self.scale

    return Net(), [(ones(3),), (ones(3),)]


@program()
def parameters_as_arguments():
    def f(w, b, x):
        return F.linear(x, w, b), w.requires_grad, type(w) is nn.Parameter

    return f, [(nn.Parameter(ones(2, 3)), nn.Parameter(ones(2)), ones(1, 3))]


@program()
def identity_container():
    class Config:
        hidden = 4

    class Net(nn.Module):
        def __init__(self, config):
            super().__init__()
            self.config = config
            self.layers = nn.Sequential(collections.OrderedDict([("fc", nn.Linear(3, 3)), ("act", nn.GELU())]))

        def forward(self, x):
            return self.layers.fc(x) * self.config.hidden + self.layers(x)

    return Net(Config()), [(ones(1, 3),)]


class Scaled(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.k = k
        self.linear = nn.Linear(2, 2)

    def forward(self, x):
        return x * self.k + self.linear(x).sum() * 0


@program()
def modules_are_made_inside():
    def f(x):
        modules = [Scaled(k) for k in range(2)]
        return modules[1](x)

    return f, [(ones(2),)]
