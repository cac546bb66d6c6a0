"""Comparison of two compilers on one program, as plain data.

    comparison.facts[2]            Fact("graph breaks", ours=1, theirs=1)
    comparison.differences[0]      Difference("graph", "f (0/0, 0/0)", ours="aten.mul", theirs="aten.add", known="")
    comparison.frames[0].lines     each source line with the operators, breaks and guards of both

``ours`` is nbcompile, ``theirs`` the real torch.compile. Both records are kept whole.

In torch: nothing. Read next: nbcompile/tools/compare/align.py
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any

from nbcompile.record.model import Record

EQUAL, DIFFERENT, ONLY_OURS, ONLY_THEIRS = "equal", "different", "only nbcompile", "only torch.compile"


@dataclass(frozen=True, slots=True)
class EngineRun:
    """Outcome of running the program with one compiler."""

    difference: str = ""
    """Difference from eager mode, in words; "" if there is none."""
    failure: str = ""
    """Reason for which the process ended early: a time limit, a signal, an exception outside the compared calls."""
    first_call_seconds: float | None = None
    """Compilation included."""
    call_seconds: float | None = None
    """Time of the fastest later call."""
    program_seconds: float | None = None
    """Time of a whole program or cell."""
    output: str = ""
    """Standard output and standard error of the process."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One number that both compilers have; None where it is unknown."""

    name: str
    ours: float | None
    theirs: float | None
    unit: str = ""
    is_time: bool = False
    """True for a measured number, which differs between runs."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference between the compilers."""

    aspect: str
    """``result``, ``frame``, ``graph break``, ``graph``, ``recompilation``, ``AOT graph``, ``guards``."""
    place: str
    ours: str
    theirs: str
    known: str = ""
    """The reason, where it is a known difference."""


@dataclass(frozen=True, slots=True)
class LineMarks:
    """Results of one compiler for a source line."""

    operators: tuple[str, ...] = ()
    breaks: tuple[str, ...] = ()
    guards: int = 0


@dataclass(frozen=True, slots=True)
class LinePair:
    """One source line, with the results of both compilers."""

    line: int
    text: str
    ours: LineMarks
    theirs: LineMarks


@dataclass(frozen=True, slots=True)
class GuardPair:
    """Guards of both compilers that check the same condition, or one guard without a counterpart."""

    status: str
    """One of ``EQUAL``, ``DIFFERENT``, ``ONLY_OURS``, ``ONLY_THEIRS``."""
    ours: str = ""
    theirs: str = ""
    known: str = ""


@dataclass(frozen=True, slots=True)
class FramePair:
    """One compiled frame in both records."""

    function: str
    file: str
    first_line: int
    ours: str = ""
    """Compile id; "" where only torch.compile has the frame."""
    theirs: str = ""
    lines: tuple[LinePair, ...] = ()
    guards: tuple[GuardPair, ...] = ()


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both records, and their matching entries."""

    title: str
    ours: Record
    theirs: Record
    our_run: EngineRun
    their_run: EngineRun
    facts: tuple[Fact, ...] = ()
    differences: tuple[Difference, ...] = ()
    frames: tuple[FramePair, ...] = ()
    notes: tuple[str, ...] = field(default=())
    """Limits of the comparison, and problems with the traces."""

    def to_json(self, indent: int | None = None) -> str:
        """The whole comparison, records included, as JSON."""
        plain: dict[str, Any] = dataclasses.asdict(self)
        return json.dumps(plain, indent=indent)
