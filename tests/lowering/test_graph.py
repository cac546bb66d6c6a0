"""Lowering of a graph: buffers, mutation, fallbacks to ATen, and rejected graphs."""

from __future__ import annotations

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import nbcompile
from nbcompile.ir import evaluate
from nbcompile.ir.buffer import Extern
from nbcompile.lowering import lower
from nbcompile.lowering.registry import LOWERINGS, lowering
from nbcompile.scheduling import schedule
from tests.support.lowered import check, programs, traced

aten = torch.ops.aten


def test_an_operator_is_lowered_once():
    """A second lowering of an operator is rejected, naming both functions."""
    with pytest.raises(ValueError, match="lowered twice"):
        lowering(aten.add.Tensor)(lambda build, x: x)
    assert LOWERINGS[aten.add.Tensor].__name__ == "add"


def test_every_other_operator_runs_through_aten_with_a_reason():
    """A sort runs through ATen, with a reason."""
    program, _ = check(lambda x: torch.sort(x + 1)[0] * 2, torch.randn(5), allow_extern=True)
    (call,) = [each for each in program.buffers if isinstance(each, Extern)]
    assert call.reason == "sorting"


def test_random_calls_keep_their_order():
    """Random operators keep their order, so that results equal eager's."""

    def f(x):
        return torch.rand_like(x) - x, torch.randn_like(x).sum(), torch.rand_like(x)

    x = torch.randn(6)
    graph = make_fx(f, tracing_mode="fake")(x)
    for stage in (lower(graph), schedule(lower(graph))):
        torch.manual_seed(3)
        found = evaluate.run(stage, [x])
        torch.manual_seed(3)
        for mine, theirs in zip(found, f(x), strict=True):
            torch.testing.assert_close(mine, theirs)


def test_integer_division_by_the_number_zero_is_left_to_aten():
    """Division by the constant zero runs through ATen, which raises; division by a tensor is a kernel."""
    program, _ = check(lambda a, b: a // b, torch.arange(4), torch.tensor([1, 2, 3, 4]))
    assert not any(isinstance(each, Extern) for each in program.buffers)
    program, _ = programs(lambda a: a // 0, torch.arange(0))
    assert any(isinstance(each, Extern) and "zero" in each.reason for each in program.buffers)


def test_dynamic_shapes_run_at_other_sizes():
    """A program with symbolic sizes computes at sizes other than the traced ones."""
    check(
        lambda x, w: (torch.softmax(x, -1) * w, x.reshape(-1).sum(), x.mean(0), x.t().reshape(-1)),
        torch.randn(6, 10), torch.randn(10), other_inputs=(torch.randn(9, 14), torch.randn(14)), dynamic=True,
    )  # fmt: skip


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.flip(0).flip(0),
        lambda x: x.rot90().rot90().rot90().rot90(),
        lambda x: x.flip(0)[1:].flip(0),
        lambda x: x.roll(1, 0).roll(-1, 0),
        lambda x: x.roll(1, 0)[1:],
        lambda x: x.roll(1, 0)[1:].t(),
        lambda x: x.repeat(2, 1)[:3],
        lambda x: x.tile(2, 2)[:3, :4],
        lambda x: torch.cat([x, x])[3:],
        lambda x: torch.diag_embed(x).diagonal(dim1=-2, dim2=-1),
    ],
)
def test_elements_that_come_back_to_their_places_are_a_copy(function, dynamic):
    """A result that eager mode computes into new memory does not alias the input, although its elements are equal."""
    x = torch.arange(12.0).view(3, 4)
    before = x.clone()
    result = nbcompile.compile(function, dynamic=dynamic)(x)
    assert torch.equal(result, function(x)) and result.stride() == function(x).stride()
    result.add_(1)
    assert torch.equal(x, before)


def test_indices_out_of_range_raise():
    """A gathered index is checked when it is read."""
    graph = traced(lambda x, i: x[i] + 1, torch.randn(4), torch.tensor([0, 1]))
    program = lower(graph)
    for stage in (program, schedule(program)):
        with pytest.raises(IndexError):
            evaluate.run(stage, [torch.randn(4), torch.tensor([0, 4])])


