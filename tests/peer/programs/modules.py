"""nn.Module: parameters as inputs, containers, buffers, inheritance, training and evaluation."""

import torch
from torch import nn

from tests.peer.program import program

ones, arange = torch.ones, torch.arange


class Block(nn.Module):
    def __init__(self, width, *, scale=1.0):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.scale = scale

    def forward(self, x):
        return torch.relu(self.linear(x)) * self.scale


class Residual(Block):
    def forward(self, x, *, skip=True):
        y = super().forward(x)
        return x + y if skip else y


class Net(nn.Module):
    def __init__(self, width=4, depth=2):
        super().__init__()
        self.blocks = nn.ModuleList(Residual(width) for _ in range(depth))
        self.heads = nn.ModuleDict({"a": nn.Linear(width, 1), "b": nn.Linear(width, 2)})
        self.bias = nn.Parameter(torch.zeros(width))
        self.register_buffer("steps", torch.zeros(1))
        self.calls = 0

    def forward(self, x, head="a"):
        for i, block in enumerate(self.blocks):
            x = block(x, skip=i > 0)
        return self.heads[head](x + self.bias)


@program()
def linear():
    return nn.Linear(3, 2), [(ones(4, 3),), (ones(4, 3),)]


@program()
def sequential():
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2), nn.Sigmoid()), [(ones(2, 3),)]


@program()
def module_called_by_a_function():
    net = nn.Linear(3, 2)

    def f(x):
        return net(x) + net.weight.sum() + net.in_features

    return f, [(ones(4, 3),)]


@program()
def module_as_an_argument():
    def f(net, x):
        return net(x) * 2

    return f, [(nn.Linear(3, 2), ones(4, 3)), (nn.Linear(3, 2), ones(4, 3)), (nn.Identity(), ones(4, 3))]


@program()
def nested_modules_and_super():
    return Net(), [(ones(2, 4),), lambda compiled: compiled(ones(2, 4), head="b")]


@program()
def forward_called_by_name():
    net = Residual(3)

    def f(x):
        return net.forward(x) + Block.forward(net, x)

    return f, [(ones(2, 3),)]


@program()
def buffers_are_updated():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(1))
            self.register_buffer("last", torch.zeros(2))

        def forward(self, x):
            self.count += 1
            self.last = x.detach() * 2
            return x * self.count

    return Counter(), [(ones(2),), (ones(2),)]


@program()
def attribute_of_a_module_is_counted():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0

        def forward(self, x):
            self.calls += 1
            return x + self.calls

    return Counter(), [(ones(2),)] * 4


@program()
def dropout_in_training_and_evaluation():
    net = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))

    def in_evaluation(compiled):
        net.eval()
        return compiled(ones(2, 3))

    return net, [(ones(2, 3),), in_evaluation, (ones(2, 3),)]


@program()
def convolution_and_batch_norm():
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()
    ).eval()
    return net, [(ones(1, 3, 4, 4),)]


@program()
def batch_norm_in_training():
    return nn.BatchNorm1d(3), [(arange(6.0).view(2, 3),), (arange(6.0).view(2, 3),)]


@program()
def embedding_and_layer_norm():
    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(10, 4)
            self.norm = nn.LayerNorm(4)

        def forward(self, ids):
            return self.norm(self.embedding(ids)).mean(dim=1)

    return Encoder(), [(torch.tensor([[1, 2], [3, 4]]),)]


@program()
def multihead_attention():
    attention = nn.MultiheadAttention(4, 2, batch_first=True)

    def f(x):
        y, weights = attention(x, x, x)
        return y, weights

    return f, [(ones(1, 3, 4),)]


@program()
def multihead_attention_without_weights():
    attention = nn.MultiheadAttention(4, 2, batch_first=True).eval()

    def f(x):
        return attention(x, x, x, need_weights=False)[0]

    return f, [(ones(1, 3, 4),)]


@program(oracle="torch.compile")  # the layer checks if it is traced: eager mode calls one operator, with other strides
def multihead_attention_for_inference():
    attention = nn.MultiheadAttention(4, 2, batch_first=True).eval()

    def f(x, mask):
        with torch.no_grad():
            return attention(x, x, x, key_padding_mask=mask, need_weights=False)[0]

    return f, [(ones(1, 3, 4), torch.tensor([[False, False, True]]))]


