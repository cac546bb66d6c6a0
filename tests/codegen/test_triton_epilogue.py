"""The epilogue of a product in its kernel: operators, operands, and rounding."""

from __future__ import annotations

import torch
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from nbcompile.codegen import triton_epilogue

aten = torch.ops.aten


def chain(function, *inputs: torch.Tensor):
    """The epilogue of the first product of a function, and that product."""
    graph = make_fx(function, tracing_mode="fake")(*inputs).graph
    (product,) = graph.find_nodes(op="call_function", target=aten.mm.default)
    return triton_epilogue.following(product), product


def half(*size: int) -> torch.Tensor:
    return torch.randn(size).bfloat16()


def test_a_chain_ends_where_a_result_is_used_twice():
    """The epilogue ends at a result with two users, and at an operator without a text, such as a reduction."""
    x, w = half(8, 4), half(4, 6)
    names = {
        lambda x, w: aten.silu(x @ w) * 2: ["silu.default", "mul.Tensor"],
        lambda x, w: aten.relu(x @ w).sum(0): ["relu.default"],
        lambda x, w: (lambda y: (y + 1, y))(aten.relu(x @ w)): ["relu.default"],
        lambda x, w: torch.add(x @ w, x[:, :1], alpha=2): [],
        lambda x, w: (x @ w) * float("inf"): [],
    }
    for function, expected in names.items():
        found, _ = chain(function, x, w)
        assert [str(node.target).removeprefix("aten.") for node in found.nodes] == expected


def test_operands_are_read_where_the_tile_is():
    """An operand may be a row, a column or a number; each 16-bit result is rounded."""
    x, w, bias, column, scalar = half(8, 4), half(4, 6), half(6), half(8, 1), torch.randn(())
    found, product = chain(lambda x, w, b, c, n: (x @ w + b) * c - n, x, w, bias, column, scalar)
    lines = list(triton_epilogue.lines(found, product))
    assert found.parameters == ("operand0", "operand1", "operand2")
    assert "operand0 + (row * 0 + column * 1)" in lines[1]
    assert "operand1 + (row.to(tl.int64) * 1 + column * 0)" in lines[2]
    assert "operand2 + (row * 0 + column * 0)" in lines[3]
    assert [line.endswith(".to(tl.bfloat16).to(tl.float32)") for line in (lines[0], *lines[4:6])] == [True] * 3


def test_an_operand_of_another_shape_ends_the_chain():
    """An operand that broadcasts the product ends the epilogue."""
    found, _ = chain(lambda x, w, y: (x @ w) + y, half(1, 4), half(4, 6), half(3, 6))
    assert found.nodes == ()


def test_an_operand_of_another_device_ends_the_chain():
    """A number on the CPU ends the epilogue, because a GPU kernel cannot read it."""
    with FakeTensorMode():
        x, w = torch.empty(8, 4, device="cuda"), torch.empty(4, 6, device="cuda")
        graph = make_fx(lambda x, w, n: (x @ w).relu() * n)(x, w, torch.empty(())).graph
    (product,) = graph.find_nodes(op="call_function", target=aten.mm.default)
    assert [node.target for node in triton_epilogue.following(product).nodes] == [aten.relu.default]


def test_a_number_of_more_bits_is_rounded_first():
    """A scalar tensor of a wider dtype is rounded to 16 bits first, as in eager mode."""
    scalar, row = torch.randn(()), torch.randn(6)
    for operand, is_rounded in ((scalar, True), (row, False)):
        found, product = chain(lambda x, w, n: (x @ w) * n, half(8, 4), half(4, 6), operand)
        last = list(triton_epilogue.lines(found, product))[-1]
        assert ("(value0).to(tl.bfloat16).to(tl.float32)" in last) is is_rounded


def test_positions_are_wide_where_offsets_may_be():
    """An offset above 2**31 is computed in 64 bits."""
    with FakeTensorMode():
        tall = torch.empty(4096, 2**19, dtype=torch.bfloat16)
        found, product = chain(lambda x, w, z: (x @ w) * z, torch.empty(2**19, 1), torch.empty(1, 4096), tall.t())
    assert f"column.to(tl.int64) * {2**19})" in list(triton_epilogue.lines(found, product))[1]
