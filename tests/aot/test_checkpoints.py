"""Random operators in a checkpoint: recomputation draws the same numbers again, also in a graph that runs as captured.

In torch: test/dynamo/test_activation_checkpointing.py. Read next: nbcompile/aot/checkpoints.py
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

import nbcompile
from nbcompile import backends
from nbcompile.aot import checkpoints
from tests.support.observed import agrees_with_eager

WEIGHT = torch.nn.Parameter(torch.linspace(-1, 1, 9).view(3, 3))


def dropped(x: torch.Tensor) -> torch.Tensor:
    return F.dropout(x @ WEIGHT, 0.5).sin()


def plain(x: torch.Tensor) -> torch.Tensor:
    return checkpoint(dropped, x, use_reentrant=False)


def nested(x: torch.Tensor) -> torch.Tensor:
    return checkpoint(lambda each: F.dropout(plain(each) * 2, 0.3), x, use_reentrant=False) + plain(x)


def _keep_products(_context, op, *_arguments, **_keywords):
    return CheckpointPolicy.MUST_SAVE if op is torch.ops.aten.mm.default else CheckpointPolicy.PREFER_RECOMPUTE


def _contexts():
    return create_selective_checkpoint_contexts(_keep_products)


def selective(x: torch.Tensor) -> torch.Tensor:
    return checkpoint(dropped, x, use_reentrant=False, context_fn=_contexts)


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("function", [plain, nested, selective])
def test_dropout_in_a_checkpoint(function, backend, dynamic):
    """Loss, gradients and the generator's state equal eager's; torch draws new numbers with ``backend="eager"``."""

    def program(compiled):
        run = compiled(function)
        results = []
        for size in (3, 3, 4):
            WEIGHT.grad = None
            x = torch.ones(size, 3, requires_grad=True)
            loss = run(x).square().sum()
            loss.backward()
            results += [loss.detach(), x, WEIGHT.grad, torch.get_rng_state()]
        return results

    agrees_with_eager(program, backend=backend, dynamic=dynamic)


def test_a_graph_that_runs_as_captured():
    """A checkpoint in a graph that runs as captured draws the same numbers twice, whatever caused the fallback."""

    def with_noise(x):
        torch.rand(2)
        return plain(x)

    graphs = []

    def backend(graph, inputs):
        graphs.append(checkpoints.with_eager_checkpoints(graph))
        return backends.inductor(graph, inputs)

    def program(compiled):
        x = torch.ones(3, 3, requires_grad=True)
        compiled(with_noise)(x).sum().backward()
        return x

    agrees_with_eager(program, backend=backend)
    assert not graphs[0].graph.find_nodes(op="call_function", target=checkpoints.OPERATOR)


def test_a_graph_without_checkpoints_is_itself():
    """A graph without checkpoints is not copied."""
    seen = []
    nbcompile.compile(torch.sin, backend=lambda graph, _: seen.append(graph) or graph.forward)(torch.ones(2))
    assert checkpoints.with_eager_checkpoints(seen[0]) is seen[0]


@pytest.mark.filterwarnings("error::nbcompile.errors.GeneratedCodeWarning")
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_rate_that_has_to_be_a_constant(backend):
    """AOTAutograd asks for the value of a float, and is called again with it: the graph does not run as captured."""
    layers = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout(0.5))

    def program(compiled):
        x = torch.ones(3, 3, requires_grad=True)
        compiled(lambda each: checkpoint(layers, each, use_reentrant=False))(x).sum().backward()
        return x, torch.get_rng_state()

    agrees_with_eager(program, backend=backend, dynamic=True)
