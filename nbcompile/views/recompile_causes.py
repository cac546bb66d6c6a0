"""Causes of recompilations: the frames that one value caused, and remedies.

    size of tensor 'x', dimension 0     expected 3, got 4, 5 and 6 in "0/1", "0/2", "0/3"
    advice                              mark the dimension as dynamic

In torch: torch/_dynamo/guards.py (get_and_maybe_log_recompilation_reasons). Read next: guard_failures.py
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from nbcompile.record.model import (
    CompiledFrame,
    FailedGuard,
    Record,
)
from nbcompile.views.facts import SEVERAL, readable, shortened
from nbcompile.views.guard_failures import SIZE, expected_value, guard_failure, guard_of


@dataclass(frozen=True, slots=True)
class Cause:
    """Recompilations that one value caused."""

    about: str
    """``tag``; ``size of tensor x, dimension 0``."""
    frames: tuple[CompiledFrame, ...]
    values: tuple[str, ...]
    """Values by entry, as far as the failed guards show them."""

    @property
    def recompiled(self) -> int:
        """Number of calls that were compiled: the one that reaches the recompilation limit is not."""
        return sum(each.status == "compiled" for each in self.frames)


def causes(record: Record, frames: Iterable[CompiledFrame]) -> tuple[Cause, ...]:
    """Recompilations of one function, grouped by the value whose guards failed; others separately."""
    groups: dict[object, list[CompiledFrame]] = {}
    for frame in frames:
        about = {_about(record, each) for each in frame.failed_guards}
        # Entries of one code object whose guards on one value fail are one cause; failures for several are others.
        key = (frame.id.partition("/")[0], *about) if len(about) == 1 else frame.id
        groups.setdefault(key, []).append(frame)
    return tuple(
        Cause(
            _about(record, same[0].failed_guards[0]),
            tuple(same),
            tuple(dict.fromkeys(expected_value(record, each) for frame in same for each in frame.failed_guards)),
        )
        for same in groups.values()
    )


def _about(record: Record, failed: FailedGuard) -> str:
    """The value of a failed guard."""
    failure, guard = guard_failure(record, failed), guard_of(record, failed)
    if failure.dimension:
        return f"{failure.what}, dimension {failure.dimension}"
    source = readable(failed.source or (guard.source if guard is not None else ""))
    if size := SIZE.fullmatch(source):
        return f"size of tensor {size['tensor']!r}, dimension {size['dim']}"
    return source or failure.what


def remedies(failed: FailedGuard) -> list[str]:
    """Origin of the failed guard, and advice that would have prevented the recompilation, if known."""
    found = [f"why: {failed.note}"] if failed.note else []
    if failed.advice is not None:
        tried = " (tried: it helps)" if failed.advice.verified else ""
        found.append(f"advice: {failed.advice.text}{tried}")
    return found


def remedies_of(cause: Cause) -> list[str]:
    """Remedies of all failed guards of a cause, without duplicates and without those that another one contains."""
    failed = (one for frame in cause.frames for one in frame.failed_guards)
    #     "use x"   "use x; or y"      the second contains the first
    found = list(dict.fromkeys(text for one in failed for text in remedies(one)))
    return _folded([text for text in found if not any(other != text and other.startswith(text) for other in found)])


_COMPARED = re.compile(r"(.*: the program compares )(\(.*?\))(| \(tried: it helps\)|; or config.*)")


def _folded(remedies: list[str]) -> list[str]:
    """Combine remedies that differ only in the compared condition into one sentence with all conditions."""
    conditions: dict[tuple[str, str], list[str]] = {}
    for text in remedies:
        before, condition, after = found.groups() if (found := _COMPARED.fullmatch(text)) else (text, "", "")
        conditions.setdefault((before, after), []).append(condition)
    return [before + shortened(same) + after for (before, after), same in conditions.items()]


def is_storm(record: Record) -> bool:
    """Return whether one value caused so many recompilations that they are summarised."""
    return any(
        len(cause.frames) >= SEVERAL for cause in causes(record, [one for one in record.frames if one.failed_guards])
    )
