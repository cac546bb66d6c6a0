"""Programs in the style of large projects: trainers, builders, parsers of patterns, mixins, wrappers of modules."""

# ruff: noqa  (programs use what users use, and say it in one line)

import collections
import collections.abc
import contextlib
import contextvars
import copy
import dataclasses
import enum
import functools
import inspect
import io
import itertools
import json
import logging
import math
import operator
import os
import pathlib
import pickle
import re
import string
import sys
import threading
import time
import types
import typing
import warnings
import weakref

import numpy as np
import torch
import torch.nn.functional as F
import torch.utils._pytree as pytree
from torch import nn
from torch.nn.utils import parametrize

from tests.peer.program import case, program

ones = torch.ones


def X():
    return torch.arange(4.0) + 1


def M():
    return torch.arange(12.0).reshape(3, 4) / 7


# -- parsing of patterns -----------------------------------------------------------------


def rearrange(x, pattern, **sizes):
    left, right = (side.strip().split() for side in pattern.split("->"))

    def groups(tokens):
        found, inner = [], None
        for token in tokens:
            if token.startswith("("):
                inner = []
                token = token[1:]
            closes = token.endswith(")")
            token = token.rstrip(")")
            if inner is None:
                found.append([token])
            else:
                inner.append(token)
            if closes:
                found.append(inner)
                inner = None
        return found

    lengths = dict(sizes)
    shape = []
    for dim, group in zip(x.shape, groups(left), strict=True):
        unknown = [name for name in group if name not in lengths]
        if len(unknown) > 1:
            raise ValueError(f"cannot infer {unknown}")
        known = math.prod(lengths[name] for name in group if name in lengths)
        for name in unknown:
            lengths[name] = dim // known
        shape += [lengths[name] for name in group]
    names = [name for group in groups(left) for name in group]
    order = [names.index(name) for group in groups(right) for name in group]
    final = [math.prod(lengths[name] for name in group) for group in groups(right)]
    return x.reshape(shape).permute(order).reshape(final)


@program()
def patterns_of_axes():
    def f(x):
        y = rearrange(x, "b (h d) -> h b d", h=2)
        return rearrange(y, "h b d -> b (d h)") + 1

    return f, [(M(),), (torch.ones(5, 4),), (torch.ones(6, 4),)]


@program()
def pattern_that_does_not_fit():
    def f(x):
        y = x + 1
        try:
            return rearrange(y, "b (h d) -> h b d")
        except ValueError as error:
            return y, str(error)

    return f, [(M(),)]


@program()
def configuration_from_text():
    TEXT = "hidden=8;act=gelu;scale=0.5;layers=2"

    def parse(text):
        def value(token):
            for kind in (int, float):
                try:
                    return kind(token)
                except ValueError:
                    continue
            return token

        return {k: value(v) for k, _, v in (each.partition("=") for each in text.split(";"))}

    def f(x):
        c = parse(TEXT)
        act = getattr(F, c["act"])
        for _ in range(c["layers"]):
            x = act(x) * c["scale"]
        return x, c

    return f, [(X(),)]


@case()
def a_small_calculator(x):
    tokens = "x 2 * x 1 + /".split()
    ops = {"+": operator.add, "*": operator.mul, "/": operator.truediv}
    stack = []
    for token in tokens:
        if token in ops:
            b, a = stack.pop(), stack.pop()
            stack.append(ops[token](a, b))
        else:
            stack.append(x if token == "x" else float(token))
    return stack.pop()


@case()
def template_of_a_name(x):
    template = "layer.{index:02d}.{kind}"
    named = {template.format(index=i, kind=k): x * i for i, k in itertools.product(range(2), ("weight", "bias"))}
    return {k.replace(".", "_"): v for k, v in named.items() if k.rsplit(".", 1)[1] == "weight"}


# -- data classes, configuration objects ---------------------------------------------------


@dataclasses.dataclass
class Block:
    width: int = 4
    act: str = "relu"
    drop: float = dataclasses.field(default=0.0, metadata={"help": "rate"})
    extra: dict = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        self.extra.setdefault("bias", True)

    @property
    def is_wide(self):
        return self.width > 3

    def replace(self, **changes):
        return dataclasses.replace(self, **changes)


@program()
def configuration_is_replaced_inside():
    def f(x, config):
        other = config.replace(width=2, act="tanh")
        y = getattr(torch, other.act)(x) if not other.is_wide else x
        return y, other.extra is config.extra, dataclasses.asdict(other)["width"]

    return f, [(X(), Block()), (X(), Block(width=8))]


@program()
def fields_and_their_metadata():
    def f(x, config):
        told = {each.name: each.metadata.get("help", "-") for each in dataclasses.fields(config)}
        return x * config.width, told

    return f, [(X(), Block())]