@program()
def transformer_layer_for_inference():
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()
    return layer, [lambda f: torch.no_grad()(f)(torch.arange(12.0).reshape(1, 3, 4))]


@program()
def transformer_layer():
    return nn.TransformerEncoderLayer(4, 2, 8, batch_first=True, dropout=0.0), [(ones(1, 3, 4),)]


@program()
def parameters_are_iterated():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))

    def f(x):
        total = sum(p.sum() for p in net.parameters())
        named = {name: p.numel() for name, p in net.named_parameters()}
        return x * total, named, len(list(net.children())), len(net), [type(m).__name__ for m in net.modules()]

    return f, [(ones(2),)]


@program()
def module_containers_are_indexed():
    class Stack(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(2, 2), nn.Tanh()])
            self.table = nn.ParameterList([nn.Parameter(ones(2)), nn.Parameter(ones(2) * 2)])
            self.byname = nn.ModuleDict({"x": nn.ReLU()})

        def forward(self, x):
            x = self.layers[0](x) + self.layers[-1](x) + len(self.layers)
            for layer in self.layers[1:]:
                x = layer(x)
            for name, layer in self.byname.items():
                x = layer(x) if name in self.byname else x
            return x * self.table[1]

    return Stack(), [(ones(2),)]


@program()
def method_of_a_module():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(2, 2)

        def encode(self, x):
            return self.first(x)

        @property
        def width(self):
            return self.first.out_features

        def forward(self, x):
            return self.encode(x) * self.width

    return Two(), [(ones(2),)]


@program()
def one_class_many_instances():
    blocks = [Block(2, scale=2.0) for _ in range(3)]

    def f(x):
        for block in blocks:
            x = block(x)
        return x

    return f, [(ones(2),)]


@program()
def shared_module():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(2, 2)
            self.b = nn.Linear(2, 2)
            self.b.weight = self.a.weight
            self.again = self.a

        def forward(self, x):
            return self.b(self.a(x)) + self.again(x)

    return Tied(), [(ones(2),)]


@program()
def training_step_with_loss():
    net = nn.Sequential(nn.Linear(2, 3), nn.GELU(), nn.Linear(3, 1))
    loss = nn.MSELoss()

    def f(x, y):
        return loss(net(x), y)

    def step(compiled):
        compiled(ones(4, 2), ones(4, 1)).backward()
        for p in net.parameters():
            p.data -= 0.1 * p.grad
            p.grad = None
        return [p.detach().clone() for p in net.parameters()]

    return f, [step, step]


@program()
def forward_hook():
    net = nn.Linear(2, 2)
    net.register_forward_hook(lambda module, arguments, output: output * 2)

    def f(x):
        return net(x)

    return f, [(ones(2),)]


@program(torch_differs="torch does not look for hooks that a module gets after it was compiled")
def hook_is_added_between_calls():
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())

    def f(x):
        return net(x) + 1

    def with_a_hook(compiled):
        handle = net[0].register_forward_hook(lambda module, arguments, output: output * 2)
        result = compiled(ones(2))
        handle.remove()
        return result

    return f, [(ones(2),), with_a_hook, (ones(2),)]


@program()
def loss_is_made_inside():
    def f(x, labels):
        return nn.CrossEntropyLoss(reduction="sum")(x, labels) + nn.MSELoss()(x, x + 1)

    return f, [(ones(3, 4), torch.tensor([0, 1, 2]))]


@program()
def functional_call():
    net = nn.Linear(2, 2)

    def f(parameters, x):
        return torch.func.functional_call(net, parameters, (x,))

    return f, [({"weight": ones(2, 2), "bias": ones(2)}, ones(2))]


@program()
def module_attribute_of_a_plain_object():
    class Holder:
        def __init__(self):
            self.net = nn.Linear(2, 2)
            self.gain = 3

    holder = Holder()

    def f(x):
        return holder.net(x) * holder.gain

    return f, [(ones(2),)]


@program()
def module_replaced_between_calls():
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.act = nn.ReLU()

        def forward(self, x):
            return self.act(x)

    outer = Outer()

    def replaced(compiled):
        outer.act = nn.Tanh()
        return compiled(ones(2))

    return outer, [(ones(2),), replaced]


