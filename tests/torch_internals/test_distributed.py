"""What DistributedDataParallel says of its gradients."""

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from nbcompile import torch_internals

AB = ("a", "b")


def test_bytes_of_gradients():
    """A parameter's gradient is sent unless it needs none, or DDP ignores it; an input's is not."""
    parameter = torch.nn.Parameter(torch.ones(2, 3))
    assert torch_internals.sent_bytes(parameter) == 24
    assert torch_internals.sent_bytes(parameter.detach()) == 0
    assert torch_internals.sent_bytes(torch.nn.Parameter(torch.ones(2), requires_grad=False)) == 0
    parameter._ddp_ignored = True
    assert torch_internals.sent_bytes(parameter) == 0


def test_no_module_runs():
    """Outside of a DDP module's forward no bucket is to be filled."""
    assert torch_internals.bucket_bytes() == 0


@pytest.mark.skipif(not (dist.is_available() and dist.is_gloo_available()), reason="this torch has no gloo")
def test_facts_of_groups_and_meshes():
    """Equal for equal ones, other for another rank, other ranks, names or joined dimensions; None of anything else."""
    facts = torch_internals.facts_of_processes
    assert facts(3) is None
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        world = dist.group.WORLD
        assert torch_internals.backend_of_group("0", "cpu") == "gloo"
        assert torch_internals.backend_of_group("no such group", "cpu") == ""
        mesh, same, other = (init_device_mesh("cpu", (1, 1), mesh_dim_names=names) for names in (AB, AB, ("a", "c")))
        assert facts(world) == ["group", world.group_name, 0, [0]]
        assert facts(mesh)[:2] == ["mesh", 0]
        assert facts(mesh) != facts(other)
        assert facts(mesh["a"]) != facts(mesh["b"]) != facts(mesh)
        before = facts(mesh["a"])
        mesh["a", "b"]._flatten("joined")
        assert facts(mesh["a"]) != before  # mesh["joined"] can be asked for
        assert torch_internals.device_mesh(same) is same
    finally:
        dist.destroy_process_group()
    assert torch_internals.device_mesh(world) is None
    assert facts(mesh) is None  # what it is about was destroyed
