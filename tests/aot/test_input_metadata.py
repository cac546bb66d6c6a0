"""Tests of nbcompile/aot/input_metadata.py: an input is changed in place as in eager mode, sizes, values and history.

Read next: tests/tracing/variables/test_subclasses_in_place.py
"""

from __future__ import annotations

import pytest
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import return_and_correct_aliasing

import nbcompile
from nbcompile.aot import input_metadata

WEIGHT = torch.arange(1.0, 7).reshape(2, 3).requires_grad_()


class Wrapper(torch.Tensor):
    """A wrapper subclass with the sizes and strides of its inner tensor."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, strides=inner.stride())

    def __init__(self, inner):
        self.inner = inner

    def __tensor_flatten__(self):
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Wrapper(inner["inner"])

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), keywords=None):
        plain = pytree.tree_map(lambda leaf: leaf.inner if isinstance(leaf, Wrapper) else leaf, arguments)
        result = pytree.tree_map_only(torch.Tensor, Wrapper, function(*plain, **(keywords or {})))
        return return_and_correct_aliasing(function, arguments, keywords or {}, result)


def swapped_and_written(s, *rest):
    return s.transpose_(0, -1).mul_(3)


def written_and_swapped(s, *rest):
    s.add_(1)
    return s.t_() * 2


def a_view_of_it(s, *rest):
    view = s.view(-1)
    s.t_()
    view.add_(1)
    return view


def a_view_of_a_result(s, *rest):
    product = s * 2
    view = product.view(-1)
    product.t_()
    view.add_(1)
    return product, view * 2


def a_view_and_a_write(s, *rest):
    view = s.view(-1)
    s = s.mul_(2)
    s.t_()
    view.add_(1)
    return view, s * 2


def views_of_views(s, *rest):
    row = s[0].view(-1)
    s.transpose_(0, -1)
    row.mul_(3)
    return row, s + 1


def split(s, *rest):
    s.unsqueeze_(0)
    print(end="")
    return s.mul_(2)


PROGRAMS = {
    "swapped and written": swapped_and_written, "written and swapped": written_and_swapped,
    "a view of it": a_view_of_it, "a view of a result": a_view_of_a_result, "views of views": views_of_views,
    "a view and a write": a_view_and_a_write, "split": split, "unsqueeze_": lambda s, *rest: s.unsqueeze_(0) + 1,
    "as_strided_": lambda s, *rest: s.as_strided_((2,), (1,)).mul_(2), "set_": lambda s, *rest: s.set_(torch.zeros(4)) + 1,
    "detach_": lambda s, *rest: s.detach_() * 2, "torch.detach_": lambda s, *rest: torch.detach_(input=s) * 2,
    "aten.detach_": lambda s, *rest: torch.ops.aten.detach_.default(s) * 2,
    "aten.t_": lambda s, *rest: torch.ops.aten.t_.default(self=s).mul_(2),
    "written and detached": lambda s, *rest: s.mul_(2).detach_() + 1,
    "all of them": lambda s, *rest: (s.unsqueeze_(0), s, *rest), "the other one": lambda s, *rest: (s.t_(), rest[-1:])[1],
}  # fmt: skip


def numbers():
    return torch.arange(6.0).reshape(2, 3).clone()


def with_view(x):
    return x, x.view(-1)


INPUTS = {
    "plain": lambda: (numbers(),), "a parameter": lambda: (torch.nn.Parameter(numbers()),),
    "with a history": lambda: (numbers() * WEIGHT,), "a view": lambda: (torch.arange(12.0).reshape(2, 2, 3)[1],),
    "twice": lambda: (numbers(),) * 2, "and a view of it": lambda: with_view(numbers()),
    "complex": lambda: (torch.complex(numbers(), numbers()),),
}  # fmt: skip


def described(tensor):
    values = tensor.detach().flatten().tolist()
    return type(tensor), values, tensor.shape, tensor.stride(), tensor.requires_grad, tensor.is_leaf


def played(function, given):
    """Results, inputs, their identity and aliasing, and the gradient."""
    WEIGHT.grad = None
    try:
        results = function(*given)
        results = results if isinstance(results, tuple) else (results,)
        found = [described(tensor) for tensor in (*results, *given)]
        memory = [tensor.untyped_storage().data_ptr() for tensor in (*results, *given)]
        found.append([[result is tensor for tensor in given] for result in results])
        found.append([memory.index(address) for address in memory])
        for result in results:
            if result.requires_grad and not result.is_leaf:
                result.sum().backward()
                break
    except RuntimeError:
        return "RuntimeError"
    return [*found, None if WEIGHT.grad is None else WEIGHT.grad.tolist()]


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_changes_of_inputs(name, backend, gradients):
    """The caller sees the mutation of eager mode, at the first call and at the next one."""
    for kind, make in INPUTS.items():
        nbcompile.reset()
        compiled = nbcompile.compile(PROGRAMS[name], backend=backend)
        with torch.set_grad_enabled(gradients):
            for _ in range(2):
                given = make()
                assert played(compiled, given) == played(PROGRAMS[name], make()), kind


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("method", ["unsqueeze_", "t_"])
def test_sizes_of_a_wrapper(method):
    """A graph that resizes a wrapper subclass runs as captured, and the record says so."""

    def program(w):
        return getattr(w, method)(*[0] * (method == "unsqueeze_")) + 1

    ours, eagers = Wrapper(numbers()), Wrapper(numbers())
    explained = nbcompile.explain(program)(ours)
    assert input_metadata.OF_WRAPPER in " ".join(str(explained).split())
    expected = program(eagers)
    assert (type(expected), ours.shape, ours.stride()) == (Wrapper, eagers.shape, eagers.stride())
    assert ours.inner.tolist() == eagers.inner.tolist()


@pytest.mark.parametrize("operator", ["squeeze_", "unsqueeze_", "t_"])
def test_a_view_whose_memory_has_a_size_of_its_own_runs_as_captured(monkeypatch, operator):
    """From torch 2.15 on such operators compare with that size, which AOTAutograd knows no node for."""
    monkeypatch.setattr(input_metadata, "COMPARES_WITH_MEMORY", True)
    memory = torch.arange(90.0)

    def changed(x):
        getattr(x, operator)(*([0] if operator == "unsqueeze_" else []))
        return x + 1

    compiled = nbcompile.compile(changed, dynamic=True)
    for make in (lambda: memory.view(6, 15)[:, 3:], lambda: memory.view(5, 18)[:, 4:], lambda: torch.ones(3, 4)):
        one, other = make(), make()
        assert torch.equal(compiled(one), changed(other))
        assert (one.shape, one.stride()) == (other.shape, other.stride())
    record = nbcompile.explain(changed, dynamic=True)(memory.view(6, 15)[:, 3:])
    assert input_metadata.OF_UNKNOWN_MEMORY in str(record).replace("\n    ", " ")
