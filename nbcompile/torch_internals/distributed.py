"""Gradient buckets of DistributedDataParallel, and the split of a graph into a graph of parts.

In torch: torch/nn/parallel/distributed.py, torch/fx/passes/split_module.py. Read next:
nbcompile/backends/gradient_buckets.py
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import torch.fx

from nbcompile.torch_internals.fakes import EXAMPLE, static_fake
from nbcompile.torch_internals.modules import dispatch_modes, fake_tensor, guards_context


def bucket_bytes() -> int:
    """Bytes of a gradient bucket of the DistributedDataParallel module whose ``forward`` runs; 0: none runs."""
    module: Any = sys.modules.get("torch.nn.parallel.distributed")
    active = module.DistributedDataParallel._get_active_ddp_module() if module is not None else None
    return 0 if active is None else int(active.bucket_bytes_cap)


def first_bucket_bytes() -> int:
    """Bytes of the bucket that DDP completes first, which is smaller so that communication begins early."""
    return int(getattr(torch.distributed, "_DEFAULT_FIRST_BUCKET_BYTES", sys.maxsize))  # missing without the library


def sent_bytes(value: object) -> int:
    """Bytes of the gradient of a graph's input that DDP sends; 0: it sends none."""
    if not isinstance(value, torch.nn.Parameter) or not value.requires_grad or getattr(value, "_ddp_ignored", False):
        return 0
    return value.untyped_storage().nbytes()


def group_property(name: str, property_name: str) -> Any:
    """A property of the process group of a name: "size", "rank", "group_name", "group_desc", "ranks", "tag"."""
    module: Any = torch.distributed.distributed_c10d
    group = module._resolve_process_group(name)
    if property_name == "ranks":
        return module.get_process_group_ranks(group)
    if property_name == "tag":
        return module._get_group_tag(group)
    found = getattr(group, property_name)
    return found() if callable(found) else found


def backend_of_group(name: str, device: str) -> str:
    """Name of the backend of a process group for tensors on a kind of device; "" if there is no such group."""
    module: Any = torch.distributed.distributed_c10d
    try:
        group = module._resolve_process_group(name)
    except RuntimeError:
        return ""
    try:
        return str(group._get_backend(torch.device(device)).name())
    except RuntimeError:  # a group that is written in Python has no backends
        return str(group.name())


def device_mesh(value: object) -> Any:
    """The value if it is a mesh of devices, else None; does not import the module of meshes."""
    module: Any = sys.modules.get("torch.distributed.device_mesh")
    return value if module is not None and type(value) is module.DeviceMesh else None


def facts_of_processes(value: object) -> list[Any] | None:
    """The properties of a process group or a mesh of devices that another process compares; None for other values."""
    mesh = device_mesh(value)
    try:
        if mesh is not None:
            root = mesh._get_root_mesh()
            joined = getattr(root, "_flatten_mapping", {})  # flattened dimensions, by name
            found = [_facts_of_mesh(each) for each in (mesh, root, *joined.values())]
            return ["mesh", mesh.get_rank(), list(joined), *found]
        if torch.distributed.is_available() and isinstance(value, torch.distributed.ProcessGroup):
            return ["group", value.group_name, value.rank(), group_property(value.group_name, "ranks")]
    except (RuntimeError, KeyError, ValueError):
        pass
    return None


def _facts_of_mesh(mesh: Any) -> list[Any]:
    names = mesh.mesh_dim_names, getattr(mesh, "_dim_group_names", None)
    return [mesh.device_type, list(mesh.mesh.shape), mesh.mesh.flatten().tolist(), repr(names)]


def registered_group(tag: str, ranks: list[int], stride: int) -> Any:
    """The process group of this process among the existing ones of some ranks; None: there is none."""
    module: Any = torch.distributed.distributed_c10d
    rank = module.get_rank()
    parts = [sorted(ranks[at : at + stride]) for at in range(0, len(ranks), stride)]
    return next((module._find_pg_by_ranks_and_tag(tag, part) for part in parts if rank in part), None)


def split_module(module: torch.fx.GraphModule, part_of: Callable[[torch.fx.Node], int]) -> torch.fx.GraphModule:
    """A graph of calls of the parts of a graph; nodes keep their names and parts the order of their operators."""
    splitter: Any = importlib.import_module("torch.fx.passes.split_module")
    # It searches the examples for symbols; the example of a body of a higher-order operator is the body.
    constants = module.graph.find_nodes(op="get_attr")
    bodies = {node: node.meta.pop(EXAMPLE) for node in constants if EXAMPLE in node.meta}
    try:
        split: torch.fx.GraphModule = splitter.split_module(
            module, None, part_of, keep_original_order=True, keep_original_node_name=True
        )
    finally:
        for node, body in bodies.items():
            node.meta[EXAMPLE] = body
    return split


def parts_of(split: torch.fx.GraphModule) -> Iterator[tuple[torch.fx.Node, torch.fx.GraphModule]]:
    """The calls in a graph of parts, each with the graph of its part."""
    for call in split.graph.find_nodes(op="call_module"):
        part = split.get_submodule(str(call.target))
        assert isinstance(part, torch.fx.GraphModule)
        yield call, part


def fakes_of(values: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Fake tensors for the inputs of a graph, and their mode: as they are, or built from real ones."""
    mode = guards_context().detect_fake_mode(values)
    mode = fake_tensor().FakeTensorMode() if mode is None else mode
    fake = fake_tensor().FakeTensor

    def fake_of(value: Any) -> Any:
        is_real = isinstance(value, torch.Tensor) and not isinstance(value, fake)
        return static_fake(mode, value) if is_real else value

    return mode, list(map(fake_of, values))


@contextmanager
def running_fake(mode: Any) -> Iterator[None]:
    """Run operators of the block on fake tensors and symbols of the mode; restore the grad mode afterwards."""
    allowed, mode.allow_non_fake_inputs = mode.allow_non_fake_inputs, True
    try:
        with torch.set_grad_enabled(torch._C.is_grad_enabled()), mode, torch._C._EnablePythonDispatcher():
            yield
    finally:
        mode.allow_non_fake_inputs = allowed


@contextmanager
def not_running_fake() -> Iterator[None]:
    """Suspend :func:`running_fake` in the block: a backend runs outside of all modes, and keeps the grad mode."""
    grad_mode = torch.set_grad_enabled(torch._C.is_grad_enabled())  # AOTAutograd sets what the graph sets
    with grad_mode, dispatch_modes()._disable_current_modes(), torch._C._DisablePythonDispatcher():
        yield