@program()
def recurrent_layer():
    net = nn.LSTM(2, 3)

    def f(x):
        y, (h, c) = net(x + 1)
        return y.sum() + h.sum()

    return f, [(ones(4, 1, 2),)]


@program()
def parameters_are_replaced_while_running():
    class Changing(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(2, 2, bias=False)
            self.register_buffer("state", torch.zeros(2))
            self.cache = None

        def forward(self, x):
            self.state = self.state + x
            if self.cache is None:
                self.cache = x * 2
            names = [name for name, _ in self.named_buffers()]
            return self.net(x) + self.state + self._buffers["state"] + self.cache, names

    return Changing(), [(ones(2),), (ones(2),), (ones(2),)]


@program()
def submodule_is_swapped_while_running():
    class Swapping(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.ReLU(), nn.Tanh()

        def forward(self, x):
            y = self.first(x)
            self.first, self.second = self.second, self.first
            return y + self.first(x), [name for name, _ in self.named_children()]

    return Swapping(), [(-ones(2),), (-ones(2),)]


@program()
def training_flag_is_read():
    class Mode(nn.Module):
        def forward(self, x):
            return x + 1 if self.training else x - 1

    net = Mode()

    def switched(compiled):
        net.eval()
        return compiled(ones(2))

    return net, [(ones(2),), switched]


@program()
def hooks_before_and_after():
    net = nn.Linear(2, 2)
    net.register_forward_pre_hook(lambda module, arguments: (arguments[0] + 1,))
    net.register_forward_hook(lambda module, arguments, kwargs, output: output * 2, with_kwargs=True)

    def f(x):
        return net(x) + 1

    return f, [(ones(2),)]


@program()
def own_setattr_and_getattr():
    class Wrapping(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Linear(2, 2)

        def __setattr__(self, name, value):
            super().__setattr__(name + "_" if name.startswith("x") else name, value)

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(self.net, name)

        def forward(self, x):
            self.xs = x + 1
            return self.xs_ * self.out_features

    return Wrapping(), [(ones(2),)]


@program()
def modules_in_containers_of_python():
    layers = [nn.Linear(2, 2), nn.ReLU()]
    table = {"a": nn.Tanh()}

    def f(x, pair):
        for layer in (*layers, *table.values(), *pair):
            x = layer(x)
        return x

    return f, [(ones(2), (nn.Sigmoid(),)), (ones(2), (nn.ReLU(),))]


@program()
def sequential_is_sliced_and_iterated():
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2))

    def f(x):
        y = net[:2](x)
        for name, layer in net.named_children():
            y = y + layer(x) if name != "1" else y
        return y, net[-1](x), len(net), nn.ReLU in [type(each) for each in net]

    return f, [(ones(2),)]


@program()
def state_of_a_module_is_read():
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))

    def f(x):
        total = sum(b.sum() for b in net.buffers())
        flags = [p.requires_grad for p in net.parameters()]
        return x + total, flags, isinstance(net[0], nn.Linear), hasattr(net, "missing"), net.training

    def frozen(compiled):
        net[0].weight.requires_grad_(False)
        return compiled(ones(2))

    return f, [(ones(2),), frozen]


@program()
def layer_is_added_between_calls():
    net = nn.Sequential(nn.ReLU())

    def f(x):
        return net(x)

    def added(compiled):
        net.append(nn.Tanh())
        return compiled(ones(2))

    return f, [(ones(2),), added]


@program()
def forward_of_an_instance_is_replaced():
    net = nn.ReLU()

    def f(x):
        return net(x)

    def replaced(compiled):
        net.forward = lambda x: x * 3
        return compiled(ones(2))

    return f, [(ones(2),), replaced, (ones(2),)]


_compiled_by_torch = torch.compile(Block(3), backend="eager")


@program()
def module_that_torch_compiled():
    def f(x):
        return _compiled_by_torch(x + 1) * _compiled_by_torch.scale

    return f, [(ones(2, 3),), (ones(2, 3),)]


@program(config={"allow_rnn": True})
def recurrent_layers_that_are_allowed():
    first, second = nn.LSTM(3, 4), nn.GRU(4, 2, num_layers=2, bidirectional=True)

    def f(x):
        y, state = second(first(x)[0])
        return y + 1, state

    return f, [(ones(2, 1, 3),)]
