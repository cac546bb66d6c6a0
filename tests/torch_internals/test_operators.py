"""Functions of torch that are nodes."""

from __future__ import annotations

import sys

import pytest
import torch
import torch.nn.functional as F

from nbcompile.torch_internals import operators
from tests.support.processes import command


@pytest.mark.parametrize("function", [
    torch.sin, torch.add, F.relu, F.linear, torch.Tensor.add, torch.Tensor.__add__, torch.linalg.norm, torch.fft.fft,
    torch.special.erf, torch.ops.aten.add, torch.ops.aten.add.Tensor,
])  # fmt: skip
def test_operators_on_tensors_are_nodes(function):
    """Functions, methods of the class, and ATen's own."""
    assert operators.is_operator(function)


@pytest.mark.parametrize("function", [
    torch.save, torch.no_grad, torch.nn.Linear, torch.manual_seed, torch.is_tensor, torch.compile, torch.cond, len,
    torch.set_grad_enabled, torch.nn.Module.__call__,
])  # fmt: skip
def test_others_are_not(function):
    """Classes, functions of state, and what has a handler of its own."""
    assert not operators.is_operator(function)


def test_identities_stay_valid():
    """An id is looked up: the function behind it is kept, so that no other object gets it."""
    assert len({*map(id, operators._KEPT)}) >= len(operators.operator_ids()) > 1000


def test_every_step_of_a_transform_that_this_torch_has_is_a_node():
    """They change the state of the process: without them in the graph it would run outside of the transform."""
    assert all(map(operators.is_operator, operators.transform_steps()))
    assert len(operators.transform_steps()) > 15


UNUSED = """
import sys, torch
import torch.distributed as dist
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
import nbcompile
name = "torch.distributed._functional_collectives"
for module in [each for each in sys.modules if each.startswith(name)]:
    raise SystemExit(module)
collectives = torch.ops._c10d_functional
compiled = nbcompile.compile(lambda x: collectives.wait_tensor(collectives.all_reduce(x.sin(), "sum", "0")) + 1)
x = torch.randn(4)
torch.testing.assert_close(compiled(x), x.sin() + 1)
group = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))
print(group._get_sequence_number_for_group())
"""


def test_tracing_issues_no_collective(tmp_path):
    """Torch says what they do with fake tensors in a module that nothing imports: one is issued, and none is left."""
    if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
        pytest.skip("this torch has no gloo")
    script = tmp_path / "program.py"
    script.write_text(UNUSED)
    ran = command(sys.executable, script, folder=tmp_path, NBCOMPILE_CACHE_DIR=tmp_path / "cache")
    assert ran.stdout.split() == ["1"]
    assert "unwaited" not in ran.stderr


def test_operators_without_a_module_of_their_own_import_nothing():
    """Neither ATen's nor functions that are no operators."""
    for function in (torch.ops.aten.add, torch.ops.aten.add.Tensor, torch.sin, len):
        operators.register_fake_forms(function)