@dataclasses.dataclass(frozen=True, order=True)
class Version:
    major: int
    minor: int = 0

    @classmethod
    def parse(cls, text):
        return cls(*map(int, text.split(".")[:2]))


@case()
def versions_decide(x):
    have = Version.parse("2.13.0")
    if have >= Version(2, 6):
        x = x + 1
    return x * max(Version(1), have, Version(2, 99)).minor


@program()
def data_class_with_tensors_as_a_result():
    @dataclasses.dataclass
    class Output:
        logits: torch.Tensor
        loss: typing.Optional[torch.Tensor] = None
        hidden: tuple = ()

        def to_tuple(self):
            return tuple(v for v in (self.logits, self.loss) if v is not None) + self.hidden

    def f(x, y):
        out = Output(logits=x * 2, hidden=(x, x + 1))
        if y is not None:
            out.loss = F.mse_loss(out.logits, y)
        return out, out.to_tuple()

    return f, [(X(), None), (X(), X())]


@program()
def keyword_only_and_slots_data_class():
    @dataclasses.dataclass(slots=True, kw_only=True)
    class Step:
        lr: float
        weight: torch.Tensor
        count: int = 0

    def f(x, step):
        step.count += 1
        step.weight = step.weight - step.lr * x
        return step.weight.sum(), repr(step.count)

    return f, [(X(), Step(lr=0.1, weight=X())), (X(), Step(lr=0.1, weight=X(), count=4))]


# -- registries, decorators, factories -------------------------------------------------------

ACTIVATIONS: dict = {}


def register(name, *aliases, **options):
    def wrap(function):
        @functools.wraps(function)
        def inner(*args, **kwargs):
            return function(*args, **{**options, **kwargs})

        for each in (name, *aliases):
            ACTIVATIONS[each] = inner
        return inner

    return wrap


@register("scaled", "s", scale=2)
def scaled_by(x, scale=1):
    """Scaled."""
    return x * scale


@register("squared_relu")
def squared_relu(x):
    return F.relu(x).square()


@program()
def registered_functions_by_name():
    def f(x, names):
        for name in names:
            x = ACTIVATIONS[name](x)
        return x, ACTIVATIONS["s"].__doc__, scaled_by.__name__

    return f, [(X(), ("s", "squared_relu")), (X(), ("scaled",))]


@program()
def decorator_that_checks_shapes():
    def checked(**specs):
        def wrap(function):
            signature = inspect.signature(function)

            @functools.wraps(function)
            def inner(*args, **kwargs):
                bound = signature.bind(*args, **kwargs)
                bound.apply_defaults()
                for name, dims in specs.items():
                    value = bound.arguments[name]
                    if value.dim() != dims:
                        raise ValueError(f"{name} has {value.dim()} dims, not {dims}")
                return function(*bound.args, **bound.kwargs)

            return inner

        return wrap

    @checked(x=1)
    def f(x, k=2):
        return x * k

    return f, [(X(),), (X(), 3), (M(),)]


@program()
def decorator_class_with_state():
    class Counted:
        def __init__(self, function):
            functools.update_wrapper(self, function)
            self.function, self.calls = function, 0

        def __call__(self, *args):
            self.calls += 1
            return self.function(*args)

        def __get__(self, owner, cls=None):
            return self if owner is None else functools.partial(self, owner)

    class Model:
        @Counted
        def run(self, x):
            return x * 2

    model = Model()

    def f(x):
        return model.run(model.run(x)), Model.run.calls

    return f, [(X(),), (X(),)]


@program()
def subclasses_register_themselves():
    class Base:
        known = {}

        def __init_subclass__(cls, /, key=None, **kwargs):
            super().__init_subclass__(**kwargs)
            cls.known[key or cls.__name__.lower()] = cls

        @classmethod
        def build(cls, key, *args):
            return cls.known[key](*args)

    class Add(Base):
        def __init__(self, k):
            self.k = k

        def __call__(self, x):
            return x + self.k

    class Mul(Add, key="times"):
        def __call__(self, x):
            return super().__call__(x) * self.k

    def f(x):
        return Base.build("times", 3)(x) - Base.build("add", 1)(x), sorted(Base.known)

    return f, [(X(),)]


@program()
def chain_of_transforms():
    class Compose:
        def __init__(self, *steps):
            self.steps = steps

        def __call__(self, x):
            return functools.reduce(lambda value, step: step(value), self.steps, x)

        def __or__(self, other):
            return Compose(*self.steps, other)

        def __repr__(self):
            return " | ".join(getattr(s, "__name__", type(s).__name__) for s in self.steps)

    def double(x):
        return x * 2

    def f(x):
        chain = Compose(double) | torch.sin | (lambda x: x + 1)
        return chain(x), repr(chain)

    return f, [(X(),)]


