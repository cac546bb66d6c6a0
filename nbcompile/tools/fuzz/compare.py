"""Comparison of two observations, eager's and the compiled program's.

    compare(expected, found, approximate=False)    Difference("bits", "[0]", "... -0.0", "... 0.0")

A program that calls only exact operators (a sum of two numbers, a comparison, a copy) is compared by bits: the sign
of a zero counts, and all NaNs are equal. For other programs a tolerance applies; oracle.py decides whether a larger
distance is a bug, or rounding that the program magnifies.

In torch: torch/testing/_comparison.py. Read next: nbcompile/tools/fuzz/oracle.py
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from nbcompile.tools.fuzz.observe import Fact, Observation

EPSILONS = 64
"""Tolerance for the rounding errors of a few operators, in units of the coarsest dtype of the values."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One fact that differs from eager mode's."""

    aspect: str
    """``type``, ``metadata``, ``error``, ``bits``, ``value``, or ``internal``: the compiler's own failure."""
    path: str
    expected: str
    found: str

    def __str__(self) -> str:
        return (
            f"{self.aspect} at {self.path or 'the result'}\n    eager:    {self.expected}\n    compiled: {self.found}"
        )


def compare(expected: Observation, found: Observation, approximate: bool) -> Difference | None:
    """The first difference."""
    return next(differences(expected, found, approximate), None)


def differences(expected: Observation, found: Observation, approximate: bool) -> Iterator[Difference]:
    """All facts that differ from eager mode's."""
    coarsest = _coarsest([*expected.values(), *found.values()])
    for path, fact in expected.items():
        if path not in found:
            yield Difference("type", path, fact.text, "(nothing there)")
        elif (difference := _fact(path, fact, found[path], approximate, coarsest)) is not None:
            yield difference
    for path, fact in found.items():
        if path not in expected:
            yield Difference("type", path, "(nothing there)", fact.text)


def _coarsest(facts: list[Fact]) -> float:
    kinds = [fact.elements.dtype for fact in facts if fact.elements is not None]
    return max([torch.finfo(kind).eps for kind in kinds if kind.is_floating_point or kind.is_complex], default=0.0)


def _fact(path: str, expected: Fact, found: Fact, approximate: bool, coarsest: float) -> Difference | None:
    if expected.text != found.text:
        aspect = "error" if "raised " in expected.text[:7] + found.text[:7] else _aspect(expected, found)
        return Difference(aspect, path, expected.text, found.text)
    one, other = expected.elements, found.elements
    if one is None or other is None or same_bits(one, other):
        return None
    if approximate and close(one, other, coarsest):
        return None
    return Difference("value" if approximate else "bits", path, _shown(one, other), _shown(other, one))


def _aspect(expected: Fact, found: Fact) -> str:
    return "metadata" if expected.elements is not None and found.elements is not None else "type"


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Return whether all elements are equal, including the sign of a zero; all NaNs are equal."""
    return bool(_unlike(one, other).logical_not().all())


def _unlike(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    if one.is_complex():
        one, other = torch.view_as_real(one), torch.view_as_real(other)
        return _unlike(one, other).any(-1)
    if one.dtype != other.dtype or one.shape != other.shape:
        return torch.ones_like(one, dtype=torch.bool)
    if not one.is_floating_point():
        return one.long() != other.long()
    one, other = one.double(), other.double()
    # For ``==``, 0.0 and -0.0 are equal, and a NaN is unequal to itself; a double represents every value of
    # the smaller dtypes exactly.
    same = (one == other) & (one.signbit() == other.signbit())
    return ~(same | (one.isnan() & other.isnan()))


def close(one: torch.Tensor, other: torch.Tensor, coarsest: float) -> bool:
    """Return whether the distance is within the tolerance, elementwise or relative to the largest element."""
    if one.is_complex():
        return close(torch.view_as_real(one), torch.view_as_real(other), coarsest)
    if not one.is_floating_point():
        return False
    one, other = one.double(), other.double()
    # An infinity or a NaN has no distance: these have to agree.
    strange = ~(one.isfinite() & other.isfinite())
    if bool((_unlike(one, other) & strange).any()):
        return False
    one, other = one[~strange], other[~strange]
    if not one.numel():
        return True
    # Relative to the largest element: where large terms cancel, a small result carries the error of the large ones.
    bound = EPSILONS * max(coarsest, torch.finfo(torch.float64).eps)
    return bool(((one - other).abs() <= bound * one.abs().max() + 1e-30).all())


def _shown(one: torch.Tensor, other: torch.Tensor) -> str:
    """The dtype, and the first elements that differ."""
    unlike = _unlike(one, other).flatten()
    positions = unlike.nonzero().flatten()[:3].tolist()
    flat = one.flatten()
    words = ", ".join(f"[{position}] = {flat[position].item()!r}" for position in positions)
    return f"{str(one.dtype).removeprefix('torch.')} {tuple(one.shape)}, {int(unlike.sum())} elements differ: {words}"


NUMBERS = re.compile(r"-?\d[\d.e+-]*|0x[0-9a-f]+|'[^']*'|\"[^\"]*\"")


def normalised(text: str) -> str:
    """A message without the parts that differ between two programs of one cause."""
    return re.sub(r"\s+", " ", NUMBERS.sub("_", text))[:160]
