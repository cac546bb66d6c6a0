"""Random tensors become arguments of a plan."""

from __future__ import annotations

import pytest
import torch

from nbcompile.gpu import random_draws
from nbcompile.ir.emitted import (
    AllocateSlot,
    AtSlot,
    Call,
    ExternResult,
    FreeSlot,
    Launch,
    LaunchPlan,
    PlanOutput,
    RuntimeSize,
    TensorShape,
)

aten = torch.ops.aten
SHAPE = TensorShape(torch.float32, (4, 8), (8, 1), 0)
MASK = TensorShape(torch.bool, (4, 8), (8, 1), 0)


def plan_of(call, *results) -> LaunchPlan:
    """x (slot 0), a constant (slot 1), a random tensor (2, 3), out (4)."""
    steps = (
        call, AllocateSlot(4, SHAPE), Launch("kernel0", (0, 1, 2, 4), (), 1), *(FreeSlot(slot) for slot in results),
    )  # fmt: skip
    return LaunchPlan((SHAPE,), 5, steps, (PlanOutput(4),), (("constant", SHAPE),), gpu=0)


def test_a_factory_is_an_argument_after_the_others():
    """The drawn tensor comes after the arguments, and before the constants; the graph does not free it."""
    call = Call("extern0", ([4, 8],), (), (ExternResult((), 2, SHAPE),))
    found = random_draws.without_draws(plan_of(call, 2), {"extern0": aten.rand.default})
    assert found.plan.inputs == (SHAPE, SHAPE)
    assert found.plan.steps == (AllocateSlot(4, SHAPE), Launch("kernel0", (0, 2, 1, 4), (), 1))
    assert found.plan.outputs == (PlanOutput(4),)
    (draw,) = found.draws
    assert (draw.target, draw.arguments) == (aten.rand.default, ([4, 8],))


def test_a_tensor_of_which_only_the_layout_matters_is_made_up():
    """``bernoulli.p`` reads no element, so an empty tensor with the layout is its argument."""
    call = Call("extern0", (AtSlot(0), 0.25), (), (ExternResult((), 2, SHAPE),))
    found = random_draws.without_draws(plan_of(call, 2), {"extern0": aten.bernoulli.p})
    assert found.draws[0].arguments[0].size == (4, 8)


def test_dropout_is_a_mask_and_a_product():
    """The mask and the scaled mask are drawn, and the graph multiplies with the latter."""
    call = Call("extern0", (AtSlot(0), 0.5, True), (), (ExternResult((0,), 2, SHAPE), ExternResult((1,), 3, MASK)))
    found = random_draws.without_draws(plan_of(call, 3), {"extern0": aten.native_dropout.default})
    assert found.plan.inputs == (SHAPE, SHAPE, MASK)
    product = found.plan.steps[0]
    assert (product.arguments, product.results[0].slot) == ((AtSlot(0), AtSlot(1)), 4)
    assert found.more_externs == ((product.extern, aten.mul.Tensor),)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("probability", [0.0, 0.1, 0.3, 1.0])
def test_the_product_with_a_scaled_mask_is_dropout_to_the_bit(dtype, probability):
    """The product is bitwise equal for zeros of both signs, infinities and numbers that overflow, too."""
    x = torch.cat(
        [torch.randn(500, dtype=dtype), torch.tensor([0.0, -0.0, float("inf"), -float("inf"), 3e38], dtype=dtype)]
    )
    torch.manual_seed(0)
    expected, mask = aten.native_dropout(x, probability, True)
    torch.manual_seed(0)
    scale, same_mask = aten.native_dropout(torch.ones_like(x), probability, True)
    assert torch.equal(mask, same_mask)
    number = torch.int32 if dtype == torch.float32 else torch.int64
    bits, found = expected.view(number), (x * scale).view(number)
    assert torch.equal(bits[~expected.isnan()], found[~expected.isnan()])
    assert torch.equal(expected.isnan(), (x * scale).isnan())


@pytest.mark.parametrize(
    ("target", "arguments", "dtype"),
    [
        (aten.multinomial.default, (AtSlot(0), 2), torch.float32),
        (aten.bernoulli.default, (AtSlot(0),), torch.float32),
        (aten.rand.default, ([RuntimeSize(0), 8],), torch.float32),
        (aten.native_dropout.default, (AtSlot(0), 0.5, True), torch.bfloat16),
    ],
)
def test_what_depends_on_the_graph_is_rejected(target, arguments, dtype):
    """A draw that reads a tensor's elements, has symbolic sizes, or would be rounded twice, is rejected."""
    shape = TensorShape(dtype, (4, 8), (8, 1), 0)
    path = (0,) if target is aten.native_dropout.default else ()
    call = Call("extern0", arguments, (), (ExternResult(path, 2, shape),))
    with pytest.raises(random_draws.NotDrawable):
        random_draws.without_draws(plan_of(call, 2), {"extern0": target})


def test_attention_of_which_nothing_is_dropped_draws_nothing():
    """Attention without dropout is called in the graph; with dropout it is rejected."""
    target = aten._scaled_dot_product_flash_attention.default
    call = Call("extern0", (AtSlot(0), AtSlot(0), AtSlot(0)), (), (ExternResult((0,), 2, SHAPE),))
    assert random_draws.without_draws(plan_of(call, 2), {"extern0": target}).draws == ()
    drops = Call("extern0", (AtSlot(0), AtSlot(0), AtSlot(0), 0.5), (), (ExternResult((0,), 2, SHAPE),))
    with pytest.raises(random_draws.NotDrawable):
        random_draws.without_draws(plan_of(drops, 2), {"extern0": target})
