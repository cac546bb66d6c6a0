"""Mesh slices and messages between two ranks in compiled functions: eager's results, graphs, and the store.

Run by launch.py.
"""

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh

import nbcompile

OTHER = {0: 1, 1: 0}


def of_meshes(mesh):
    """Programs with one graph each, because the slice is known at trace time."""
    return {
        "sum over a slice": lambda x: functional.all_reduce(x.sin(), "sum", mesh["dp"]) * 2,
        "group of a slice": lambda x: functional.all_reduce(x.sin(), "sum", mesh["dp"].get_group()) * 2,
        "group by name": lambda x: functional.all_reduce(x.sin(), "sum", mesh.get_group("dp")) * 2,
        "questions of slices": lambda x: x + mesh["dp"].size() + mesh["pp"].size() + mesh["dp"].get_local_rank(),
        "rank": lambda x: x + mesh.get_local_rank("dp") * 2 + dist.get_rank(mesh["dp"].get_group()),
    }


def sent_and_received(x):
    y, got = x.sin(), torch.empty_like(x)
    requests = [dist.isend(y, OTHER[dist.get_rank()]), dist.irecv(got, OTHER[dist.get_rank()])]
    for request in requests:
        request.wait()
    return got * 2 + y


def in_a_batch(x):
    y, got = x.sin(), torch.empty_like(x)
    other = OTHER[dist.get_rank()]
    for request in dist.batch_isend_irecv([dist.P2POp(dist.isend, y, other), dist.P2POp(dist.irecv, got, other)]):
        request.wait()
    return got * 2 + y


def worked_on_meanwhile(x):
    got = torch.empty_like(x)
    other = OTHER[dist.get_rank()]
    requests = dist.batch_isend_irecv([dist.P2POp(dist.isend, x, other), dist.P2POp(dist.irecv, got, peer=other)])
    z = x.cos()
    for request in requests:
        request.wait()
    return got * 2 + z


def in_turn(x):
    y, got = x.sin(), torch.empty_like(x)
    if dist.get_rank() == 0:
        dist.send(y, 1)
        sender = dist.recv(got)
    else:
        sender = dist.recv(got)
        dist.send(y, 0)
    return got * 2 + sender


MESSAGES = {
    "isend, irecv": sent_and_received,
    "batch_isend_irecv": in_a_batch,
    "work between": worked_on_meanwhile,
    "send, recv": in_turn,
}
"""Programs in which the graph ends at a message, in torch, too: eager mode sends it."""


def number_of_graphs(compiler, function, x):
    found = []

    def backend(module, _):
        found.append(module)
        return module.forward

    compiler(function, backend=backend)(x)
    return len(found)


def observed():
    """For each program: both compilers' numbers of graphs, and whether our frames were compiled or loaded."""
    x = torch.linspace(-1, 1, 8).reshape(4, 2) * (dist.get_rank() + 1)
    found = {}
    for name, function in {
        **of_meshes(init_device_mesh("cpu", (1, 2), mesh_dim_names=("pp", "dp"))),
        **MESSAGES,
    }.items():
        nbcompile.reset()
        explained = nbcompile.explain(function)(x)
        torch.testing.assert_close(torch.as_tensor(explained.result), torch.as_tensor(function(x)))
        torch._dynamo.reset()
        graphs = [number_of_graphs(compiler, function, x) for compiler in (nbcompile.compile, torch.compile)]
        found[name] = graphs, [frame.cause for frame in explained.record.frames if frame.graph is not None]
    return found
