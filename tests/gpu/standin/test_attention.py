"""Attention on the stand-in device: compiled code calls the operator that eager mode chooses."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode

import nbcompile

FLASH, EFFICIENT = "_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention"


class Called(TorchDispatchMode):
    """The names of the attention operators that are called."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        name = operator.overloadpacket.__name__
        if "attention" in name:
            self.names.append(name)
        return operator(*args, **(kwargs or {}))


def attention(q, k, v, mask=None, **how):
    return F.scaled_dot_product_attention(q, k, v, mask, **how)


def tensors(dtype=torch.float16, *, heads=4, keys=4, rows=24, length=24, width=16):
    """Query, keys and values."""
    torch.manual_seed(0)
    sizes = ((2, heads, rows, width), (2, keys, length, width), (2, keys, length, width))
    return [torch.randn(size, device="cuda").to(dtype).requires_grad_() for size in sizes]


def called_by_eager(function, inputs):
    """Results and gradients, and the attention operators that are called."""
    with Called() as called:
        result = function(*inputs)
        grads = torch.autograd.grad(result.float().square().sum(), [each for each in inputs if each.requires_grad])
    return result, grads, called.names


def check(function, *inputs):
    """Compile with gradients: results and operators are eager mode's; return the operators' names."""
    torch.manual_seed(1)
    expected, expected_grads, eager = called_by_eager(function, inputs)
    torch.manual_seed(1)
    compiled = nbcompile.compile(function)
    result, grads, names = called_by_eager(compiled, inputs)
    for one, other in zip((result, *grads), (expected, *expected_grads), strict=True):
        torch.testing.assert_close(one.cpu(), other.cpu(), rtol=1e-5, atol=1e-5)
        assert one.stride() == other.stride()
    return eager, names


CASES = {
    "plain": ({}, {}, FLASH),
    "causal": ({"is_causal": True}, {}, FLASH),
    "bfloat16": ({}, {"dtype": torch.bfloat16}, FLASH),
    "shared heads": ({"enable_gqa": True}, {"keys": 2}, FLASH),
    "scale": ({"scale": 0.3}, {}, FLASH),
    "fewer rows than keys": ({}, {"rows": 5}, FLASH),
    "dropout": ({"dropout_p": 0.25}, {}, FLASH),
    "float32": ({}, {"dtype": torch.float32}, EFFICIENT),
    "float32, causal": ({"is_causal": True}, {"dtype": torch.float32}, EFFICIENT),
    "fewer rows than keys, causal": ({"is_causal": True}, {"rows": 5}, EFFICIENT),
    "float32, dropout": ({"dropout_p": 0.25}, {"dtype": torch.float32}, EFFICIENT),
    "float64": ({}, {"dtype": torch.float64}, ""),
    "float32, shared heads": ({"enable_gqa": True}, {"keys": 2, "dtype": torch.float32}, ""),
    "heads of odd width": ({}, {"width": 9, "dtype": torch.float32}, ""),
}


@pytest.mark.parametrize("case", CASES)
def test_the_choice_is_eagers_forward_and_backward(case):
    """Torch chooses by dtype, mask and sizes; if both modes call one operator, the results are bitwise equal."""
    how, sizes, operator = CASES[case]
    eager, compiled = check(lambda q, k, v: attention(q, k, v, **how), *tensors(**sizes))
    assert eager == compiled == ([operator, f"{operator}_backward"] if operator else [])


@pytest.mark.parametrize("kind", ["bool", "float", "float, learned", "one row", "one row, learned"])
def test_a_mask_asks_for_the_efficient_operator(kind):
    """Masks of floats and of bools use the efficient operator; a learned mask has a gradient."""
    q, k, v = tensors()
    mask = torch.randn(1 if "row" in kind else 24, 24, device="cuda").half()
    mask = mask > -1 if kind == "bool" else mask.requires_grad_("learned" in kind)
    eager, compiled = check(attention, q, k, v, mask)
    assert eager == compiled == [EFFICIENT, f"{EFFICIENT}_backward"]


@pytest.mark.parametrize("backend", [SDPBackend.MATH, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.FLASH_ATTENTION])
def test_the_programs_own_choice_holds(backend):
    """``sdpa_kernel`` around the call chooses the operator."""

    def chosen(q, k, v):
        with sdpa_kernel(backend):
            return attention(q, k, v)

    names = {SDPBackend.EFFICIENT_ATTENTION: [EFFICIENT], SDPBackend.FLASH_ATTENTION: [FLASH]}.get(backend, [])
    eager, compiled = check(chosen, *tensors())
    assert eager == compiled == [name + suffix for name, suffix in itertools.product(names, ("", "_backward"))]


def test_the_record_names_the_operator_and_the_reason():
    """The record has one call of ATen, its reason, and the kernels around it."""

    def block(q, k, v):
        return torch.relu(attention(q * 2, k, v) + 1)

    inputs = [each.detach() for each in tensors()]
    found = nbcompile.explain(block)(*inputs)
    (call,) = (kernel for kernel in found.kernels if kernel.language == "aten")
    assert call.name == f"aten.{FLASH}.default"
    assert call.reason == "attention: ATen has a fused kernel"
    torch.testing.assert_close(found.result, block(*inputs))


def test_the_numbers_are_those_of_products_and_a_softmax():
    """The stand-in's attention operators equal torch's on the CPU, in float32."""
    for how, sizes in (({}, {}), ({"is_causal": True}, {}), ({"enable_gqa": True}, {"keys": 2})):
        inputs = [each.detach() for each in tensors(**sizes)]
        wide = [each.cpu().float().requires_grad_() for each in inputs]
        expected = attention(*wide, **how)
        torch.testing.assert_close(attention(*inputs, **how).cpu().float(), expected, rtol=2e-3, atol=2e-3)
        given = [each.requires_grad_() for each in inputs]
        grads = torch.autograd.grad(attention(*given, **how).float().sum(), given)
        for one, other in zip(grads, torch.autograd.grad(expected.sum(), wide), strict=True):
            torch.testing.assert_close(one.cpu().float(), other, rtol=1e-2, atol=1e-2)


def test_a_recorded_graph_has_attention(here):
    """Without dropout the graph is recorded; with dropout the record has the reason why not."""
    inputs = [each.detach() for each in tensors()]

    def block(q, k, v):
        return torch.relu(attention(q * 2, k, v) + 1)

    compiled = nbcompile.compile(block, mode="reduce-overhead")
    for _ in range(4):
        here.driver.clear_log()
        torch.testing.assert_close(compiled(*inputs), block(*inputs), rtol=1e-3, atol=1e-3)
    assert [line.split()[0] for line in here.driver.log()].count("replay") == 1

    def drops(q, k, v):
        return torch.relu(attention(q * 2, k, v, dropout_p=0.5) + 1)

    torch.manual_seed(3)
    expected = drops(*inputs)
    torch.manual_seed(3)
    found = nbcompile.explain(drops, mode="reduce-overhead")(*inputs)
    torch.testing.assert_close(found.result, expected, rtol=1e-3, atol=1e-3)
    notes = [note for frame in found.record.frames for note in getattr(frame.compiled_graph, "notes", ())]
    assert any("_scaled_dot_product_flash_attention" in note for note in notes), notes
