"""Graphs of a DistributedDataParallel module, split at its gradient buckets: torch's parts, eager's gradients."""

import warnings
from collections.abc import Iterator

import pytest
import torch
import torch._dynamo
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import nbcompile

pytestmark = pytest.mark.skipif(not (dist.is_available() and dist.is_gloo_available()), reason="this torch has no gloo")
WIDTH = 512
"""A matrix of WIDTH x WIDTH floats fills the first bucket, which torch does not let be smaller than 1 MiB."""


@pytest.fixture(autouse=True)
def one_rank() -> Iterator[None]:
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    torch._dynamo.reset()
    nbcompile.reset()
    try:
        yield
    finally:
        dist.destroy_process_group()


def linears(count: int) -> nn.ModuleList:
    return nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(count))


class Network(nn.Module):
    """Layers that each program uses differently."""

    def __init__(self, count: int = 4) -> None:
        super().__init__()
        self.layers = linears(count)
        self.register_buffer("noted", torch.zeros(WIDTH))


class Plain(Network):
    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


class Normalized(Network):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(WIDTH)

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.norm(x)


class Chunked(Network):
    def forward(self, x):
        first, second = self.layers[0](x).chunk(2, dim=0)
        return self.layers[1](first) + self.layers[2](second) + self.layers[3](x)[:2]


class Buffers(Network):
    """A module that mutates a buffer between the layers."""

    def forward(self, x):
        self.noted.add_(1)
        first = self.layers[0](x + self.noted)
        self.noted.add_(self.layers[1].weight.detach().sum())
        second = self.layers[1](first)
        self.noted.mul_(2)
        return self.layers[3](self.layers[2](second) + x.sin() + self.noted)


class Modes(Network):
    """A no_grad region, then autocast, each across the border of two parts."""

    def forward(self, x):
        y = self.layers[0](x)
        with torch.no_grad():
            y = self.layers[1](y) + 1
            t = self.layers[2](y)
        y = self.layers[0](x + t)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.layers[3](y)
            z = self.layers[0](y)
        return z.float() + y.float()


class Silenced(Network):
    """Parts that begin and end in no_grad mode, and pass on a tensor that requires grad."""

    def forward(self, x):
        y = self.layers[0](x)
        with torch.no_grad():
            z = self.layers[2](self.layers[1](y))
        return self.layers[3](y + z)


class Checkpointed(Network):
    def forward(self, x):
        for layer in self.layers:
            x = torch.utils.checkpoint.checkpoint(lambda t, layer=layer: torch.relu(layer(t)), x, use_reentrant=False)
        return x


class Conditional(Network):
    def forward(self, x):
        x = self.layers[0](x)
        x = torch.cond(x.sum() > 0, lambda t: self.layers[1](t), lambda t: t.sin(), (x,))
        return self.layers[3](self.layers[2](x))


