"""What the sweeps found, kept in results.json, and the tables that the documentation makes of it.

    python -m tests.opinfo.results        the counts by dtype, and what does not pass

One entry a sweep. What is neither named under "no sample" nor under "failed"
passed. A sweep of some operators replaces what is known of these and leaves
the others.

In torch: nothing. Read next: tests/opinfo/known.py
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("results.json")
PASSED, NO_SAMPLE = "passed", "no sample"
FINE = (PASSED, NO_SAMPLE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one operator's case came to."""

    name: str
    status: str  # passed, no sample, differs, error, crash
    samples: int = 0
    detail: str = ""


def sweep_name(compiler: str, backend: str, dtype: str, backward: bool) -> str:
    """``nbcompile inductor, float32 backward``."""
    return f"{compiler} {backend}, {dtype} {'backward' if backward else 'forward'}"


def load() -> dict[str, Any]:
    """Sweep -> ``{"of": count, "no sample": names, "failed": {name: what was seen}}``."""
    return json.loads(FILE.read_text()) if FILE.exists() else {}


def record(sweep: str, outcomes: Iterable[Outcome], of: int) -> None:
    """Put outcomes into the file, in place of what was known of these operators."""
    known = load()
    entry = known.setdefault(sweep, {"of": of, NO_SAMPLE: [], "failed": {}})
    failed, without = entry["failed"], set(entry[NO_SAMPLE])
    for each in outcomes:
        failed.pop(each.name, None)
        without.discard(each.name)
        if each.status == NO_SAMPLE:
            without.add(each.name)
        elif each.status != PASSED:
            failed[each.name] = f"{each.status}: {each.detail}"[:160]
    entry |= {"of": of, NO_SAMPLE: sorted(without), "failed": dict(sorted(failed.items()))}
    FILE.write_text(json.dumps(dict(sorted(known.items())), indent=0) + "\n")
