"""A read of the gradient of a non-leaf tensor warns at each call, as in eager mode.

    y = x * w; y.grad    UserWarning: The .grad attribute of a Tensor that is not a leaf Tensor is being accessed...

The filters are those of the moment, also ``error``; the warning names the user's line.
"""

from __future__ import annotations

import warnings

import pytest
import torch

import nbcompile
from tests.support.processes import python

WEIGHT = torch.ones(2, requires_grad=True)


def of_an_operator(x):
    y = x * WEIGHT
    return y + 1 if y.grad is None else x


def unused(x):
    y = x * WEIGHT
    if y.requires_grad:
        y.grad  # noqa: B018
    return x + 1


def recorded(x):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        y = (x * WEIGHT).grad
    return x + (y is None), [str(warning.message)[:30] for warning in found]


def caught(x):
    try:
        return x + ((x * WEIGHT).grad is None)
    except UserWarning as warning:
        return str(warning)


def retained(x):
    y = x * WEIGHT
    y.retain_grad()
    return y + (y.grad is None)


def without_history(x):
    y = x + 1
    return y + (y.grad is None)


def after_a_break(x):
    y = x * WEIGHT
    print(end="")
    return y + (y.grad is None)


def by_name(x):
    y = x * WEIGHT
    return y, getattr(y, "grad", None), hasattr(y, "grad")


def of_a_parameter(x):
    return x * WEIGHT + (WEIGHT.grad is None)


def calls(function, rule):
    found = []
    for _ in range(3):
        given = torch.ones(2)
        for value in (given, given * WEIGHT):
            with warnings.catch_warnings(record=True) as shown:
                warnings.simplefilter("ignore")
                warnings.filterwarnings(rule, message="The .grad attribute")
                try:
                    result = repr(function(value))
                except UserWarning as warning:
                    result = str(warning)
            found.append((result, [(str(each.message), each.filename, each.lineno) for each in shown]))
    return found


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.parametrize("rule", ["always", "error"])
@pytest.mark.parametrize(
    "program",
    [
        of_an_operator, unused, recorded, caught, retained, without_history, after_a_break, by_name, of_a_parameter,
        lambda x: x + (x.grad is None),
    ],
)  # fmt: skip
def test_warnings_of_each_call(program, rule):
    """Results, warnings and errors are those of eager mode."""
    assert calls(nbcompile.compile(program, backend="eager"), rule) == calls(program, rule)


@pytest.mark.usefixtures("nothing_compiled")
def test_one_graph_that_is_asked_for():
    """The read does not break the graph."""
    compiled = nbcompile.compile(of_an_operator, backend="eager", fullgraph=True)
    assert compiled(torch.ones(2)).tolist() == [2.0, 2.0]


IN_ANOTHER_PROCESS = """
import warnings, torch, nbcompile
weight = torch.ones(2, requires_grad=True)
@nbcompile.compile(backend="eager")
def f(x):
    y = x * weight
    return y + (y.grad is None)
for _ in range(3):
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        f(torch.ones(2))
    print(len([each for each in shown if "The .grad" in str(each.message)]))
"""


def test_a_store_warns_too(tmp_path):
    """Code that another process loads warns at each call, too."""
    where = {"NBCOMPILE_CACHE_DIR": tmp_path, "NBCOMPILE_WARM_START": "1"}
    for _ in range(2):
        assert python(IN_ANOTHER_PROCESS, **where).split("\n")[:3] == ["1"] * 3
