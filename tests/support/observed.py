"""A program with and without the compiler: all visible properties of its results.

    def program(compiled):
        x = torch.ones(3, requires_grad=True)
        compiled(torch.sin)(x).sum().backward()
        return x

    agrees_with_eager(program)      values, shapes, strides, dtypes, gradients, which share memory, which are one object

A program is written once; ``compiled`` is the compiler, or does nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.utils._pytree as pytree

import nbcompile

TOLERANCE = {torch.bfloat16: 3e-2, torch.float16: 3e-2}
"""Relative and absolute; 1e-4 otherwise."""
Program = Callable[[Callable[..., Any]], Any]


def agrees_with_eager(program: Program, **options: Any) -> None:
    """Run the program both ways, with the default backend, and compare; an error has to be the same error, too."""
    expected = _observed(program, lambda function, **_: function)
    nbcompile.reset()
    found = _observed(program, lambda function, **more: nbcompile.compile(function, **options, **more))
    assert isinstance(expected, list) == isinstance(found, list), (expected, found)
    if not isinstance(expected, list) or not isinstance(found, list):
        assert (type(found), str(found).strip()) == (type(expected), str(expected).strip())
        return
    assert [facts for facts, _ in found] == [facts for facts, _ in expected]
    for (_, got), (_, wanted) in zip(found, expected, strict=True):
        for one, other in zip(got, wanted, strict=True):
            tolerance = TOLERANCE.get(one.dtype, 1e-4)
            torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance, equal_nan=True)


def is_as_near_as_eager(program: Program, exact: Program, unit: float) -> None:
    """Compare a program that rounds in between, both ways, with the same in float64: its error is about eager's.

    Intermediate results of 16 bits stay wider in generated code, as in torch's, so the two differ from each other by
    about what each differs from the truth. ``unit`` is the relative distance of neighbouring numbers that are rounded to.
    """
    expected = _observed(program, lambda function, **_: function)
    nbcompile.reset()
    found = _observed(program, nbcompile.compile)
    truth = _observed(exact, lambda function, **_: function)
    assert not isinstance(expected, Exception), expected
    assert not isinstance(found, Exception), found
    assert not isinstance(truth, Exception), truth
    assert [facts for facts, _ in found] == [facts for facts, _ in expected]
    for (_, got), (_, wanted), (_, right) in zip(found, expected, truth, strict=True):
        for one, other, real in zip(got, wanted, right, strict=True):
            ours, theirs = ((each.double() - real).abs().max().item() for each in (one, other))
            assert ours <= 4 * theirs + 2 * unit * real.abs().max().item(), (ours, theirs, real)


def _observed(program: Program, compiled: Callable[..., Any]) -> list[tuple[object, list[torch.Tensor]]] | Exception:
    """For each value, the properties that must be equal, and the tensors that may differ by rounding."""
    torch.manual_seed(0)
    try:
        values = pytree.tree_leaves(program(compiled))
    except Exception as error:
        return error
    objects: dict[int, int] = {}
    memories: dict[int, int] = {}
    return [_described(each, objects, memories) for each in values]


def _described(value: Any, objects: dict[int, int], memories: dict[int, int]) -> tuple[object, list[torch.Tensor]]:
    if not isinstance(value, torch.Tensor):
        return value, []
    grad = value.grad if value.is_leaf else None
    facts = {
        "class": type(value).__name__,
        "shape": tuple(value.shape),
        "dtype": value.dtype,
        "stride": value.stride(),
        "offset": value.storage_offset(),
        "object": objects.setdefault(id(value), len(objects)),
        "memory": memories.setdefault(value.untyped_storage()._cdata, len(memories)),
        "requires_grad": value.requires_grad,
        "is_leaf": value.is_leaf,
        "has a gradient": grad is not None,
    }
    return facts, [each.detach().clone() for each in (value, grad) if each is not None]
