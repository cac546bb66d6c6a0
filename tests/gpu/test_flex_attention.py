"""Nodes of flex attention are marked with their kernels, or with the reason for a fallback."""

from __future__ import annotations

import operator

import pytest
import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

pytest.importorskip("triton", reason="Triton is an extra (nbcompile[cuda])")

from nbcompile.gpu import flex_attention
from nbcompile.lowering.flex_attention import OPERATOR, FlexForward
from nbcompile.lowering.kernel_launches import KERNEL

GPU = torch.device("cuda")
PLACE = [torch.ones((), dtype=torch.int32) for _ in range(4)]


def attention(
    *, rows=128, keys=128, width=16, dtype=torch.float16, batch=1, heads=2, shared=2, block=128, lists=True, results=(0, 1),
    buffers=(), options=None,
):  # fmt: skip
    """A graph with one attention on fake tensors; it does not run."""
    score = make_fx(lambda s, b, h, i, j: s * 2)(torch.ones(()), *PLACE)
    mask = make_fx(lambda b, h, i, j: i >= j)(*PLACE)
    graph = fx.Graph()

    def given(name, *size, dtype=dtype):
        node = graph.placeholder(name)
        node.meta["val"] = torch.empty(size, dtype=dtype, device="meta")
        return node

    query, key = given("q", batch, heads, rows, width), given("k", batch, shared, keys, width)
    value = given("v", batch, shared, keys, width)
    blocks = -(-rows // block)
    counts, positions = ((1, 1, blocks), (1, 1, blocks, blocks)) if lists else ((), ())
    listed = [given(f"list{at}", *(positions if at % 2 else counts), dtype=torch.int32) for at in range(2)]
    of_rows = [given(f"rows{at}", *(positions if at % 2 else counts), dtype=torch.int32) for at in range(2)]
    nodes = (graph.get_attr("score"), graph.get_attr("mask"))
    kv = (*(listed if lists else (None, None)), None, None, *(of_rows if lists else (None, None)), None, None)
    mask_arguments = (rows, rows, *kv, block, block, nodes[1])
    held = tuple(given(f"held{at}", *size) for at, size in enumerate(buffers))
    node = graph.call_function(OPERATOR, (query, key, value, nodes[0], mask_arguments, 0.25, options or {}, held, ()))
    node.meta["val"] = tuple(
        torch.empty(size, device="meta") for size in ((batch, heads, rows, width), (batch, heads, rows), (1,))
    )
    graph.output(tuple(graph.call_function(operator.getitem, (node, at)) for at in results))
    return fx.GraphModule({"score": score, "mask": mask}, graph), node


def marked(device=GPU, multiprocessors=8, **how):
    """The mark of the node."""
    module, node = attention(**how)
    flex_attention.mark(module, device, lambda: multiprocessors)
    return node.meta.get(KERNEL)


def test_an_attention_of_a_gpu_has_its_kernel():
    """The mark has the kernel's arguments by parameter name, and the lists of blocks."""
    found = marked()
    assert isinstance(found, FlexForward), found
    assert found.launch.name == "triton_flex_attention" and found.combination is None and found.splits == 0
    assert {"query", "key", "value", "counts", "positions"} <= set(found.arguments)
    assert set(found.launch.parameters) - set(found.arguments) == {"out", "sums"}


def test_on_the_cpu_nothing_is_marked():
    """On the CPU no node is marked, also if no device is given: the tensors decide."""
    assert marked(torch.device("cpu")) is None
    assert marked(None) is None


REASONS = {
    "whose largest scores are used": {"results": (0, 2)},
    "of heads of more than 128 columns": {"width": 256},
    "in torch.float64": {"dtype": torch.float64},
    "without elements": {"batch": 0},
    "without lists of the blocks of rows": {"lists": False},
    "with blocks of 20": {"block": 20, "rows": 256, "keys": 256},
}


@pytest.mark.parametrize("reason", REASONS)
def test_what_has_no_kernel_has_a_reason(reason):
    """A node without a kernel has a reason, and runs through ATen."""
    found = marked(**REASONS[reason])
    assert isinstance(found, str) and found.endswith(reason), found


@pytest.mark.parametrize(("how", "splits"), [
    ({}, True), ({"multiprocessors": 1}, False), ({"options": {"FORCE_USE_FLEX_ATTENTION": True}}, False),
    ({"heads": 6, "shared": 2}, False), ({"keys": 32}, False),
])  # fmt: skip
def test_few_rows_share_the_keys_among_programs(how, splits):
    """Two splits per multiprocessor, and at most one per tile of keys; the count of shared heads is a power of two."""
    module, node = attention(**{"rows": 64, "keys": 512, **{k: v for k, v in how.items() if k != "multiprocessors"}})
    flex_attention.mark(module, GPU, lambda: how.get("multiprocessors", 8))
    found = node.meta[KERNEL]
    assert isinstance(found, FlexForward), found
    assert (found.splits > 1) is splits and (found.combination is not None) is splits


def gradients(*wanted):
    """The derivative of a function that reads tensors, some with a gradient."""
    graph = fx.Graph()
    node = graph.placeholder("g")
    graph.output((node, *(node if one else None for one in wanted)))
    return fx.GraphModule({}, graph)


def test_tensors_that_get_a_gradient_are_counted(monkeypatch):
    """Gradients of captured tensors are atomic additions in no fixed order, which deterministic mode rejects."""
    assert flex_attention._captured(gradients(True, False, True), 3) == (0, 2)
    assert flex_attention._captured(gradients(), 0) == ()
    monkeypatch.setattr(torch, "are_deterministic_algorithms_enabled", lambda: True)
    assert flex_attention._captured(gradients(False), 1) == ()
    with pytest.raises(flex_attention.NoLowering, match="not deterministic"):
        flex_attention._captured(gradients(True), 1)


def test_lists_of_rows_follow_those_of_keys():
    """Each list of rows has counts and indices, and full blocks have separate lists."""
    blocks = (1, 1, "c", "p", None, None, "cr", "pr", "fc", "fp", 128, 128, "mask")
    assert flex_attention._listed(blocks, 0) == {"counts": "c", "positions": "p"}
    assert flex_attention._listed(blocks, 4) == {
        "counts_of_rows": "cr", "positions_of_rows": "pr", "full_counts_of_rows": "fc", "full_positions_of_rows": "fp"
    }  # fmt: skip
