"""NumPy arrays in the traced program."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from nbcompile.tracing.variables import ndarray
from nbcompile.tracing.variables.constant import ConstantVariable
from nbcompile.tracing.variables.sequences import TupleVariable
from tests.support.oracle import one_graph


def test_methods_and_attributes_are_those_of_numpy():
    """Values, dtypes and sizes of methods, operators and slices are NumPy's, in one graph."""

    def function(a):
        return (
            (a + 1).sum(axis=0), a.T, a[0], a[..., 0], a.mean(), a.reshape(3, 2), a.astype(np.float32),
            a.shape, a.size, a.ndim, len(a),
        )  # fmt: skip

    x = np.arange(6.0).reshape(2, 3)
    for found, expected in zip(one_graph(function, x), function(x), strict=True):
        assert type(found) is type(expected)
        np.testing.assert_array_equal(found, expected)
        assert getattr(found, "dtype", None) == getattr(expected, "dtype", None)


def test_an_array_of_a_tensor_shares_its_memory():
    """``x.numpy()`` is an alias of the tensor, which has the values that are stored in the array."""

    def function(x):
        a = x.numpy()
        a[0] = 5
        return x * 2, a

    x = torch.zeros(2)
    doubled, array = one_graph(function, x)
    assert torch.equal(doubled, torch.tensor([10.0, 0.0]))
    assert array.tolist() == x.tolist() == [5.0, 0.0]


def test_a_tensor_that_requires_gradients_has_no_array():
    """``numpy()`` raises torch's RuntimeError, with torch's text."""

    def function(x):
        try:
            return x.numpy()
        except RuntimeError as error:
            return x * 2, str(error), x.detach().numpy()

    x = torch.ones(2, requires_grad=True)
    found, expected = one_graph(function, x), function(x)
    assert found[1] == expected[1]
    assert found[2].tolist() == [1.0, 1.0]


@pytest.mark.parametrize(("name", "expected"), [("clip", {"min": 1, "dtype": 2}), ("sum", {"a_min": 1, "dtype": 2})])
def test_keywords_have_the_names_of_torch(name, expected):
    """The limits of ``clip`` are renamed; keywords of other functions are not."""
    assert ndarray.renamed(name, {"a_min": 1, "dtype": 2}) == expected


def test_arrays_are_found_within_sequences():
    """An array in a tuple of arguments is found; constants are not arrays."""
    one = ConstantVariable(1)
    assert not ndarray.has_array([one, TupleVariable([one])])
    array = object.__new__(ndarray.NdarrayVariable)
    assert ndarray.has_array([one, TupleVariable([one, array])])
