"""Excluded statements: known differences that need not be found again.

    excluded("v1 = a.roll(1)", {"a": a})      "strides: those that torch's fake tensors have (exactness)"

Each row has a pattern of statements, a predicate of their values, and a reason: the difference is documented in
docs/exactness.md, or torch.compile has it, too; docs/design/fuzzing.md lists the latter as open. A row is removed
together with its difference.

In torch: nothing. Read next: nbcompile/tools/fuzz/tensors.py
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch

Values = Sequence[torch.Tensor]
SMALL = 1e-3
"""Smallest divisor that statements have as a number."""
HUGE = 1e6
"""Largest number that is a coordinate of an image."""


@dataclass(frozen=True, slots=True)
class Exclusion:
    """A row of the table."""

    pattern: str
    """Pattern that is searched in the text of a statement."""
    values: Callable[[Values], bool]
    """Predicate of the tensors that the statement uses."""
    reason: str


def excluded(text: str, known: Mapping[str, object]) -> str:
    """Reason why a statement is excluded; empty if it is not."""
    named = [known.get(name) for name in dict.fromkeys(re.findall(r"\b[a-z]\d*\b", text))]
    values = [value for value in named if isinstance(value, torch.Tensor)]
    return next((row.reason for row in TABLE if re.search(row.pattern, text) and row.values(values)), "")


def _any(_values: Values) -> bool:
    return True


def _is_laid_out_otherwise(values: Values) -> bool:
    return any(not value.is_contiguous() for value in values)


def _is_boolean(values: Values) -> bool:
    return any(value.dtype == torch.bool for value in values)


def _has_zeros(values: Values) -> bool:
    return any(value.is_floating_point() and bool((value == 0).any()) for value in values)


def _has_huge_quotient(values: Values) -> bool:
    """Return whether a quotient of two numbers, one perhaps a small one of the text, may overflow its dtype."""
    sizes = [value.detach().abs().flatten() for value in values if value.is_floating_point()]
    sizes = [size[size.isfinite() & (size != 0)] for size in sizes]
    sizes = [size for size in sizes if size.numel()]
    if not sizes:
        return False
    coarsest = min(torch.finfo(size.dtype).max for size in sizes)
    smallest = min(SMALL, *(float(size.min()) for size in sizes))
    return any(float(size.max()) > coarsest * smallest for size in sizes)


def _has_huge(values: Values) -> bool:
    return any(value.is_floating_point() and not bool((value.abs() < HUGE).all()) for value in values)


def _may_overflow_in_sums(values: Values) -> bool:
    """Return whether a partial sum of the numbers, or of their squares, may be above the largest number."""
    floats = [value.detach() for value in values if value.is_floating_point()]
    return any(bool((value.abs() > torch.finfo(value.dtype).max ** 0.5).any()) for value in floats)


def _is_half(values: Values) -> bool:
    return any(value.dtype in (torch.float16, torch.bfloat16) for value in values)


def _has_nan(values: Values) -> bool:
    return any(value.is_floating_point() and bool(value.isnan().any()) for value in values)


TABLE = (
    Exclusion(
        r"\.(roll|logical_(?:and|or|xor)|copysign|xlogy|xlog1py|logaddexp2?|one_hot|\w*batch_norm\w*|floor_divide|remainder|interpolate)\b|//|rounding_mode",
        _is_laid_out_otherwise,
        "strides are those that torch's fake tensors have (docs/exactness.md)",
    ),
    Exclusion(
        r"\.(amax|amin|max|min|aminmax|cummax|cummin|norm)\(|max_pool",
        _has_zeros,
        "which of several zeros is the largest depends on vectors and threads (docs/exactness.md)",
    ),
    Exclusion(
        r"\b(maximum|minimum)\(|clamp\w*\((min=|max=)?[a-z]\d*\)",
        _has_zeros,
        "of two zeros whole vectors take the second in eager, other elements the first (docs/exactness.md)",
    ),
    Exclusion(r"(%|remainder).*1e-40", _any, "as the next row"),
    Exclusion(
        r"%|remainder|fmod",
        _has_huge_quotient,
        "where the quotient is above the largest number, eager has NaN in whole vectors, else the exact result",
    ),
    Exclusion(r"max_pool", _has_nan, "a window that holds only NaN: the last index, the first (docs/exactness.md)"),
    Exclusion(
        r"^v\d+(\.\w+_\(|\[.*\] = | [-+*]= )"
        r"|(masked_fill|tril|logical_not|eq|remainder|index_\w+|scatter|fill_diagonal)_\(",
        _is_laid_out_otherwise,
        "a result that is changed in place has the strides of the operator that is not in place (torch.compile's, too)",
    ),
    Exclusion(
        r"<<|>>|_shift\(",
        _is_boolean,
        "eager shifts bool for a shift by a number; FakeTensor raises an error (torch.compile, too)",
    ),
    Exclusion(
        r"\b(nan)?(sum|mean)\b|avg_pool|\b(std|var)(_mean)?\(|layer_norm",
        _may_overflow_in_sums,
        "a partial sum overflows: the order of the additions decides (docs/exactness.md)",
    ),
    Exclusion(
        r"= -?[\d.]+ / ",
        _is_half,
        "a reciprocal and a product, without rounding between the two (docs/exactness.md)",
    ),
    Exclusion(
        r"native_group_norm",
        _is_laid_out_otherwise,
        "eager reads a strided weight as if it were contiguous; compiled code (torch.compile's, too) does not",
    ),
    Exclusion(
        r"grid_sampler?",
        _has_huge,
        "coordinates that are NaN, infinite or huge: eager samples the border, torch's decomposition gives 0",
    ),
    Exclusion(r"softshrink", _any, "zeros in whole vectors have no sign in eager (docs/exactness.md)"),
)