class Methods(nn.Module):
    """Parameters as arguments of methods, as keywords, and transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(torch.randn(WIDTH, WIDTH) / 30) for _ in range(6))

    def forward(self, x):
        x = torch.mm(x, self.weights[0]).matmul(self.weights[1])
        x = x.relu().matmul(self.weights[2])
        x = torch.mm(x, mat2=self.weights[3]) @ self.weights[4]
        return torch.mm(x, self.weights[5].t())


class Tied(Network):
    def forward(self, x):
        x = torch.mm(x, self.layers[0].weight.t())
        x = self.layers[2](self.layers[1](x).tanh())
        return self.layers[3](torch.mm(x, self.layers[0].weight) + self.layers[0].bias)


class Sized(Network):
    def forward(self, x):
        rows = x.size(0) * 2
        y = self.layers[1](self.layers[0](x) * rows).view(rows, -1)
        return self.layers[3](self.layers[2](y.view(x.size(0), -1)))


class Aliased(Network):
    """Views of one result on both sides of a border, one of them mutated."""

    def forward(self, x):
        t = self.layers[0](x)
        row, flat = t[0], t.view(-1)
        t.add_(self.layers[1](x))
        flat.mul_(2)
        return row * 2 + self.layers[2](x), t, flat, self.layers[3](x)


PROGRAMS = (
    Plain, Normalized, Chunked, Buffers, Modes, Silenced, Checkpointed, Conditional, Methods, Tied, Sized, Aliased,
)  # fmt: skip
MOVED = (Aliased, Buffers)
"""torch moves parts that depend on no result of one another, and so what they write."""
SOMETIMES = (Conditional, Modes, Silenced, Aliased)
"""Programs in which some parameter has no gradient."""


def wrapped(cls, cap=1.0, **more):
    torch.manual_seed(0)
    more.setdefault("find_unused_parameters", cls in SOMETIMES)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return DistributedDataParallel(cls(), bucket_cap_mb=cap, **more)


def trained(module, call, rows=(4, 4)):
    """Results, gradients and buffers after some steps."""
    found = []
    for number in rows:
        torch.manual_seed(number)
        module.zero_grad()
        results = call(torch.randn(number, WIDTH))
        results = results if isinstance(results, tuple) else (results,)
        sum(each.sum() for each in results).backward()
        found += [each.detach().clone() for each in results]
        found += [each.grad.clone() for each in module.parameters() if each.grad is not None]
    return [*found, *(each.clone() for each in module.buffers())]


def operators(compile_, module, rows=(4, 4), reset=None):
    """The operators of each graph that the backend gets."""
    graphs = []

    def counting(graph, inputs):
        nodes = [each for each in graph.graph.nodes if each.op not in ("placeholder", "output")]
        graphs.append([getattr(each.target, "__name__", each.target) for each in nodes])
        return graph.forward

    trained(module, compile_(module, backend=counting), rows)
    return graphs


@pytest.mark.parametrize(("cls", "cap"), [(Plain, 25.0), (Plain, 2.5), *((cls, 1.0) for cls in PROGRAMS)])
def test_parts(cls, cap):
    """A graph is split into the same parts as in torch, in the order of the operators."""
    ours = operators(nbcompile.compile, wrapped(cls, cap))
    theirs = operators(torch.compile, wrapped(cls, cap))
    order = sorted if cls in MOVED else list
    assert [len(each) for each in order(map(sorted, ours))] == [len(each) for each in order(map(sorted, theirs))]
    if cls not in MOVED:
        assert ours == theirs
    assert sorted(sum(ours, [])) == sorted(sum(theirs, []))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("cls", PROGRAMS)
def test_gradients(cls, backend):
    """Results, gradients and mutated buffers of split graphs equal eager's."""
    eager, module = wrapped(cls), wrapped(cls)
    expected = trained(eager, eager)
    with warnings.catch_warnings():
        warnings.simplefilter("error", nbcompile.errors.InternalErrorWarning)
        found = trained(module, nbcompile.compile(module, backend=backend))
    rounded = {"rtol": 2e-2, "atol": 2e-1} if cls is Modes else {"rtol": 1e-4, "atol": 1e-3}
    torch.testing.assert_close(found, expected, **rounded)


class Derived(Network):
    def forward(self, x):
        slope = torch.func.grad(lambda t: self.layers[2](self.layers[1](t).tanh()).sum())(self.layers[0](x))
        return self.layers[3](x) + slope


def test_transforms():
    """A transform of ``torch.func`` is not split: its tensors have no meaning outside of it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", nbcompile.errors.InternalErrorWarning)
        assert len(operators(nbcompile.compile, wrapped(Derived, find_unused_parameters=True))) == 3
        nbcompile.reset()
        eager, module = (wrapped(Derived, find_unused_parameters=True) for _ in range(2))
        found = trained(module, nbcompile.compile(module))
    torch.testing.assert_close(found, trained(eager, eager), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("cls", [Plain, Sized])
def test_sizes(cls):
    """Parts take symbolic sizes, as torch's do."""
    assert operators(nbcompile.compile, wrapped(cls), (4, 6, 8)) == operators(torch.compile, wrapped(cls), (4, 6, 8))
    eager, module = wrapped(cls), wrapped(cls)
    found = trained(module, nbcompile.compile(module), (4, 6, 8))
    torch.testing.assert_close(found, trained(eager, eager, (4, 6, 8)), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    "more", [{"find_unused_parameters": True}, {"static_graph": True}, {"gradient_as_bucket_view": True}]
)
def test_settings_of_ddp(more):
    """DDP's own settings do not change the parts, and gradients equal eager's."""
    eager, module = wrapped(Plain, **more), wrapped(Plain, **more)
    assert len(operators(nbcompile.compile, wrapped(Plain, **more))) == 4
    found = trained(module, nbcompile.compile(module))
    torch.testing.assert_close(found, trained(eager, eager), rtol=1e-4, atol=1e-3)