@program()
def lazily_imported_object():
    class Lazy:
        def __init__(self, load):
            self._load, self._value = load, None

        def __getattr__(self, name):
            if self._value is None:
                self._value = self._load()
            return getattr(self._value, name)

    lazy = Lazy(lambda: F)

    def f(x):
        return lazy.relu(x) + lazy.softmax(x, -1)

    return f, [(X(),), (X(),)]


# -- mixins, descriptors, metaclasses ---------------------------------------------------------


@program()
def mixins_call_each_other():
    class Normal:
        def process(self, x):
            return self.finish(x)

        def finish(self, x):
            return x

    class Scaling:
        scale = 2

        def finish(self, x):
            return super().finish(x) * self.scale

    class Shifting:
        def process(self, x):
            return super().process(x + 1)

    class Model(Shifting, Scaling, Normal):
        scale = 3

    def f(x, model):
        return model.process(x), [c.__name__ for c in type(model).__mro__[:-1]]

    return f, [(X(), Model())]


@program()
def validated_attributes():
    class Positive:
        def __set_name__(self, owner, name):
            self.name = f"_{name}"

        def __get__(self, owner, cls=None):
            return self if owner is None else getattr(owner, self.name, 1.0)

        def __set__(self, owner, value):
            if value <= 0:
                raise ValueError(f"{self.name[1:]} must be positive")
            setattr(owner, self.name, value)

    class Settings:
        rate = Positive()

    def f(x, s):
        x = x * s.rate
        s.rate = 2.0
        try:
            s.rate = -1.0
        except ValueError as error:
            return x * s.rate, str(error)

    return f, [(X(), Settings())]


@program()
def cached_property_of_a_model():
    class Model:
        def __init__(self):
            self.made = []

        @functools.cached_property
        def mask(self):
            self.made.append(1)
            return torch.tril(torch.ones(4, 4))

        def __call__(self, x):
            return (self.mask * x).sum(0) + self.mask[0]

    model = Model()

    def f(x):
        return model(x)

    return f, [(X(),), (X(),)]


@program()
def metaclass_with_call():
    class Singleton(type):
        made = {}

        def __call__(cls, *args):
            if cls not in cls.made:
                cls.made[cls] = super().__call__(*args)
            return cls.made[cls]

    class Store(metaclass=Singleton):
        def __init__(self):
            self.items = {}

    def f(x):
        Store().items["x"] = x * 2
        return Store() is Store(), Store().items["x"] + 1

    return f, [(X(),), (X(),)]


@program()
def attributes_by_dict_proxy():
    class AttrDict(dict):
        def __getattr__(self, name):
            try:
                return self[name]
            except KeyError as error:
                raise AttributeError(name) from error

        __setattr__ = dict.__setitem__

    def f(x, c):
        c.seen = x.shape[0]
        y = x * c.scale + c.get("shift", 0)
        return y, hasattr(c, "missing"), sorted(c), getattr(c, "missing", None)

    return f, [(X(), AttrDict(scale=2)), (X(), AttrDict(scale=2, shift=1))]


