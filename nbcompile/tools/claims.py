"""Claims of a page about the compiler, checked while the page is executed.

    claim("GPT-2 is one graph", graphs == 1, graphs=graphs)     ✓ GPT-2 is one graph (graphs=1)

A claim that does not hold raises an error with the compared values, so that no page with a false claim is written:

    ClaimFailed: GPT-2 is one graph (graphs=2): `graphs == 1` does not hold: left = 2, right = 1

In torch: nothing. Read next: nbcompile/tools/claim_values.py, nbcompile/tools/tour.py
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Protocol

import torch
from IPython.display import display

from nbcompile.record.model import Record
from nbcompile.support.digits import three_digits
from nbcompile.tools import claim_values

CLAIM = "nbcompile_claim"
"""The metadata that marks an output as a claim."""


class ClaimFailed(AssertionError):
    """A claim of a page is false."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One checked sentence, and its figures."""

    sentence: str
    figures: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        figures = ", ".join(f"{name}={value}" for name, value in self.figures)
        return f"{self.sentence} ({figures})" if figures else self.sentence

    def _repr_mimebundle_(
        self, include: object = None, exclude: object = None
    ) -> tuple[dict[str, str], dict[str, dict[str, object]]]:
        del include, exclude  # part of IPython's protocol
        return {"text/plain": f"✓ {self}"}, {CLAIM: {"says": self.sentence, "figures": dict(self.figures)}}


def claim(sentence: str, holds: object, **figures: object) -> None:
    """Show a sentence with its figures if it holds.

    Raises:
        ClaimFailed: the claim does not hold.
    """
    checked = Claim(sentence, tuple((name, _figure(value)) for name, value in figures.items()))
    if not holds:
        raise ClaimFailed(": ".join(filter(None, (str(checked), claim_values.compared(sys._getframe(1), 1)))))
    display(checked)


def _figure(value: object) -> str:
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        value = value.item()
    if isinstance(value, float):
        return three_digits(value)
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)


class HasRecord(Protocol):
    """Object with a record, as ``%%compile -o name`` binds and ``nbcompile.explain`` returns it."""

    @property
    def record(self) -> Record:
        """Record of the compilation."""


def graphs_of(seen: HasRecord) -> int:
    """Number of captured graphs with operators."""
    return sum(
        any(node.op.startswith("call") for node in frame.graph.nodes)
        for frame in seen.record.frames
        if frame.graph is not None
    )