def test_ignored_parameters():
    """Parameters that DDP ignores fill no bucket. (torch looks for DDP's mark on fake parameters, which lack it.)"""
    torch.manual_seed(0)
    module = Plain()
    ignored = ["layers.1.weight", "layers.1.bias", "layers.2.weight"]
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(module, ignored)
    graphs = operators(nbcompile.compile, DistributedDataParallel(module, bucket_cap_mb=1.0))
    assert [len(each) for each in graphs] == [6, 2]


def test_frozen_parameters():
    """Parameters without a gradient fill no bucket, as in torch."""
    plain = Plain(), Plain()
    for module in plain:
        module.layers[1].requires_grad_(False)
    modules = [DistributedDataParallel(each, bucket_cap_mb=1.0) for each in plain]
    ours, theirs = (operators(*each) for each in zip((nbcompile.compile, torch.compile), modules, strict=True))
    assert ours == theirs
    assert len(ours) == 3


@pytest.mark.parametrize("value", [False, "no_optimization"])
def test_switched_off(value):
    """The graph is not split if either setting switches the split off."""
    with nbcompile.config.patch(optimize_ddp=value):
        assert len(operators(nbcompile.compile, wrapped(Plain))) == 1
    nbcompile.reset()
    with torch._dynamo.config.patch(optimize_ddp=value):
        assert len(operators(nbcompile.compile, wrapped(Plain))) == 1


def test_other_words():
    """Each of torch's modes is accepted, and other names are rejected."""
    with pytest.raises(ValueError, match="ddp_optimizer, python_reducer"):
        nbcompile.config.optimize_ddp = "sometimes"
    with pytest.raises(TypeError, match="expected a value of type bool, got 1"):
        nbcompile.config.optimize_ddp = 1
    with nbcompile.config.patch(optimize_ddp="ddp_optimizer"):
        assert len(operators(nbcompile.compile, wrapped(Plain))) == 4


def test_outside_of_ddp():
    """The same module without DDP is not split."""
    torch.manual_seed(0)
    assert len(operators(nbcompile.compile, Plain())) == 1


def test_record():
    """The record lists the parts with their parameters, and the page says why the graph is split there."""
    module = wrapped(Plain, 2.5)
    explained = nbcompile.explain(module)(torch.randn(4, WIDTH))
    (frame,) = (each for each in explained.record.frames if each.graph is not None)
    parts = frame.compiled_graph.parts
    assert [part.name for part in parts] == ["submod_0", "submod_1"]
    assert [len(part.nodes) for part in parts] == [6, 2]
    size = 4 * (WIDTH * WIDTH + WIDTH)
    assert [part.size for part in parts] == [3 * size, size]
    assert [part.limit for part in parts] == [int(2.5 * 2**20), 2**20]
    sources = {node.id: node.source for node in frame.graph.nodes}
    assert [sources[each] for each in parts[1].parameters] == [
        "L['self']._modules['layers']._modules['3']._parameters['weight']",
        "L['self']._modules['layers']._modules['3']._parameters['bias']",
    ]
    graphs = frame.compiled_graph.graphs
    assert {(graph.part, graph.stage) for graph in graphs} == {
        (part, stage) for part in ("submod_0", "submod_1") for stage in ("joint", "forward", "backward")
    }
    assert len({node.id for graph in graphs for node in graph.nodes}) == sum(len(graph.nodes) for graph in graphs)
    text = " ".join(str(explained.show("kernels")).split())
    assert "Split into 2 parts at the gradient buckets of DistributedDataParallel" in text
    assert "submod_1 2 operators 1051 kB of self.layers[3].weight, self.layers[3].bias: its bucket of" in text


def test_record_of_one_part():
    """A graph whose parameters fit into one bucket stays whole, and the page says so."""
    explained = nbcompile.explain(wrapped(Network1))(torch.randn(4, WIDTH))
    assert "DistributedDataParallel sends one bucket of gradients" in str(explained)


class Network1(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, 8)

    def forward(self, x):
        return self.layer(x).relu()


def test_store_is_not_asked(tmp_path):
    """A stored entry of the module without DDP is not loaded for the module with DDP."""
    torch.manual_seed(0)
    plain = Plain()
    nbcompile.compile(plain)(torch.randn(4, WIDTH))
    nbcompile.reset()
    explained = nbcompile.explain(DistributedDataParallel(plain, bucket_cap_mb=1.0))(torch.randn(4, WIDTH))
    (frame,) = (each for each in explained.record.frames if each.graph is not None)
    assert len(frame.compiled_graph.parts) == 4