@program()
def wrapper_that_forwards_everything():
    class Wrapper(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner
            self.calls = 0

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(self.inner, name)

        def forward(self, *args, **kwargs):
            self.calls += 1
            return self.inner(*args, **kwargs) * self.in_features

    torch.manual_seed(0)
    net = Wrapper(Wrapper(nn.Linear(4, 4)))

    def f(x):
        return net(x), net.calls

    return f, [(X(),), (X(),)]


# -- modules ------------------------------------------------------------------------------


def seeded(module):
    torch.manual_seed(0)
    return module()


@program()
def tied_weights_of_a_language_model():
    class LM(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(11, 4)
            self.body = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
            self.head = nn.Linear(4, 11, bias=False)
            self.head.weight = self.embed.weight
            self.register_buffer("scale", torch.tensor(0.5), persistent=False)

        def forward(self, ids):
            h = self.embed(ids)
            for i, layer in enumerate(self.body):
                h = h + layer(h).relu() * self.scale if i % 2 else layer(h)
            return self.head(h)

    net = seeded(LM)

    def f(ids):
        return net(ids), net.head.weight is net.embed.weight, sum(p.numel() for p in net.parameters())

    return f, [(torch.tensor([1, 2, 3]),)]


@program()
def experts_in_a_module_dict():
    class Router(nn.Module):
        def __init__(self):
            super().__init__()
            self.experts = nn.ModuleDict({f"e{i}": nn.Linear(4, 4) for i in range(3)})
            self.use = ("e0", "e2")

        def forward(self, x):
            outs = {name: expert(x) for name, expert in self.experts.items() if name in self.use}
            return torch.stack(list(outs.values())).mean(0), len(self.experts), "e1" in self.experts

    net = seeded(Router)

    def f(x):
        return net(x)

    return f, [(M(),)]


@program()
def modules_are_replaced_and_frozen():
    class Lora(nn.Module):
        def __init__(self, base, rank=2):
            super().__init__()
            self.base = base
            for p in base.parameters():
                p.requires_grad_(False)
            self.a = nn.Parameter(torch.ones(rank, base.in_features) / 10)
            self.b = nn.Parameter(torch.ones(base.out_features, rank) / 10)
            self.enabled = True

        def forward(self, x):
            y = self.base(x)
            return y + x @ self.a.T @ self.b.T if self.enabled else y

    def build():
        net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
        for name, child in list(net.named_children()):
            if isinstance(child, nn.Linear):
                setattr(net, name, Lora(child))
        return net

    net = seeded(build)

    def f(x):
        y = net(x)
        return y, [n for n, p in net.named_parameters() if p.requires_grad]

    def without(f):
        for m in net.modules():
            if isinstance(m, Lora):
                m.enabled = False
        return f(M())

    return f, [(M(),), without]


@program()
def hooks_collect_features():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    kept = {}

    def keep(name):
        def hook(module, args, output):
            kept[name] = output.detach()

        return hook

    for name, child in net.named_children():
        child.register_forward_hook(keep(name))

    def f(x):
        y = net(x)
        return y, sorted(kept), kept["1"].sum()

    return f, [(M(),), (M() + 1,)]


@program()
def pre_hook_that_changes_keywords():
    class Net(nn.Module):
        def forward(self, x, *, scale=1):
            return x * scale

    net = Net()
    net.register_forward_pre_hook(lambda m, a, k: ((a[0] + 1,), {**k, "scale": 3}), with_kwargs=True)
    net.register_forward_hook(lambda m, a, k, out: out - k["scale"], with_kwargs=True)

    def f(x):
        return net(x, scale=2)

    return f, [(X(),)]


@program()
def weight_is_parametrised():
    class Symmetric(nn.Module):
        def forward(self, w):
            return w.triu() + w.triu(1).T

    torch.manual_seed(0)
    net = nn.Linear(4, 4)
    parametrize.register_parametrization(net, "weight", Symmetric())

    def f(x):
        return net(x), parametrize.is_parametrized(net, "weight")

    return f, [(M(),)]


@program()
def cached_parametrisation():
    class Exp(nn.Module):
        def forward(self, w):
            return w.exp()

    torch.manual_seed(0)
    net = nn.Linear(4, 4)
    parametrize.register_parametrization(net, "weight", Exp())

    def f(x):
        with parametrize.cached():
            return net(x) + net(x + 1)

    return f, [(M(),)]


@program()
def spectral_norm_in_training():
    torch.manual_seed(0)
    net = torch.nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4))

    def f(x):
        return net(x)

    return f, [(M(),), (M(),)]


@program()
def state_of_a_recurrent_cell():
    class Rnn(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell = nn.GRUCell(4, 3)
            self.state = None
            self.history = []

        def forward(self, x):
            if self.state is None:
                self.state = x.new_zeros(x.shape[0], 3)
            self.state = self.cell(x, self.state)
            self.history.append(self.state)
            return self.state

    net = seeded(Rnn)

    def f(x):
        return net(x), len(net.history)

    return f, [(M(),), (M(),), (M() + 1,)]


@program()
def buffers_count_steps():
    class Running(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(4))
            self.register_buffer("steps", torch.tensor(0))
            self.momentum = 0.1

        def forward(self, x):
            if self.training:
                with torch.no_grad():
                    self.mean.lerp_(x.mean(0), self.momentum)
                    self.steps += 1
            return x - self.mean

    net = Running()

    def f(x):
        return net(x), net.steps.clone()

    def evaluated(f):
        net.eval()
        return f(M())

    return f, [(M(),), (M(),), evaluated]


@program()
def sequential_is_sliced_and_extended():
    torch.manual_seed(0)
    net = nn.Sequential(collections.OrderedDict(a=nn.Linear(4, 4), b=nn.ReLU(), c=nn.Linear(4, 2)))

    def f(x):
        y = net[:2](x)
        return net[-1](y) + net.c(y), len(net), [type(m).__name__ for m in net]

    return f, [(M(),)]


@program()
def lists_and_dicts_of_parameters():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.ws = nn.ParameterList([torch.ones(4) * i for i in range(3)])
            self.named = nn.ParameterDict({"up": torch.ones(4), "down": -torch.ones(4)})

        def forward(self, x):
            for w in self.ws:
                x = x + w
            return {k: x * v for k, v in self.named.items()}, self.ws[1:] is not None

    net = Net()

    def f(x):
        return net(x)

    return f, [(X(),)]


@program()
def a_forward_is_patched():
    torch.manual_seed(0)
    net = nn.Linear(4, 4)
    original = net.forward

    def patched(self, x):
        return original(x) * 2

    net.forward = types.MethodType(patched, net)

    def f(x):
        return net(x)

    return f, [(M(),)]


@program()
def module_apply_and_modules_iteration():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 4)))

    def f(x):
        norm = sum(m.weight.norm() for m in net.modules() if hasattr(m, "weight"))
        was = [m.training for m in net.modules()]
        return net(x) / norm, was, [n for n, m in net.named_modules() if isinstance(m, nn.Linear)]

    def evaluated(f):
        net.apply(lambda m: m.eval())
        return f(M())

    return f, [evaluated, (M(),)]


