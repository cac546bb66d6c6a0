"""NumPy functions on tensors, for graphs."""

import numpy as np
import pytest
import torch

from nbcompile.capture import arrays


@pytest.mark.parametrize(
    ("value", "is_array", "is_info"),
    [
        (np.ones(2), True, False),
        (np.float32(1), True, False),
        (np.dtype("float32"), False, True),
        (np.finfo(np.float32), False, True),
        (np.iinfo(np.int8), False, True),
        (torch.ones(2), False, False),
        (1.0, False, False),
    ],
    ids=repr,
)
def test_values_of_numpy_are_recognised(value, is_array, is_info):
    """Arrays and NumPy scalars are arrays; dtypes and their descriptions are type information."""
    assert arrays.is_array(value) is is_array
    assert arrays.is_type_info(value) is is_info
    if is_array:
        assert arrays.is_scalar(value) is not isinstance(value, np.ndarray)


@pytest.mark.parametrize("function", [np.sin, np.add, np.fft.fft, np.linalg.norm])
def test_a_function_has_one_on_tensors(function):
    """The function of ``torch._numpy`` gives NumPy's result, in each namespace."""
    data = (np.linspace(-1, 1, 4), np.arange(4.0))[: 2 if function is np.add else 1]
    on_tensors = arrays.torch_function(function)
    wrapped = arrays.ArrayFunction(on_tensors, function.__name__)
    result = wrapped(*map(torch.from_numpy, data))
    np.testing.assert_allclose(result.numpy(), function(*data), rtol=1e-12)
    assert wrapped.__name__ == f"wrapped_{function.__name__}"


def test_a_function_of_another_library_has_none():
    """Only functions of NumPy have one."""
    assert arrays.torch_function(len) is None
    assert arrays.torch_function(torch.sin) is None


def test_a_tensor_becomes_an_array_and_back():
    """Both conversions share memory; a scalar has its dtype."""
    array = np.arange(3, dtype=np.float32)
    tensor = arrays.from_array(array)
    assert tensor.dtype is torch.float32 and arrays.torch_dtype(array) is torch.float32
    back = arrays.to_array(tensor)
    back[0] = 5
    assert array[0] == 5
    scalar = arrays.to_scalar(torch.tensor(2, dtype=torch.int64))
    assert (type(scalar), scalar) == (np.int64, 2)
