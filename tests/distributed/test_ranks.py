"""Two processes over gloo on loopback, started by torchrun as a user starts them."""

import pytest
import torch

pytestmark = pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()), reason="this torch has no gloo"
)


@pytest.mark.parametrize("way", ["ddp", "fsdp", "sizes", "ddp of compiled", "fsdp of compiled"])
def test_training(ranks, way):
    """A compiled DDP or FSDP2 model trains as in eager mode; a recompile of one rank does not block the others."""
    for found in ranks:
        right, _ = found[way]
        assert right


def test_buckets(ranks):
    """The graph of a DDP model is split at its buckets; with a single bucket it is not."""
    assert [found["ddp"][1] for found in ranks] == [2, 2]
    assert [found["sizes"][1] for found in ranks] == [1, 1]  # recompiled with symbolic sizes


@pytest.mark.parametrize("name", ["reduced", "gathered", "in_place"])
def test_collectives(ranks, name):
    """A compiled function with a collective has eager's result on each rank."""
    assert all(found[name][0] for found in ranks)


def test_a_sum_is_on_its_way_while_a_product_is_computed(ranks):
    """The collective is issued early and waited for late, in the plan and in a profile; the result is eager's."""
    for right, planned, ran in (found["overlap"] for found in ranks):
        assert right
        assert planned.index("all_reduce") < planned.index("mm") < planned.index("wait_tensor")
        assert ran == planned


def test_small_collectives_are_two_calls(ranks):
    """Three sums and two gathers are one bucket each, and overlap with a product; the result is bitwise eager's."""
    for found in ranks:
        right, planned, ran = found["bucket"]
        assert right
        assert planned[:3] == ["all_reduce_coalesced", "all_gather_into_tensor_coalesced", "mm"]
        assert planned[3:] == ["wait_tensor"] * 5
        assert ran == planned
