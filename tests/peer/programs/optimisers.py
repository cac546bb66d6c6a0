"""torch.optim and torch.nn.utils inside a compiled function."""

import torch
from torch import nn, optim
from torch.nn.utils import parameters_to_vector, parametrizations, parametrize

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
def sgd_step():
    return stepping(lambda p: optim.SGD(p, lr=0.1))


@program()
def sgd_with_momentum():
    return stepping(lambda p: optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True))


@program(torch_differs="the compiled formula rounds differently")
def adam_step():
    return stepping(lambda p: optim.Adam(p, lr=0.1))


@program(torch_differs="the compiled formula rounds differently")
def adamw_step():
    return stepping(lambda p: optim.AdamW(p, lr=0.1, weight_decay=0.1, amsgrad=True))


@program(torch_differs="the compiled formula rounds differently")
def adam_capturable_foreach_off():
    return stepping(lambda p: optim.Adam(p, lr=torch.tensor(0.1), foreach=False, capturable=False))


@program(torch_differs="the compiled formula rounds differently")
def rmsprop_step():
    return stepping(lambda p: optim.RMSprop(p, lr=0.1))


@program()
def adagrad_step():
    return stepping(lambda p: optim.Adagrad(p, lr=0.1))


@program()
def optimiser_step_compiled_directly():
    net = model()
    opt = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def call(compiled):
        compiled()
        return [p.detach().clone() for p in net.parameters()]

    return opt.step, [call, call]


@program()
def zero_grad_inside():
    net = model()
    opt = optim.SGD(net.parameters(), lr=0.1)

    def f(x):
        opt.zero_grad()
        return net(x).sum()

    return f, [(ones(1, 3),)]


@program()
def training_step_without_backward():
    net = model()
    opt = optim.SGD(net.parameters(), lr=0.1)

    def f(x):
        loss = net(x).pow(2).mean()
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss

    def call(compiled):
        return compiled(ones(2, 3)).detach()

    return f, [call, call]


@program()
def clip_grad_norm():
    net = model()

    def f():
        return nn.utils.clip_grad_norm_(net.parameters(), 0.1)

    def call(compiled):
        return compiled(), [p.grad.clone() for p in net.parameters()]

    return f, [call]


@program()
def clip_grad_value():
    net = model()

    def f():
        nn.utils.clip_grad_value_(net.parameters(), 0.1)

    def call(compiled):
        compiled()
        return [p.grad.clone() for p in net.parameters()]

    return f, [call]


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
def exponential_moving_average():
    net, average = nn.Linear(3, 2), nn.Linear(3, 2)

    @torch.no_grad()
    def f(decay):
        for p, q in zip(net.parameters(), average.parameters()):
            q.mul_(decay).add_(p, alpha=1 - decay)

    return f, [lambda compiled: (compiled(0.9), [p.detach().clone() for p in average.parameters()])]


@program()
def foreach_functions():
    def f(xs, ys):
        torch._foreach_mul_(xs, 2.0)
        out = torch._foreach_add(xs, ys)
        return torch._foreach_norm(out), torch.nn.utils.get_total_norm(out)

    return f, [([ones(2), ones(3)], [ones(2), ones(3)])]


@program()
def weight_norm_parametrization():
    net = parametrizations.weight_norm(nn.Linear(3, 2))
    return net, [(ones(1, 3),), (ones(2, 3),)]


@program()
def spectral_norm_parametrization():
    net = parametrizations.spectral_norm(nn.Linear(3, 2)).eval()
    return net, [(ones(1, 3),)]


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


@program()
def old_weight_norm():
    net = torch.nn.utils.weight_norm(nn.Linear(3, 2))

    def f(x):
        return net(x)

    return f, [(ones(1, 3),)]


@program()
def vector_of_parameters():
    net = nn.Linear(3, 2)

    def f(x):
        v = parameters_to_vector(net.parameters())
        return net(x).sum() + v.norm()

    return f, [(ones(1, 3),)]


@program()
def learning_rate_scheduler():
    net = model()
    opt = optim.SGD(net.parameters(), lr=0.1)
    sched = optim.lr_scheduler.StepLR(opt, 1, gamma=0.5)

    def f():
        opt.step()
        sched.step()

    def call(compiled):
        compiled()
        return opt.param_groups[0]["lr"], [p.detach().clone() for p in net.parameters()]

    return f, [call, call]


@program()
def a_scheduler_that_counts_its_steps():
    """The scheduler's counter changes in each call, and is not a reason to recompile."""
    net = model()
    opt = optim.AdamW(net.parameters(), lr=torch.tensor(0.1))
    sched = optim.lr_scheduler.StepLR(opt, 3, gamma=0.5)
    opt.step()

    def f():
        sched.step()

    def call(compiled):
        compiled()
        return opt.param_groups[0]["lr"].item()

    return f, [call] * 5
