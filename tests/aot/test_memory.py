"""Views, mutation, strides and sizes are as in eager mode: aliasing of results, their layout, and mutated arguments."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.support.observed import agrees_with_eager


def some(*shape):
    return torch.randn(*shape)


def learning(*shape):
    return torch.randn(*shape, requires_grad=True)


def channels_last(*shape):
    return some(*shape).to(memory_format=torch.channels_last)


def twice(tensor):
    return [tensor, tensor]


def in_place(x):
    y = x * 2
    y.add_(1)
    y[0] = 5
    return y


def in_place_on_a_view(x):
    y = x * 2
    y[0].mul_(3)
    return y


def swapped(x, y):
    kept = x.clone()
    x.copy_(y)
    y.copy_(kept)
    return x


def read_before_and_after(x):
    before, view = x * 1, x[1:]
    x.add_(1)
    return before * 2, view * 2, x * 2


def no_gradient_is_noted(x):
    with torch.no_grad():
        x.add_(1)
    return x * 2


def into_given(x, largest, places):
    return torch.max(x, 0, out=(largest, places))


# name, function, arguments, whether to differentiate
PROGRAMS = {
    "input, written": (lambda x: x.add_(1), lambda: [some(4)]),
    "input, a part of it written": (lambda x: x[1:].zero_(), lambda: [some(4)]),
    "input that is not contiguous, written": (lambda x: x.mul_(2).sum(), lambda: [some(4, 6).t()[::2]]),
    "one input twice": (lambda x, y: (x.add_(1), y * 2), lambda: twice(some(4))),
    "inputs that overlap": (lambda x, y: (x.add_(1), y * 2)[1], lambda: (lambda t: [t[1:], t[:-1]])(some(5))),
    "inputs that are views": (lambda x, y: (x.add_(1), y * 2), lambda: (lambda t: [t, t.view(2, 2)])(some(4))),
    "results that are inputs": (lambda x, y: (y, x, x + y, x), lambda: [some(4), some(4)]),
    "results that are inputs, with gradients": (lambda x, y: (y, x * 2, x), lambda: [learning(4), learning(4)]),
    "results that are views of inputs": (lambda x: (x.view(2, 2)[0], x[1:]), lambda: [learning(4)]),
    "one result twice, and views of it": (lambda x: (lambda y: (y, y, y.t(), y[0]))(x * 2), lambda: [learning(4, 4)]),
    "a result and the same detached": (lambda x: (lambda y: (y, y.detach()))(x * 2), lambda: [learning(4, 4)]),
    "parts as results": (lambda x: (x.split(2), x.unbind(1), (x * 2).chunk(2)), lambda: [learning(4, 3)]),
    "in place on an intermediate": (in_place, lambda: [learning(4)]),
    "in place on a view of an intermediate": (in_place_on_a_view, lambda: [learning(4, 3)]),
    "in place on a leaf": (no_gradient_is_noted, lambda: [learning(4)]),
    "swapped": (swapped, lambda: [some(4), some(4)]),
    "read before and after": (read_before_and_after, lambda: [some(4)]),
    "onto itself, moved": (lambda x: (x.copy_(x.roll(1)), x.copy_(x.flip(0)), x.cumsum_(0)), lambda: [some(5)]),
    "the memory of another": (lambda x, y: (x.set_(y), x * 2)[1], lambda: [some(4), some(4)]),
    "other data": (lambda x: (setattr(x, "data", x.data * 2), x * 3)[1], lambda: [some(4)]),
    "resized": (lambda x: (x.resize_(8).fill_(1), x.sum())[1], lambda: [some(4)]),
    "resized result": (lambda x: (x * 2).resize_(2), lambda: [some(4)]),
    "transposed in place": (lambda x: x.t_(), lambda: [some(3, 4)]),
    "unsqueezed in place": (lambda x: (x.unsqueeze_(0), x * 2), lambda: [some(4)]),
    "out=": (lambda x, out: torch.add(x, 1, out=out), lambda: [some(4), torch.empty(4)]),
    "out= that is too small": (lambda x, out: torch.add(x, 1, out=out), lambda: [some(4), torch.empty(0)]),
    "out= that is not contiguous": (lambda x, out: torch.add(x, 1, out=out), lambda: [some(4), torch.empty(8)[::2]]),
    "out= of two": (into_given, lambda: [some(4, 3), torch.empty(3), torch.empty(3, dtype=torch.long)]),
    "no elements": (lambda x: (x + 1, x.sum(), x.sum(0), x.amax(1), x.view(-1), x.mean()), lambda: [learning(0, 3)]),
    "no elements, multiplied": (lambda x, y: x @ y, lambda: [learning(3, 0), learning(0, 4)]),
    "no elements, softmax": (lambda x: x.softmax(0), lambda: [learning(0, 3)]),
    "no element to choose": (lambda x: x.max(), lambda: [some(0)]),
    "no dimensions": (lambda x: (x.sin(), x.view(1), x.expand(3) * 2, x.sum()), lambda: [learning()]),
    "no dimensions, other type": (lambda x, y: x * y, lambda: [some(3), torch.tensor(1.5, dtype=torch.float64)]),
    "expanded": (lambda x: (x * 2).sum(1), lambda: [some(3, 1).expand(3, 4).requires_grad_()]),
    "overlapping": (lambda x: x.as_strided((3, 3), (1, 1)) * 2, lambda: [learning(5)]),
    "overlapping input": (lambda x: x.sin(), lambda: [some(5).as_strided((3, 3), (1, 1))]),
    "overlapping windows": (lambda x: x.unfold(0, 3, 1) * 2, lambda: [learning(7)]),
    "strides of a result": (lambda x: (x * 2).as_strided((2, 2), (1, 2), 1), lambda: [learning(6)]),
    "channels last, pointwise": (lambda x: (x + 1, x.relu() * x, x.clone(), x.mean(0)), lambda: [channels_last(2, 3, 4, 4)]),
    "channels last, convolution": (lambda x, w: F.conv2d(x, w), lambda: [channels_last(2, 3, 6, 6), some(4, 3, 3, 3)]),
    "channels last, pooling": (
        lambda x: (F.max_pool2d(x, 2), F.avg_pool2d(x, 2), F.interpolate(x, scale_factor=2)),
        lambda: [channels_last(2, 3, 6, 6).requires_grad_()],
    ),
    "channels last, made": (lambda x: x.to(memory_format=torch.channels_last) * 2, lambda: [learning(2, 3, 6, 6)]),
    "channels last, joined": (lambda x, y: torch.cat([x, y], 1), lambda: [channels_last(2, 3, 4, 4) for _ in range(2)]),
    "permuted": (lambda x, y: (x.permute(2, 0, 1) + 1, x.permute(2, 0, 1) + y), lambda: [some(2, 3, 4), some(4, 2, 3)]),
    "transposed product": (lambda x, y: (x.t() @ y).t(), lambda: [learning(3, 4), learning(3, 5)]),
    "conjugated": (lambda x: (x.conj(), x.conj() * 2, x.imag), lambda: [torch.randn(4, dtype=torch.complex64)]),
    "bits": (lambda x: (x.view(torch.int32) + 1, x.view(torch.int16)), lambda: [some(4)]),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_eager(name):
    """Results, mutated arguments and gradients equal eager's."""
    function, arguments = PROGRAMS[name]

    def program(compiled):
        given = arguments()
        result = compiled(function)(*given)
        losses = [each.float().pow(2).sum() for each in torch.utils._pytree.tree_leaves(result) if each.requires_grad]
        if losses:
            sum(losses).backward()
        return result, given

    agrees_with_eager(program)


def test_a_result_that_had_no_gradient_gets_one():
    """A buffer into which a differentiable value is copied requires grad afterwards."""

    def program(compiled):
        w, x, rows = learning(4), torch.zeros(4), torch.zeros(2, 4)
        compiled(lambda x, rows, w: (x.copy_(w * 2), rows[1].copy_(w * 3)))(x, rows, w)
        (x.sum() + rows.sum()).backward()
        return w, x, rows

    agrees_with_eager(program)


def test_in_place_on_what_is_no_leaf():
    """Mutation in place of an argument with a history, and of a view of it, is as in eager mode."""

    def program(compiled):
        w = learning(4)
        x = w * 3
        view = x.view(2, 2)
        result = compiled(lambda x: x.mul_(2).sin())(view)
        (result.sum() + x.sum()).backward()
        return result, w, x, view

    agrees_with_eager(program)
