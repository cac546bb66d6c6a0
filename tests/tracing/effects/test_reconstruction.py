"""Values that leave a graph: two references to one tensor stay references to one tensor."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import nbcompile

SAME: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "contiguous": lambda v: v.contiguous(),
    "to": lambda v: v.to(v.dtype),
    "to_another": lambda v: v.to(v),
    "float": lambda v: v.float(),
    "type": lambda v: v.type(torch.float32),
    "type_as": lambda v: v.type_as(v),
    "cpu": lambda v: v.cpu(),
    "real": lambda v: v.real,
    "positive": lambda v: +v,
    "conj": lambda v: v.conj(),
    "resolve_conj": lambda v: v.resolve_conj(),
    "resolve_neg": lambda v: v.resolve_neg(),
    "atleast_1d": torch.atleast_1d,
    "atleast_2d": torch.atleast_2d,
    "atleast_2d_of_several": lambda v: torch.atleast_2d(v, v)[1],
    "flatten": lambda v: v.select(0, 0).flatten() if v.dim() == 3 else v.flatten(),
    "sum_to_size": lambda v: v.sum_to_size(v.shape),
    "requires_grad_": lambda v: v.requires_grad_(v.requires_grad),
    "dropout": lambda v: torch.nn.functional.dropout(v, 0.5, training=False),
    "add_": lambda v: v.add_(1),
    "out": lambda v: torch.add(v, 1, out=v),
}


def _written_through_a_view(x, same):
    v = x + 1
    w = same(v)
    v.view(-1)[1] = 5
    return v, w


def _written(x, same):
    v = x + 1
    w = same(v)
    v.mul_(2)
    return w, v


def _of_an_input(x, same):
    w = same(x)
    x.view(-1)[1] = 5
    return x, w, x


def _before_a_break(x, same):
    v = x + 1
    w = same(v)
    torch._dynamo.graph_break()
    v.mul_(2)
    return v, w


def _pattern(values):
    return [next(at for at, other in enumerate(values) if other is value) for value in values]


USES = [_written_through_a_view, _written, _of_an_input, _before_a_break]
PAIRS = [(name, use) for use in USES for name in SAME]


@pytest.mark.parametrize(("name", "use"), PAIRS)
def test_what_is_the_argument_itself_stays_so(name, use):
    """An operator that returns its argument in eager mode returns it in compiled code, also with later mutations."""

    def f(x):
        return use(x, SAME[name])

    nbcompile.reset()  # the functions of all tests share one code object
    given, expected_input = torch.arange(4.0), torch.arange(4.0)
    if name not in ("flatten", "atleast_1d", "add_"):
        given, expected_input = given.reshape(2, 2), expected_input.reshape(2, 2)
    expected = f(expected_input)
    results = nbcompile.compile(f)(given)
    assert _pattern([given, *results]) == _pattern([expected_input, *expected])
    assert [each.tolist() for each in results] == [each.tolist() for each in expected]


def test_in_a_batch_of_programs():
    """Two references to one tensor stay identical, although the graph mutates another tensor."""

    def f(x):
        v, u = x.exp(), x.sin()
        u.view(-1)[0] = 7
        return v, v.real, v.contiguous(), v.type_as(v), u, u.contiguous()

    v, *same, u, other = nbcompile.compile(f)(torch.ones(2, 3))
    assert all(each is v for each in same)
    assert other is u
