"""Comparison of an answer with the reference, in eager mode, as sentences.

    expect_equal(f, reference, calls)      "call 2: expected length 3, got 2"
                                           "argument 1 is wrong after call 1: expected [0], got [1]"

In torch: torch/testing/_comparison.py. Read next: nbcompile/teach/kinds.py
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch

from nbcompile.teach.attempt import Outcome, Rejection, attempt


def expect_equal(
    function: Callable[..., Any], reference: Callable[..., Any], calls: list[tuple[Any, ...]], prints: bool = True
) -> None:
    """Call both with the same arguments.

    Raises:
        Rejection: results, printed text, or the arguments after the call differ.
    """
    for number, arguments in enumerate(calls, 1):
        # Copies for each, as either may write to its arguments.
        expected = attempt(reference, copy.deepcopy(arguments))
        actual = attempt(function, copy.deepcopy(arguments))
        expect_same_outcome(actual, expected, f"call {number}" if len(calls) > 1 else "the call", prints)


def expect_same_outcome(actual: Outcome, expected: Outcome, name: str, prints: bool) -> None:
    """Compare two outcomes.

    Raises:
        Rejection: they differ.
    """
    difference = describe_difference(actual.result, expected.result)
    if difference:
        raise Rejection(f"{name}: {difference}.")
    for index, pair in enumerate(zip(actual.arguments, expected.arguments, strict=True), 1):
        difference = describe_difference(*pair)
        if difference:
            raise Rejection(f"argument {index} is wrong after {name}: {difference}.")
    if prints and actual.printed != expected.printed:
        raise Rejection(
            f"{name} prints the wrong text: expected {_quoted(expected.printed)}, got {_quoted(actual.printed)}."
        )


def _quoted(text: str) -> str:
    return repr(text[:60]) if text else "nothing"


def describe_difference(actual: Any, expected: Any) -> str:
    """The difference of two values in words; "" if there is none."""
    if type(actual) is not type(expected):
        return f"expected {_named(expected)}, got {_named(actual)}"
    if isinstance(expected, torch.Tensor):
        return _tensors(actual, expected)
    if isinstance(expected, (list, tuple)):
        if len(actual) != len(expected):
            return f"expected length {len(expected)}, got {len(actual)}"
        return next(filter(None, map(describe_difference, actual, expected)), "")
    if isinstance(expected, dict):
        if list(actual) != list(expected):
            return f"expected the keys {list(expected)}, got {list(actual)}"
        return next(filter(None, map(describe_difference, actual.values(), expected.values())), "")
    if not _has_equality(expected):
        return describe_difference(getattr(actual, "__dict__", {}), getattr(expected, "__dict__", {}))
    if isinstance(expected, (float, complex)):
        # Within the tolerance of tensor elements; NaN equals NaN.
        return _numbers(actual, expected)
    return "" if actual == expected else f"expected {expected!r}, got {actual!r}"


def _numbers(actual: complex, expected: complex) -> str:
    both = torch.tensor([actual, expected], dtype=torch.complex128 if isinstance(expected, complex) else torch.float64)
    return "" if _is_close(both[0], both[1]) else f"expected {expected!r}, got {actual!r}"


def _is_close(actual: torch.Tensor, expected: torch.Tensor) -> bool:
    if not (expected.is_floating_point() or expected.is_complex()):
        return torch.equal(actual, expected)
    return torch.allclose(actual, expected, rtol=1e-4, atol=1e-6, equal_nan=True)


def _has_equality(value: object) -> bool:
    return any("__eq__" in vars(base) for base in type(value).__mro__ if base is not object)


def _tensors(actual: torch.Tensor, expected: torch.Tensor) -> str:
    for name in ("shape", "dtype", "requires_grad"):
        got, reference = getattr(actual, name), getattr(expected, name)
        if got != reference:
            got, reference = (tuple(got), tuple(reference)) if name == "shape" else (got, reference)
            return f"expected a tensor with {name} {reference}, got {got}"
    if _is_close(actual, expected):
        return ""
    return f"expected {_short(expected)}, got {_short(actual)}"


def _short(tensor: torch.Tensor) -> str:
    values = tensor.detach().flatten().tolist()
    shown = ", ".join(str(value) if isinstance(value, int) else f"{value:.4g}" for value in values[:4])
    return f"[{shown}{', ...' if len(values) > 4 else ''}]"


def _named(value: object) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"