def test_complex_tensors_are_left_to_aten():
    """Copies, views and concatenations of complex tensors run through ATen, with eager's results."""
    z = torch.complex(torch.randn(3, 4), torch.randn(3, 4))
    check(
        lambda z: [z.clone(), z.t(), torch.cat([z, z]), z.t() + 1, torch.zeros_like(z), z.real * 2],
        z,
        allow_extern=True,
    )


def test_elements_that_are_not_computed_with_are_moved_by_aten():
    """A copy of a complex tensor to other strides is a call of ATen: views of the copy are views of its result."""
    x = torch.randn(2, 3, 4, dtype=torch.complex64).permute(2, 0, 1)
    check(
        lambda x: [x.contiguous().view(-1), x.reshape(8, 3) @ x.reshape(3, 8), x.clone().view(x.shape)],
        x,
        allow_extern=True,
    )


@pytest.mark.parametrize("size", [0, 1, 5])
def test_pieces_of_nothing(size):
    """A tensor without elements is split into one part without elements."""
    check(lambda x: [*(x * 2).split(2), *(x + 1).chunk(3)], torch.randn(size))


@pytest.mark.parametrize("dynamic", [False, True])
def test_calls_of_aten_are_given_no_backward_strides(dynamic):
    """A flipped tensor is copied before a matrix product: as_strided has no negative strides."""

    def f(g, x):
        flipped = g.flip(0)
        return [
            flipped.t() @ x,
            g.flip(1) @ x.t(),
            g.flip(0, 1).t() @ x,
            g[1:].flip(0).t() @ x[1:],
            torch.baddbmm(g[None], g[None], x.t()[None].flip(2)[..., : g.shape[1]])
            if g.shape[0] == 4
            else g.sort(0)[0],
            torch.nn.functional.linear(flipped, x[:, : g.shape[1]]),
            flipped.sort(1)[0],
        ]

    compiled = nbcompile.compile(f, dynamic=dynamic)
    for rows in (3, 4, 5):
        g, x = torch.randn(rows, 4), torch.randn(rows, 4)
        torch.testing.assert_close(compiled(g, x), f(g, x))


def test_derivatives_of_what_is_flipped():
    """The derivatives of flip and cumsum contain flips, and go into the matrix products of a layer's derivative."""
    layer, x = torch.nn.Linear(4, 4), torch.randn(3, 4)
    for last in (lambda y: y.flip(0), lambda y: y.cumsum(0), lambda y: y.cumsum(1).sin()):
        layer.zero_grad()
        last(layer(x)).square().sum().backward()
        wanted = layer.weight.grad.clone()
        layer.zero_grad()
        nbcompile.compile(lambda x, last=last: last(layer(x)))(x).square().sum().backward()
        torch.testing.assert_close(layer.weight.grad, wanted)


@pytest.mark.parametrize("compile_it", [nbcompile.compile, lambda f: nbcompile.compile(f, dynamic=True)])
@pytest.mark.parametrize(
    "function",
    [
        lambda z: torch.sin(z.imag) + 1,
        lambda z: z.conj().imag * z.real,
        lambda z: (z.imag[1:] * 2, torch.sort(z.imag).values),
        lambda z: torch._neg_view(z.real).t()[0] + 1,
        lambda z: z.imag.add_(1).sum() + z.real,
    ],
)
@pytest.mark.parametrize("conjugated", [False, True])
def test_the_negative_bit_is_read(function, compile_it, conjugated):
    """A tensor with the negative bit has eager's signs, as an input or as a view in the graph."""
    z = torch.randn(4, dtype=torch.complex64)
    one, other = (each.conj() if conjugated else each for each in (z, z.clone()))
    torch.testing.assert_close(compile_it(function)(one), function(other))
    compiled = compile_it(lambda x: (x * 2, x.sum()))
    for _ in range(2):
        torch.testing.assert_close(compiled(z.conj().imag), (z.conj().imag * 2, z.conj().imag.sum()))


def test_an_input_with_the_negative_bit_is_written():
    """A mutation of such an input reaches its base."""
    one = torch.randn(4, dtype=torch.complex64)
    other = one.clone()
    nbcompile.compile(lambda x: x.mul_(3).add_(1))(one.conj().imag)
    other.conj().imag.mul_(3).add_(1)
    torch.testing.assert_close(one, other)