@program()
def attention_with_a_cache():
    class Cache:
        def __init__(self):
            self.k, self.v = [], []

        def update(self, k, v, layer):
            if len(self.k) <= layer:
                self.k.append(k)
                self.v.append(v)
            else:
                self.k[layer] = torch.cat([self.k[layer], k], dim=-2)
                self.v[layer] = torch.cat([self.v[layer], v], dim=-2)
            return self.k[layer], self.v[layer]

        def __len__(self):
            return self.k[0].shape[-2] if self.k else 0

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(4, 12)

        def forward(self, x, cache=None):
            q, k, v = self.qkv(x).chunk(3, dim=-1)
            if cache is not None:
                k, v = cache.update(k, v, 0)
            return F.scaled_dot_product_attention(q, k, v, is_causal=cache is None or len(cache) == x.shape[-2])

    net = seeded(Attention)
    cache = Cache()

    def f(x, cache):
        return net(x, cache), len(cache) if cache is not None else None

    return f, [(M()[None], None), (M()[None], cache), (M()[None, :1], cache), (M()[None, :1], cache)]


@program()
def checkpointed_blocks():
    from torch.utils.checkpoint import checkpoint

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))
            self.recompute = True

        def forward(self, x):
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
            return x

    net = seeded(Net)

    def f(x):
        return net(x).sum()

    def trained(f):
        x = M().requires_grad_()
        f(x).backward()
        return x.grad, [p.grad for p in net.parameters()]

    return f, [trained]


@program()
def rotary_embedding_with_buffers():
    class Rotary(nn.Module):
        def __init__(self, dim=4, base=10000):
            super().__init__()
            self.register_buffer("inv", 1.0 / base ** (torch.arange(0, dim, 2).float() / dim), persistent=False)
            self.cached = {}

        def forward(self, x, start=0):
            n = x.shape[-2]
            if n not in self.cached:
                t = torch.arange(start, start + n, device=x.device, dtype=self.inv.dtype)
                freqs = torch.outer(t, self.inv)
                self.cached[n] = torch.cat((freqs, freqs), -1)
            angle = self.cached[n]
            a, b = x.chunk(2, -1)
            return x * angle.cos() + torch.cat((-b, a), -1) * angle.sin()

    net = Rotary()

    def f(x):
        return net(x), sorted(net.cached)

    return f, [(M(),), (M(),), (torch.ones(5, 4),)]


# -- training ---------------------------------------------------------------------------------


@program()
def loss_with_accumulation_and_clipping():
    torch.manual_seed(0)
    net = nn.Linear(4, 2)

    def f(x, y, steps):
        total = 0.0
        for xs, ys in zip(x.chunk(steps), y.chunk(steps)):
            loss = F.cross_entropy(net(xs), ys) / steps
            total = total + loss
        return total

    def trained(f):
        f(M(), torch.tensor([0, 1, 1]), 3).backward()
        norm = nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        return norm, net.weight.grad

    return f, [trained]


@program()
def clipping_inside():
    torch.manual_seed(0)
    net = nn.Linear(4, 2)

    def f(x):
        for p in net.parameters():
            p.grad = torch.ones_like(p)
        norm = nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        nn.utils.clip_grad_value_(net.parameters(), 0.1)
        return net(x) * norm

    return f, [(M(),)]


@program()
def meters_of_a_trainer():
    class Meter:
        def __init__(self):
            self.reset()

        def reset(self):
            self.total, self.count = 0.0, 0

        def update(self, value, n=1):
            self.total += value * n
            self.count += n

        @property
        def average(self):
            return self.total / max(self.count, 1)

    meters = collections.defaultdict(Meter)

    def f(x):
        loss = (x**2).mean()
        meters["loss"].update(loss.detach(), x.shape[0])
        meters["size"].update(float(x.shape[0]))
        return loss, meters["loss"].average, {k: m.count for k, m in meters.items()}

    return f, [(X(),), (X() * 2,)]


@program()
def early_stopping_by_state():
    class Stop:
        def __init__(self, patience=2):
            self.best, self.bad, self.patience = math.inf, 0, patience

        def __call__(self, value):
            self.bad = 0 if value < self.best else self.bad + 1
            self.best = min(self.best, value)
            return self.bad >= self.patience

    stop = Stop()

    def f(x, value):
        return (x * 0 if stop(value) else x + 1), stop.best, stop.bad

    return f, [(X(), v) for v in (3.0, 2.5, 2.75, 2.9)]


