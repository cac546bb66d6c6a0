"""Operators that copy a view: eager's values, strides, memory and gradients, in generated kernels alone."""

from __future__ import annotations

import pytest
import torch

import nbcompile
from nbcompile.aot.copied_views import VIEWS, table

X = torch.arange(24.0).view(4, 6)
INPUTS = {
    "contiguous": X,
    "transposed": torch.arange(24.0).view(6, 4).t(),
    "begun later": torch.arange(40.0).view(5, 8)[1:, 2:],
    "channels last": torch.arange(96.0).view(2, 3, 4, 4).contiguous(memory_format=torch.channels_last),
}
COPIES = {
    "alias_copy.default": torch.alias_copy,
    "detach_copy.default": torch.detach_copy,
    "view_copy.default": lambda x: torch.view_copy(x, (-1, 3 if x.ndim == 4 else 8)),
    "_reshape_copy.default": lambda x: torch.ops.aten._reshape_copy(x, (2, x.numel() // 2)),
    "as_strided_copy.default": lambda x: torch.as_strided_copy(x, (3, 2), (1, 4)),
    "diagonal_copy.default": lambda x: torch.diagonal_copy(x, 1, 1, 0),
    "expand_copy.default": lambda x: torch.expand_copy(x, (2, *x.shape)),
    "narrow_copy.default": lambda x: torch.narrow_copy(x, 1, 1, 2),
    "permute_copy.default": lambda x: torch.permute_copy(x, tuple(reversed(range(x.ndim)))),
    "select_copy.int": lambda x: torch.select_copy(x, 1, -1),
    "slice_copy.Tensor": lambda x: torch.slice_copy(x, 1, 0, 5, 2),
    "split_copy.Tensor": lambda x: torch.split_copy(x, 2, 1),
    "split_with_sizes_copy.default": lambda x: torch.split_with_sizes_copy(x, (1, x.shape[0] - 1)),
    "squeeze_copy.default": lambda x: torch.squeeze_copy(x[:, None]),
    "squeeze_copy.dim": lambda x: torch.squeeze_copy(x, 0),
    "squeeze_copy.dims": lambda x: torch.squeeze_copy(x[None], (0, 1)),
    "t_copy.default": lambda x: torch.t_copy(x[0] if x.ndim == 2 else x[0, 0]),
    "transpose_copy.int": lambda x: torch.transpose_copy(x, 0, -1),
    "unbind_copy.int": lambda x: torch.unbind_copy(x, 1),
    "unfold_copy.default": lambda x: torch.unfold_copy(x, 1, 2, 1),
    "unsqueeze_copy.default": lambda x: torch.unsqueeze_copy(x, -2),
}  # fmt: skip


def tensors(value):
    return [value] if isinstance(value, torch.Tensor) else list(value)


def facts(value, x):
    """Metadata of results, and the memory that they share with the input and with one another."""
    storages = [each.untyped_storage().data_ptr() for each in (x, *tensors(value))]
    shared = [storages.index(each) for each in storages]
    return shared, [(each.shape, each.stride(), each.storage_offset(), each.requires_grad) for each in tensors(value)]


def test_every_operator_has_a_program():
    """Each operator of the table exists, and each has a program in this file."""
    assert sorted(COPIES) == sorted(VIEWS)
    assert {str(each) for each in table()} == {f"aten.{name}" for name in VIEWS}


@pytest.mark.rotates(8)
@pytest.mark.parametrize("layout", INPUTS)
@pytest.mark.parametrize("name", VIEWS)
def test_a_copy_is_eagers(name, layout):
    """Results have eager's values, strides and own memory, of an input, of a computed tensor, and of any size."""
    x = INPUTS[layout]
    for function in (COPIES[name], lambda x: COPIES[name](x * 2)):
        for dynamic in (False, True):
            expected, found = function(x), nbcompile.compile(function, dynamic=dynamic)(x)
            assert facts(found, x) == facts(expected, x)
            assert all(map(torch.equal, tensors(found), tensors(expected)))


@pytest.mark.rotates(8)
@pytest.mark.parametrize("layout", INPUTS)
@pytest.mark.parametrize("name", [name for name in VIEWS if name != "detach_copy.default"])
def test_a_copy_passes_gradients_on(name, layout):
    """Gradients are those of eager mode."""
    found = []
    for function in (COPIES[name], nbcompile.compile(COPIES[name])):
        x = INPUTS[layout].clone().requires_grad_()
        results = tensors(function(x))
        scales = [torch.arange(1.0, each.numel() + 1).view(each.shape) for each in results]
        found.append((facts(results, x), *torch.autograd.grad(results, x, scales)))
    assert found[0][0] == found[1][0]
    assert torch.equal(found[0][1], found[1][1])


@pytest.mark.parametrize("name", [name for name in VIEWS if name != "as_strided_copy.default"])
def test_a_copy_fuses_with_what_surrounds_it(name):
    """ATen runs nothing: the operators before and after the copy are in its loops."""
    explained = nbcompile.explain(lambda x: [each + 1 for each in tensors(COPIES[name](x * 2))])(X)
    kernels = [each for frame in explained.record.frames for each in frame.compiled_graph.kernels]
    assert kernels
    assert not [each.reason for each in kernels if each.reason]


def test_a_copy_into_a_given_tensor():
    """With ``out``, the copy is written into that tensor, as in eager mode."""
    out = torch.zeros(6, 4)
    assert nbcompile.compile(lambda x, out: torch.t_copy(x, out=out))(X, out) is out
    assert torch.equal(out, X.t())


def test_a_view_of_another_dtype_runs_through_aten():
    """Copies of views of another dtype are eager's, too, without a loop."""
    x = torch.randn(3, 4, dtype=torch.complex64)
    assert torch.equal(nbcompile.compile(torch.view_as_real_copy)(x), torch.view_as_real(x))
    assert torch.equal(nbcompile.compile(lambda x: torch.view_copy(x, dtype=torch.int32))(X), X.view(torch.int32))
