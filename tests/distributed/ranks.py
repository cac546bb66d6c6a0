"""Training and collectives on two ranks (launch.py)."""

import re

import torch
import torch.distributed as dist
from torch.distributed._functional_collectives import all_gather_tensor, all_reduce
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import nbcompile


def network(kind):
    torch.manual_seed(0)
    layers = [torch.nn.Sequential(torch.nn.Linear(32, 32), torch.nn.GELU()) for _ in range(2)]
    return kind(*layers)


class Network(torch.nn.Sequential):
    """A user's class: the forward of torch's own Sequential is not a frame, as in torch."""

    def forward(self, x):
        for layer in self:
            x = layer(x)
        return x


def trained(module, call, rows):
    """The loss of each step and the final parameters, with the rank's own rows."""
    generator = torch.Generator().manual_seed(dist.get_rank())
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for number in rows:
        optimizer.zero_grad()
        loss = call(torch.randn(number, 32, generator=generator)).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    full = [getattr(value, "full_tensor", lambda value=value: value)().detach() for value in module.parameters()]
    return losses, full


def same(eager, compiled):
    torch.testing.assert_close(eager, compiled, rtol=1e-4, atol=1e-5)
    return True


def both(prepare, rows, kind, around=None):
    """True if training gives the same with and without compile, and the number of parts of the compiled one's graphs.

    ``around`` is put around a compiled module; without it, the whole is compiled.
    """
    results, graphs = [], 0
    for compiled in (False, True):
        module = network(kind)
        whole = prepare(module) if around is None or not compiled else module
        if compiled:
            frame_recorder = nbcompile.api.new_recorder("rank")
            with nbcompile.api.listening(frame_recorder):
                called = nbcompile.compile(whole, backend="aot_eager")
                results.append(trained(module, called if around is None else around(called), rows))
                graphs = sum(
                    len(frame.compiled_graph.parts) for frame in frame_recorder.record().frames if frame.compiled_graph
                )
        else:
            results.append(trained(module, whole, rows))
    return same(*results), graphs


def shard(module):
    for layer in module:
        fully_shard(layer)
    return fully_shard(module)


def small_buckets(module):
    return DistributedDataParallel(module, bucket_cap_mb=0.004)


def reduced(x):
    return all_reduce(x.sin(), "sum", dist.group.WORLD) * 2 + x


def gathered(x):
    return all_gather_tensor(x.cos() + 1, 0, dist.group.WORLD).relu().sum(0)


def in_place(x):
    y = x.sin()
    dist.all_reduce(y)
    return y * 2


def beside(x):
    total = all_reduce(x.sin(), "sum", dist.group.WORLD)
    product = torch.outer(x, x) @ torch.outer(x, x)
    factor = total.exp()
    return [product, total * 2, torch.outer(factor, factor) @ factor]


def three_small(x):
    """Only arithmetic, because a library function may round differently."""
    product = torch.outer(x, x) @ torch.outer(x, x)
    totals = [all_reduce(part, "sum", dist.group.WORLD) for part in (x * 3, x[:3] - 1, x * x)]
    parts = [all_gather_tensor(part, 0, dist.group.WORLD) for part in (x + 1, x[:5] - 1)]
    return [product, *(each * 2 for each in totals), *(each - 1 for each in parts)]


WANTED = {"aten::mm": "mm", "aten::mv": "mv"} | {
    f"_c10d_functional::{name}": name
    for name in ("all_reduce", "all_reduce_coalesced", "all_gather_into_tensor_coalesced", "wait_tensor")
}


def overlap(function, x, **options):
    """Bitwise equality of the result with eager's, and the order of operators in the plan and in a profile."""
    explained = nbcompile.explain(function, options=options)(x)
    (graph,) = (frame.compiled_graph for frame in explained.record.frames if frame.compiled_graph)
    planned = re.findall(r"# extern\d+: (?:_c10d_functional|aten)\.(\w+)", graph.wrapper)
    compiled = nbcompile.compile(function, options=options)
    compiled(x)
    with torch.profiler.profile() as profiler:
        compiled(x)
    ran = sorted((event.time_range.start, WANTED[event.name]) for event in profiler.events() if event.name in WANTED)
    eager, found = (
        [result] if isinstance(result, torch.Tensor) else result for result in (function(x), explained.result)
    )
    return all(map(torch.equal, eager, found)), planned, [name for _, name in ran]


def observed():
    """For each program: whether it is right, and what was compiled."""
    rank = dist.get_rank()
    found = {
        "ddp": both(small_buckets, (4, 4), Network),
        "fsdp": both(shard, (4, 4), torch.nn.Sequential),
        "ddp of compiled": both(small_buckets, (4, 4), Network, small_buckets),
        "fsdp of compiled": both(fully_shard, (4, 4), Network, fully_shard),
        # Each rank has other sizes: one recompiles while the other does not.
        "sizes": both(lambda module: DistributedDataParallel(module), (4, 4 + rank, 6 + 2 * rank), Network),
    }
    x = torch.linspace(-1, 1, 8) * (rank + 1)
    for function in (reduced, gathered, in_place):
        explained = nbcompile.explain(function, backend="aot_eager")(x)
        frames = explained.record.frames
        nodes = [node.target for frame in frames if frame.graph for node in frame.graph.nodes]
        found[function.__name__] = same(function(x), explained.result), len(frames), [str(name) for name in nodes]
    found["overlap"] = overlap(beside, x)
    found["bucket"] = overlap(three_small, x, bucket_collectives=True)
    return found