@program()
def gradients_by_autograd_grad():
    def f(x):
        with torch.enable_grad():
            y = x.detach().requires_grad_()
            (g,) = torch.autograd.grad((y**3).sum(), y)
        return g + x

    return f, [(X(),)]


@program()
def gradient_penalty():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))

    def f(x):
        x = x.clone().requires_grad_(True)
        out = net(x)
        (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        return out, ((g.norm(2, dim=1) - 1) ** 2).mean()

    return f, [(M(),)]


@program()
def straight_through_estimator():
    class Round(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, levels):
            ctx.levels = levels
            ctx.save_for_backward(x)
            return (x * levels).round() / levels

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * (x.abs() < ctx.levels), None

    def f(x):
        return Round.apply(x, 4).sum()

    def trained(f):
        x = X().requires_grad_()
        f(x).backward()
        return x.grad

    return f, [trained, (X(),)]


@program()
def mixed_precision_and_a_scaler():
    torch.manual_seed(0)
    net = nn.Linear(4, 4)

    def f(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = net(x)
            with torch.autocast("cpu", enabled=False):
                z = net(x.float())
        return y.dtype, z.dtype, (y.float() - z).abs().max() < 0.1

    return f, [(M(),)]


@program()
def exponential_average_of_parameters():
    torch.manual_seed(0)
    net, average = nn.Linear(4, 2), nn.Linear(4, 2)

    @torch.no_grad()
    def f(decay):
        for p, q in zip(net.parameters(), average.parameters()):
            q.mul_(decay).add_(p, alpha=1 - decay)
        return [q.sum() for q in average.parameters()]

    return f, [(0.9,), (0.9,), (0.5,)]


_LOGGER = logging.getLogger("peer.code_bases")
_LOGGER.handlers[:] = [logging.NullHandler()]
_LOGGER.propagate = False


# -- special cases of torch ------------------------------------------------------------------


@program()
def jacobians_and_hessians():
    def g(x):
        return (x**3).sum() + x.prod()

    def f(x):
        return torch.func.hessian(g)(x), torch.func.jacrev(lambda x: x.sin() * x.sum())(x), torch.func.jacfwd(g)(x)

    return f, [(X()[:2],)]


@program()
def functional_call_with_stacked_parameters():
    torch.manual_seed(0)
    nets = [nn.Linear(4, 2) for _ in range(3)]
    params, buffers = torch.func.stack_module_state(nets)
    base = nn.Linear(4, 2)

    def f(x):
        def one(p, b, x):
            return torch.func.functional_call(base, (p, b), (x,))

        return torch.func.vmap(one, in_dims=(0, 0, None))(params, buffers, x)

    return f, [(M(),)]


@program()
def gradients_of_a_loss_with_has_aux():
    torch.manual_seed(0)
    net = nn.Linear(4, 2)
    params = dict(net.named_parameters())

    def loss(params, x):
        y = torch.func.functional_call(net, params, x)
        return y.square().mean(), y.detach()

    def f(x):
        (grads, aux), value = torch.func.grad(loss, has_aux=True)(params, x), loss(params, x)[0]
        return {k: v - 0.1 * grads[k] for k, v in params.items()}, aux, value

    return f, [(M(),)]


@program()
def policy_sampling():
    def f(logits, actions):
        d = torch.distributions.Categorical(logits=logits)
        n = torch.distributions.Normal(logits.mean(), logits.std() + 1)
        return d.log_prob(actions), d.entropy(), n.rsample((2,)).shape, torch.distributions.kl_divergence(n, n)

    return f, [(M(), torch.tensor([0, 1, 3]))]


@program()
def complex_spectra():
    def f(x):
        s = torch.fft.rfft(x)
        s = s * torch.exp(1j * torch.arange(s.shape[-1]) / 4)
        return torch.fft.irfft(s, n=x.shape[-1]), torch.view_as_real(s), s.abs().pow(2).sum(), s.conj().imag

    return f, [(X(),)]


@program()
def sparse_matrix_times_dense():
    def f(i, v, d):
        s = torch.sparse_coo_tensor(i, v, (3, 3))
        return torch.sparse.mm(s, d) + 1

    return f, [(torch.tensor([[0, 1], [2, 0]]), torch.ones(2), M())]


@program()
def sizes_and_views_in_odd_places():
    def f(x):
        b, *rest = x.shape
        y = x.view(b, -1, *[1] * len(rest)).expand(b, 4, 2).transpose(-2, -1).contiguous().flatten(1)
        return y.unflatten(1, (2, -1))[..., ::2], x.new_empty(0).numel(), tuple(reversed(x.size()))

    return f, [(M(),), (torch.ones(5, 4),)]


@program()
def masks_and_scatters():
    def f(x, index):
        out = torch.zeros(5, 4)
        out.index_add_(0, index, x)
        out = out.scatter_reduce(0, index[:, None].expand(-1, 4), x, "amax", include_self=False)
        out[out > 0.5] *= 2
        out[..., -1] = torch.where(out[..., 0] > 0, 1.0, -1.0)
        return out, (out == 0).all(-1), torch.bincount(index, minlength=5).shape

    return f, [(M(), torch.tensor([0, 2, 2]))]


@program()
def numpy_in_a_data_loader():
    def f(batch):
        x = np.stack([each["x"] for each in batch])
        y = torch.from_numpy(x).float()
        mean, std = x.mean(axis=0), x.std(axis=0) + 1e-6
        return (y - torch.as_tensor(mean)) / torch.as_tensor(std), [each["name"] for each in batch]

    def batch(n):
        return [{"x": np.arange(3.0) * k, "name": f"n{k}"} for k in range(n)]

    return f, [(batch(2),), (batch(3),)]


@program()
def collating_nested_samples():
    def collate(samples):
        first = samples[0]
        match first:
            case torch.Tensor():
                return torch.stack(samples)
            case dict():
                return {key: collate([s[key] for s in samples]) for key in first}
            case tuple() if hasattr(first, "_fields"):
                return type(first)(*(collate(list(each)) for each in zip(*samples)))
            case int() | float():
                return torch.tensor(samples)
            case str():
                return list(samples)
            case collections.abc.Sequence():
                return [collate(list(each)) for each in zip(*samples)]
        raise TypeError(type(first))

    Sample = collections.namedtuple("Sample", "image label")

    def f(x):
        return collate([{"s": Sample(x * k, k), "n": f"s{k}", "l": [x, k / 2]} for k in range(3)])

    return f, [(X(),)]


@program()
def retry_and_fallback():
    class Transient(RuntimeError):
        pass

    def retry(times, *errors):
        def wrap(function):
            @functools.wraps(function)
            def inner(*args):
                last = None
                for attempt in range(times):
                    try:
                        return function(*args, attempt)
                    except errors as error:
                        last = error
                raise RuntimeError(f"gave up after {times}") from last

            return inner

        return wrap

    @retry(3, Transient, KeyError)
    def work(x, need, attempt):
        if attempt < need:
            raise Transient(attempt)
        return x * attempt

    def f(x, need):
        try:
            return work(x, need)
        except RuntimeError as error:
            return x - 1, str(error), repr(error.__cause__)

    return f, [(X(), 1), (X(), 5)]


@program(torch_differs="torch 2.13 loses what __enter__ and __exit__ append to a list in their closure")
def resources_are_released_in_order():
    log = []

    class Resource:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            log.append(f"+{self.name}")
            return self

        def __exit__(self, kind, value, trace):
            log.append(f"-{self.name}" + (f" {kind.__name__}" if kind else ""))
            return kind is KeyError

    def f(x, fail):
        with Resource("a"), Resource("b"):
            y = x + 1
            if fail:
                raise KeyError("x")
        return x * 2 if fail else y

    def with_log(fail):
        return lambda f: (f(X(), fail), log[:])

    return f, [with_log(False), with_log(True)]


@program(torch_differs="torch 2.13 forgets what a generator changed after an exception was thrown into it")
def coroutine_like_generators():
    def averager():
        total, count = 0.0, 0
        average = None
        while True:
            try:
                value = yield average
            except ValueError:
                total, count, average = 0.0, 0, None
                continue
            total, count = total + value, count + 1
            average = total / count

    def f(x):
        g = averager()
        next(g)
        out = [g.send(x * k) for k in range(1, 4)]
        g.throw(ValueError("again"))
        out.append(g.send(x))
        g.close()
        return out

    return f, [(X(),)]


@program()
def flags_and_enums_with_behaviour():
    class Mode(enum.Flag):
        NONE = 0
        BIAS = enum.auto()
        SCALE = enum.auto()
        ALL = BIAS | SCALE

    class Act(str, enum.Enum):
        RELU = "relu"
        TANH = "tanh"

        def __call__(self, x):
            return getattr(torch, self.value)(x)

        @classmethod
        def _missing_(cls, value):
            return cls[value.upper()] if value.upper() in cls.__members__ else None

    def f(x, mode, act):
        if Mode.BIAS in mode:
            x = x + 1
        if mode & Mode.SCALE:
            x = x * 2
        return Act(act)(x), Act(act).name, (~mode & Mode.ALL).value

    return f, [(X(), Mode.ALL, "relu"), (X(), Mode.BIAS, "TANH"), (X(), Mode.NONE, "tanh")]


@program()
def mapping_and_sequence_classes_of_ones_own():
    class Store(collections.abc.MutableMapping):
        def __init__(self, **items):
            self.items_ = dict(items)

        def __getitem__(self, key):
            return self.items_[key.lower()]

        def __setitem__(self, key, value):
            self.items_[key.lower()] = value

        def __delitem__(self, key):
            del self.items_[key.lower()]

        def __iter__(self):
            return iter(self.items_)

        def __len__(self):
            return len(self.items_)

    def f(x):
        s = Store(a=x)
        s["B"] = x + 1
        s.update(C=s["b"] * 2)
        taken = s.pop("A")
        return taken, "c" in s, dict(s), s.setdefault("d", 4), sorted(s), s.get("zz")

    return f, [(X(),)]


@program()
def paths_json_and_regular_expressions():
    NAMES = ["layers.0.weight", "layers.10.bias", "head.weight"]
    SETTINGS = '{"scale": 2, "skip": ["bias"]}'

    def f(x):
        settings = json.loads(SETTINGS)
        path = pathlib.PurePosixPath("/models") / "net" / "weights.pt"
        numbers = [int(m.group(1)) for name in NAMES if (m := re.search(r"layers\.(\d+)\.", name))]
        kept = [n for n in NAMES if not any(s in n for s in settings["skip"])]
        return x * settings["scale"] + sum(numbers), path.stem, path.suffix, kept

    return f, [(X(),)]


@program()
def timing_and_logging_around():
    spent = []

    @contextlib.contextmanager
    def timed(name):
        start = time.perf_counter()
        try:
            yield
        finally:
            spent.append((name, time.perf_counter() >= start))

    def f(x):
        _LOGGER.info("shape %s", x.shape)
        with timed("work"):
            y = x * 2
        _LOGGER.debug("done")
        return y, spent[-1]

    return f, [(X(),)]


@program()
def context_variables_and_thread_state():
    depth = contextvars.ContextVar("depth", default=0)

    def f(x):
        token = depth.set(depth.get() + 1)
        y = x * depth.get()
        depth.reset(token)
        return y, depth.get()

    return f, [(X(),)]


@program()
def pickled_and_copied_configurations():
    def f(x, config):
        other = copy.copy(config)
        other["scale"] = 5
        deep = copy.deepcopy({"k": [1, 2]})
        deep["k"].append(3)
        return x * other["scale"], config, deep

    return f, [(X(), {"scale": 2})]


@program()
def iteration_recipes():
    def f(x):
        rows = list(x.unbind(0))
        pairs = [a - b for a, b in itertools.pairwise(rows)]
        windows = [sum(w) for w in zip(*(itertools.islice(rows, i, None) for i in range(2)))]
        flat = list(itertools.chain.from_iterable([[r, r + 1] for r in rows[:2]]))
        groups = {k: len(list(g)) for k, g in itertools.groupby([1, 1, 2, 2, 2, 3])}
        acc = list(itertools.accumulate(rows, operator.add))
        best = max(range(3), key=lambda i: (-abs(i - 1), i))
        return pairs, windows, flat, groups, acc[-1], best, list(zip("ab", itertools.count(5)))

    return f, [(M(),)]


@program()
def schedules_of_an_optimiser():
    torch.manual_seed(0)
    net = nn.Linear(4, 2)
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda step: 0.5**step)

    def f(x):
        return net(x).square().mean()

    def step(f):
        opt.zero_grad()
        loss = f(M())
        loss.backward()
        opt.step()
        sched.step()
        return loss.detach(), opt.param_groups[0]["lr"], net.weight.detach().clone()

    return f, [step, step, step]


@program()
def random_numbers_by_generators():
    g = torch.Generator().manual_seed(3)

    def f(x):
        torch.manual_seed(7)
        a = torch.rand(3)
        b = F.dropout(x, 0.5, True)
        c = torch.randn(2, generator=g)
        return a, b, c, torch.randperm(4), torch.bernoulli(torch.full((4,), 0.5))

    return f, [(X(),), (X(),)]


@program(torch_differs="torch 2.13 does not ask for the length of what becomes a list")
def exceptions_in_odd_places():
    class Bad:
        @property
        def value(self):
            raise AttributeError("inner")

        def __len__(self):
            raise ValueError("no length")

        def __iter__(self):
            yield 1
            raise RuntimeError("in the middle")

    def attempt(action):
        try:
            return action()
        except Exception as error:
            return f"{type(error).__name__}: {error}"

    def f(x):
        bad = Bad()
        told = [attempt(lambda: bad.value), attempt(lambda: len(bad)), attempt(lambda: list(bad))]
        told.append(attempt(lambda: {**{"a": 1}}["b"]))
        told.append(attempt(lambda: [k for k in bad if k > 0]))
        try:
            try:
                1 / 0
            finally:
                x = x + 1
        except ZeroDivisionError:
            x = x * 2
        else:
            x = x * 100
        return x, told

    return f, [(X(),)]
