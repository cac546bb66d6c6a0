"""Inputs and results of a graph's kernels."""

from __future__ import annotations

import pytest
import torch

from nbcompile.runtime import program


def test_an_input_is_what_the_graph_was_compiled_for():
    """Another shape, dtype or device of an input is an error."""
    x = torch.ones(2, 3)
    assert program.expect(x, (2, 3), (3, 1), torch.float32) is x
    assert program.expect(None, (), (), torch.float32) is None  # a token, which orders effects
    for size, dtype in (((3, 2), torch.float32), ((2, 3), torch.float64)):
        with pytest.raises(ValueError, match="was given"):
            program.expect(x, size, (3, 1), dtype)
    with pytest.raises(ValueError, match="on meta"):
        program.expect(x, (2, 3), (3, 1), torch.float32, device="meta")


def test_other_strides_are_copied_unless_the_graph_writes_to_the_input():
    """An input with other strides is copied, unless the graph mutates it: then it is an error."""
    x = torch.arange(6.0).reshape(3, 2).t()
    copied = program.expect(x, (2, 3), (3, 1), torch.float32)
    assert copied is not x and copied.stride() == (3, 1) and torch.equal(copied, x)
    with pytest.raises(ValueError, match="strides"):
        program.expect(x, (2, 3), (3, 1), torch.float32, written=True)


def test_strides_of_single_elements_address_nothing():
    """The stride of a dimension of size 1, and of a tensor without elements, does not matter."""
    one = torch.ones(1, 3).as_strided((1, 3), (77, 1))
    assert program.expect(one, (1, 3), (3, 1), torch.float32) is one
    none = torch.ones(0, 3).as_strided((0, 3), (5, 5))
    assert program.expect(none, (0, 3), (3, 1), torch.float32) is none


def test_results_of_operators_have_the_layout_of_their_fake_tensors():
    """A wrong shape is an error of the operator's fake implementation; an ATen operator may return another dtype."""
    x = torch.arange(6.0).reshape(3, 2).t()
    assert program.adopt(x, (2, 3), (3, 1), torch.float32, "my::op").stride() == (3, 1)
    assert program.adopt(x, (2, 3), (1, 2), torch.float64, "aten.op").dtype == torch.float64
    for size, dtype in (((6,), torch.float32), ((2, 3), torch.float64)):
        with pytest.raises(RuntimeError, match="my::op returned .*fake implementation"):
            program.adopt(x, size, (1,) * len(size), dtype, "my::op")
    assert program.adopt(3, (), (), torch.float32, "my::op") == 3


def test_views_count_from_the_tensors_own_data():
    """The offset of a view counts from the tensor's first element."""
    x = torch.arange(10.0)[2:]
    assert program.view(x, (2,), (2,), 1).tolist() == [3.0, 5.0]


def test_memory_is_taken_over_by_another_type():
    """The offset of reused memory counts in elements of the new dtype."""
    x = torch.zeros(8, dtype=torch.float32)[4:]
    taken = program.take_over(x, (2,), (1,), torch.float64)
    assert taken.data_ptr() == x.data_ptr() and taken.dtype == torch.float64


def test_a_profiled_call_is_a_range_and_is_reported():
    """A listener gets label, locations, arguments and result of a profiled call."""
    met = []
    program.listeners.append(met.append)
    try:
        ranged = program.in_range(lambda a, b=0: a + b, "kernel0 add", (("f.py", 3),))
        assert ranged(1, b=2) == 3
    finally:
        program.listeners.remove(met.append)
    (call,) = met
    assert (call.label, call.locations, call.arguments, call.keywords, call.result) == (
        "kernel0 add", (("f.py", 3),), (1,), {"b": 2}, 3,
    )  # fmt: skip
