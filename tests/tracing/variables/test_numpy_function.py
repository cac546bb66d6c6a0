"""NumPy functions, traced as functions of torch."""

from __future__ import annotations

import numpy as np
import pytest

import nbcompile


@pytest.mark.parametrize("function", [np.sin, np.sum, np.cumsum], ids=lambda function: function.__name__)
def test_a_function_gives_an_array(function):
    """Values and dtypes are NumPy's."""
    x = np.arange(6.0)
    found = nbcompile.compile(lambda x: function(x * 2), backend="eager", fullgraph=True)(x)
    np.testing.assert_allclose(found, function(x * 2), rtol=1e-15)
    assert np.asarray(found).dtype == np.float64
