"""Programs with collectives, and the captured graphs of both compilers, on two ranks (launch.py)."""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh

import nbcompile

SIZES = {0: ([3, 2], [3, 1]), 1: ([1, 2], [2, 2])}
"""Rows that each rank gets from each, and sends to each."""


def functional_programs(group, mesh):
    """Each function of torch.distributed._functional_collectives, by group, name, ranks and mesh."""
    first = lambda x: x.sin()  # noqa: E731
    both = lambda x: [x.sin(), x.cos()]  # noqa: E731
    return {
        "all_reduce": lambda x: functional.all_reduce(first(x), "sum", group) * 2,
        "all_reduce by name": lambda x: functional.all_reduce(first(x), "max", group.group_name) * 2,
        "all_reduce by ranks": lambda x: functional.all_reduce(first(x), "sum", [0, 1]) * 2,
        "all_reduce by mesh": lambda x: functional.all_reduce(first(x), "sum", mesh) * 2,
        "all_reduce by dimension": lambda x: functional.all_reduce(first(x), "sum", (mesh, 0)) * 2,
        "broadcast": lambda x: functional.broadcast(first(x), 0, group) + x,
        "all_gather": lambda x: functional.all_gather_tensor(first(x), 0, group) + 1,
        "all_gather of columns": lambda x: functional.all_gather_tensor(first(x), 1, group) + 1,
        "all_gather_autograd": lambda x: functional.all_gather_tensor_autograd(first(x), 0, mesh) + 1,
        "reduce_scatter": lambda x: functional.reduce_scatter_tensor(first(x), "sum", 0, group) + 1,
        "reduce_scatter of columns": lambda x: functional.reduce_scatter_tensor(first(x), "SUM", 1, group) + 1,
        "reduce_scatter_autograd": lambda x: functional.reduce_scatter_tensor_autograd(first(x), "sum", 0, group) + 1,
        "all_to_all": lambda x: functional.all_to_all_single(first(x), None, None, group) + 1,
        "all_to_all of parts": lambda x: functional.all_to_all_single(first(x), *SIZES[dist.get_rank()], group) + 1,
        "all_to_all_autograd": lambda x: functional.all_to_all_single_autograd(first(x), [2, 2], [2, 2], group) + 1,
        "permute": lambda x: functional.permute_tensor(first(x).flatten(), [1, 0], group) + 1,
        "all_reduce_coalesced": lambda x: sum(functional.all_reduce_coalesced(both(x), "sum", group)),
        "all_gather_coalesced": lambda x: sum(functional.all_gather_into_tensor_coalesced(both(x), group)),
        "reduce_scatter_coalesced": lambda x: torch.cat(
            functional.reduce_scatter_tensor_coalesced([x.sin(), x.t().cos()], "sum", [0, 1], group)
        ),
        "questions": lambda x: x + dist.get_rank() + dist.get_world_size(group) + dist.get_rank(group) + len(
            dist.get_process_group_ranks(group)
        ),
        "questions of a mesh": lambda x: x + mesh.size() + mesh.get_local_rank() + mesh.ndim,
    }  # fmt: skip


def written(function, shape):
    """A program with a collective that writes into a new tensor."""

    def program(x):
        output = torch.empty(shape)
        function(output, x.sin())
        return output * 2

    return program


def in_place(function, *more, **named):
    """A program with a collective that mutates its input."""

    def program(x):
        y = x.sin()
        function(y, *more, **named)
        return y * 2

    return program


def gathered(x):
    outputs = [torch.empty(4, 2) for _ in range(2)]
    dist.all_gather(outputs, x.sin())
    return outputs[0] * 2 + outputs[1]


def of_an_input(x):
    dist.all_reduce(x)
    return x * 2


def asynchronous(x):
    y = x.sin()
    dist.all_reduce(y, async_op=True).wait()
    return y * 2


def writing_programs(group):
    """Functions of torch.distributed that mutate, with a graph or a break."""
    return {
        "sum": in_place(dist.all_reduce),
        "maximum": in_place(dist.all_reduce, op=dist.ReduceOp.MAX),
        "sum of a group": in_place(dist.all_reduce, dist.ReduceOp.SUM, group),
        "sum of an input": of_an_input,
        "sum later": asynchronous,
        "broadcast in place": in_place(dist.broadcast, 0),
        "reduce": in_place(dist.reduce, 0),
        "gather into": written(dist.all_gather_into_tensor, (8, 2)),
        "gather into a base": written(dist._all_gather_base, (8, 2)),
        "gather": gathered,
        "scatter into": written(dist.reduce_scatter_tensor, (2, 2)),
        "exchange": written(dist.all_to_all_single, (4, 2)),
    }


def ran(call, x):
    """The result of a call, and the input afterwards; or the error's class and message."""
    result = call(x)
    result = result.wait() if isinstance(result, functional.AsyncCollectiveTensor) else result
    return result.tolist(), x.tolist()


def captured(compiler, function, x):
    graphs = []

    def backend(module, _):
        calls = [node for node in module.graph.nodes if node.op.startswith("call")]
        graphs.append([str(getattr(node.target, "__name__", node.target)) for node in calls])
        return module.forward

    return ran(compiler(function, backend=backend), x), graphs


def observed():
    """For each program: whether the result is eager's, our graphs, and torch's."""
    group = dist.group.WORLD
    x = torch.linspace(-1, 1, 8).reshape(4, 2) * (dist.get_rank() + 1)
    found = {}
    for name, function in {
        **functional_programs(group, init_device_mesh("cpu", (2,))),
        **writing_programs(group),
    }.items():
        nbcompile.reset()
        eager = ran(function, x.clone())
        ours, graphs = captured(nbcompile.compile, function, x.clone())
        torch._dynamo.reset()
        _, theirs = captured(torch.compile, function, x.clone())
        found[name] = eager == ours, graphs, theirs
    return found
