"""Functions accept arguments by name, and reject those that they do not have.

    torch.is_floating_point(input=y)     as torch.is_floating_point(y)
    list(iterable=[1])                   Python's own TypeError

In torch: test/dynamo/test_functions.py. Read next: tests/tracing/test_python_errors.py
"""

from __future__ import annotations

import collections
import functools
import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from tests.support.oracle import Compiler, disagreement, tried

CALLS = """
    torch.is_floating_point(input=y)        torch.is_complex(input=y)           torch.numel(input=y)
    torch.is_floating_point()               torch.is_floating_point(y, y)       torch.is_floating_point(foo=y)
    torch.numel(3)                          torch.is_tensor()                   torch.is_tensor(y, y)
    torch.is_tensor(obj=y)                  torch.is_storage(y)                 torch.is_conj(input=y)
    torch.is_signed(input=y)                torch.result_type(y, other=y)       torch.get_device(input=y)
    y.numel(1)                              y.storage_offset(3)                 y.__getitem__(key=0)
    y.clone().requires_grad_(requires_grad=False)                               y.size(dim=0)
    y.clone().add_(other=y, alpha=torch.tensor(2.0))                            y.as_subclass(cls=torch.Tensor)
    y.clone().addcmul_(tensor1=y, tensor2=y, value=torch.tensor(2.0))           torch.finfo(type=y.dtype).max
    isinstance(y)                           isinstance(y, torch.Tensor, 3)      isinstance(obj=y)
    len()           len(y, y)               len(obj=y)                          getattr(y)
    max()           next()                  iter([1], 3, 4)                     any(iterable=[1])
    list(iterable=[1])                      list([1], [2])                      tuple([1], [2])
    set([1], [2])   bool(x=3)               list(map(abs))                      list(reversed(sequence=[1]))
    pow(2, exp=3, mod=5)                    pow(base=2, exp=3)                  sum([1, 2], start=3)
    round(number=2.567, ndigits=1)          int("11", base=2)                   functools.partial()
    functools.reduce(max)                   torch.Size([1], [2])                math.sqrt(x=4)
    collections.deque(iterable=[1, 2], maxlen=1)                                functools.partial(func=abs)
"""


@pytest.mark.parametrize("call", [each.strip() for each in CALLS.replace("\n", "  ").split("  ") if each.strip()])
def test_arguments_by_name_and_rejected_arguments(call: str) -> None:
    """The call gives eager mode's value, or an error of the same kind."""

    def scenario(compiled: Compiler) -> Iterator[object]:
        names: dict[str, Any] = {"torch": torch, "functools": functools, "collections": collections, "math": math}
        exec(f"def f(y): return y * 2, {call}", names)
        found = tried(compiled(names["f"]), torch.tensor([1.0, 2.0]))
        yield found[0] if isinstance(found, tuple) and isinstance(found[0], type) else found

    found = disagreement(scenario)
    assert not found, found
