"""The results of the sweeps, in results.json, and the tables that the documentation shows of them.

    python -m tests.opinfo.harness --record --dtype int64     a sweep, into results.json
    python -m tests.opinfo.results                            results.json, into docs/operators.md

One entry a sweep. What is named neither under "no sample" nor under "failed"
passed. A sweep of some operators replaces what is known of these and leaves
the others.

In torch: nothing. Read next: tests/opinfo/known.py
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.opinfo.known import KNOWN

FILE = Path(__file__).with_name("results.json")
PAGE = Path(__file__).parents[2] / "docs" / "operators.md"
BEGIN, END = "<!-- from tests/opinfo/results.json: begin -->\n", "<!-- end -->\n"
PASSED, NO_SAMPLE = "passed", "no sample"
FINE = (PASSED, NO_SAMPLE)
OURS, PEER = "nbcompile inductor", "torch aot_eager"
SWEEPS = (
    "float32 forward", "float32 backward", "float64 forward", "bfloat16 forward", "int64 forward", "bool forward",
)  # fmt: skip
Table = dict[str, Any]
"""Sweep -> ``{"of": count, "no sample": names, "failed": {name: what was seen}}``."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one operator's case."""

    name: str
    status: str  # passed, no sample, differs, error, crash
    samples: int = 0
    detail: str = ""


# --- the file ----------------------------------------------------------------------------------------------------------


def load() -> Table:
    """The recorded results."""
    return json.loads(FILE.read_text()) if FILE.exists() else {}


def record(sweep: str, outcomes: Iterable[Outcome], of: int) -> None:
    """Write outcomes into the file, and replace older ones of these operators."""
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


def passes(entry: Table) -> int:
    """The number of operators in a sweep that passed."""
    return int(entry["of"]) - len(entry[NO_SAMPLE]) - len(entry["failed"])


# --- the page ----------------------------------------------------------------------------------------------------------


def markdown(table: Table) -> str:
    """Counts by dtype, then the operators that do not pass, grouped by reason."""
    return "\n".join([*_counts(table), "", *_reasons(table)]) + "\n"


def _counts(table: Table) -> Iterator[str]:
    yield "| | with samples | nbcompile passes | `aot_eager` of torch.compile passes |"
    yield "|---|---|---|---|"
    for sweep in SWEEPS:
        ours, theirs = table.get(f"{OURS} {sweep}"), table.get(f"{PEER} {sweep}")
        if ours:
            peer = passes(theirs) if theirs else "not run"
            yield f"| {sweep} | {ours['of'] - len(ours[NO_SAMPLE])} | {passes(ours)} | {peer} |"


def _reasons(table: Table) -> Iterator[str]:
    groups: dict[tuple[str, str, str], list[str]] = {}
    for name, sweeps in _failures(table).items():
        peers = [table[f"{PEER} {sweep}"]["failed"] for sweep in sweeps if f"{PEER} {sweep}" in table]
        fails = [name in each for each in peers]
        same = "not run" if not fails else "the same" if all(fails) else "passes"
        first = table[f"{OURS} {sweeps[0]}"]["failed"][name].replace("|", "/")
        groups.setdefault((KNOWN[sweeps[0]].get(name, first), _in_words(sweeps), same), []).append(name)
    yield "| why | where | torch.compile | operators |"
    yield "|---|---|---|---|"
    for (why, where, same), names in groups.items():
        yield f"| {why} | {where} | {same} | {', '.join(f'`{name}`' for name in names)} |"


def _in_words(sweeps: list[str]) -> str:
    """``float32, int64; backward``: the dtypes of the forward sweeps, and whether gradients fail too."""
    forward = [each.split()[0] for each in sweeps if each.endswith("forward")]
    every = len(forward) == sum(each.endswith("forward") for each in SWEEPS)
    words = "all dtypes" if every else ", ".join(forward)
    return words + ("; backward" if len(forward) < len(sweeps) else "")


def _failures(table: Table) -> dict[str, list[str]]:
    """The sweeps that an operator does not pass, by operator."""
    found: dict[str, list[str]] = {}
    for sweep in SWEEPS:
        for name in table.get(f"{OURS} {sweep}", {"failed": ()})["failed"]:
            found.setdefault(name, []).append(sweep)
    return found


def page() -> str:
    """The page of the documentation, with new tables."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    return f"{before}{BEGIN}\n{markdown(load())}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(page())
