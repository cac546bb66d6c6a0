"""The Python that launches kernels."""

from __future__ import annotations

import ast
import dataclasses

import pytest
import torch

from nbcompile.codegen import cpp
from tests.codegen import steps_shown
from tests.support import schedules


def wrapper_of(*tensors, **bodies):
    """A wrapper with one kernel for each body."""
    return cpp.emit(schedules.pointwise(tensors, bodies)).wrapper


X = torch.randn(3, 4)


def test_the_wrapper_is_python():
    """The wrapper takes one list, and empties it, so that inputs are freed after their last use."""
    (function,) = ast.parse(wrapper_of(X, total=lambda x: x + 1.0)).body
    assert function.name == "call" and [argument.arg for argument in function.args.args] == ["args"]
    first, second, *_ = map(ast.unparse, function.body)
    assert "x0" in first and second == "args.clear()"


def test_inputs_are_checked_before_they_are_read():
    """The wrapper checks the sizes, strides and dtypes of inputs before it reads them."""
    text = wrapper_of(X, X.double(), total=lambda x, y: x + 1.0)
    assert "x0 = expect(x0, (3, 4), (4, 1), torch.float32)" in text
    assert "x1 = expect(x1, (3, 4), (4, 1), torch.float64)" in text
    assert text.index("expect(x1") < text.index("kernel_total(")


def test_results_are_allocated_and_returned_in_order():
    """The wrapper returns a tuple of the graph's results, in order."""
    text = wrapper_of(X, first=lambda x: x + 1.0, second=lambda x: x * 2.0)
    assert text.index("first = empty_strided") < text.index("kernel_first(")
    assert text.rstrip().endswith("return (first, second,)")


def test_a_single_result_is_still_a_tuple():
    """A single result is a tuple, too, unless the graph returns a value without a tuple."""
    assert wrapper_of(X, first=lambda x: x + 1.0).rstrip().endswith("return (first,)")


@pytest.mark.parametrize("change", ["drop", "swap"])
def test_a_text_of_another_plan_is_found_out(change):
    """The comparison that each page of tests/cases makes finds a missing step, and two swapped ones."""
    program = cpp.emit(schedules.pointwise((X, X), {"first": lambda x, y: x + y, "second": lambda x, y: x * y}))
    steps_shown.compare(program.wrapper, program.plan)
    steps = list(program.plan.steps)
    if change == "drop":
        del steps[-1]
    else:
        steps[:2] = reversed(steps[:2])
    with pytest.raises(AssertionError):
        steps_shown.compare(program.wrapper, dataclasses.replace(program.plan, steps=tuple(steps)))
