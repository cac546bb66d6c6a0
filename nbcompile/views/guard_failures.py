"""Guards that failed, as sentences: what was expected, and what the call had.

    size of 'x', dimension 0: expected 3, got 4

In torch: torch/_dynamo/guards.py (get_guard_fail_reason). Read next: nbcompile/views/facts.py
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from nbcompile.record.model import (
    FailedGuard,
    Guard,
    Record,
    StackLine,
)


def expected_value(record: Record, failed: FailedGuard) -> str:
    """The value that a failed guard expected; what it checks, if the reason has no value."""
    failure = guard_failure(record, failed)
    return failure.expected or failure.what


def guard_of(record: Record, failed: FailedGuard) -> Guard | None:
    """The guard that failed for a call, if the record has it."""
    every = (each for frame in record.frames for each in frame.guards)
    return next((each for each in every if failed.guard and each.id == failed.guard), None)


@dataclass(frozen=True, slots=True)
class GuardFailure:
    """Parsed reason of a cache miss: the guard that failed, with expected and actual value."""

    entry: str
    what: str
    expected: str
    actual: str
    dimension: str
    condition: str
    stack: tuple[StackLine, ...]


# Texts of torch's C++ guards, which have no structure: "tensor 'x' size mismatch at index 0. expected 3, actual 4".
_MISMATCH = re.compile(r"^(?:tensor )?(?P<what>.*?) (?P<aspect>\w+) mismatch(?: at index (?P<dim>\d+))?\. ")


SIZE = re.compile(r"(?P<tensor>.*)\.size\(\)\[(?P<dim>\d+)\]")


_VALUES = re.compile(r"expected (?P<expected>.*?),? (?:actual|but got|got) (?P<actual>.*?)\.?$")


def guard_failure(record: Record, failed: FailedGuard) -> GuardFailure:
    """Split a failed guard's reason into the expected and the actual value."""
    # Reasons of dtypes and sizes are sentences of torch: the aspect comes first, and both values follow. Other
    # reasons are written with the values next to them, or are a flag whose two values are implied.
    mismatch, values = _MISMATCH.match(failed.reason), _VALUES.search(failed.reason)
    guard = guard_of(record, failed)
    return GuardFailure(
        failed.compile_id,
        f"{mismatch['aspect']} of tensor {mismatch['what']}" if mismatch else failed.reason.strip(),
        _of_flag(failed.reason, 0) or (values["expected"] if values else failed.expected),
        _of_flag(failed.reason, 1) or (values["actual"] if values else failed.actual),
        (mismatch["dim"] or "") if mismatch else "",
        guard.condition if guard else "",
        failed.stack or (guard.stack if guard else ()),
    )


def _of_flag(reason: str, which: int) -> str:
    """Parse ``requires_grad mismatch. expected requires_grad=0``, which omits the actual value."""
    found = re.search(r"expected requires_grad=([01])$", reason)
    return str(bool(int(found[1])) is (which == 0)) if found else ""
