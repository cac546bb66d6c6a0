"""Changes of a whole ``__dict__``, whose effect depends on the existing attributes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import nbcompile

pytestmark = pytest.mark.usefixtures("nothing_compiled")


class Holder:
    def __init__(self, **named: Any) -> None:
        for name, value in named.items():
            setattr(self, name, value)


def clears(x: torch.Tensor, o: Holder) -> torch.Tensor:
    o.__dict__.clear()
    o.a = 1.0
    return x * o.a


def pops_the_last(x: torch.Tensor, o: Holder) -> torch.Tensor:
    _, value = vars(o).popitem()
    return x * value


@pytest.mark.parametrize("change", [clears, pops_the_last])
def test_other_attributes_in_later_calls(change: Any) -> None:
    """An object with more, fewer or other attributes loses its own attributes in a later call."""
    compiled = nbcompile.compile(change, backend="eager")
    for named in ({"a": 2.0}, {"a": 2.0, "b": 3.0}, {"b": 4.0, "a": 2.0}, {"a": 2.0, "b": 3.0, "c": 5.0}, {"a": 2.0}):
        expected, actual = Holder(**named), Holder(**named)
        assert torch.equal(change(torch.ones(2), expected), compiled(torch.ones(2), actual))
        assert list(vars(actual).items()) == list(vars(expected).items())
