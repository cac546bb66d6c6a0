"""Results as a Markdown table and as JSON.

Read next: nothing; this is the last page.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

EAGER, TORCH, OURS = "eager", "torch.compile", "nbcompile"
INTRODUCTION = """# Benchmarks

<!-- Written by {command}; not by hand. -->

What `{command}` found, on the machine, with the versions
and on the day named below: what changed since then is not in it. Seconds depend on the
machine and on what else it does; compare the ratios: below 1, nbcompile is faster. `make bench` measures everything
and writes this page again. Bandwidth is the share of what STREAM's triad reaches beside it in the same rounds: the
bytes that a program must move, by the time that it takes. Above 1 is possible, as large results are stored
without being fetched first.
"""
IN_SHORT = {
    "cold start": "first call in a fresh process, nothing cached",
    "second new function": "first call of another function in that process",
    "warm start": "first call in a fresh process, caches filled before",
    "peak memory, cold start": "peak memory of a fresh process, nothing cached",
    "own passes, CPU time without the C++ compiler": "the compiler's own passes",
    "per call": "a call of three operators on four elements",
    "kernels": "a call of compiled code",
    "models: inference": "a call of a model",
    "models: training step": "a training step of a model",
}
"""The groups of the summary, and what was measured; in all of them less is better."""
NAME_OF_MEAN = "geometric mean"


def markdown(rows: list[dict[str, Any]], facts: dict[str, Any]) -> str:
    """One table a group: a column for each compiler, then our ratios (below 1: ours is faster or fewer)."""
    parts = ["# nbcompile: measured", "", *(f"- {name}: {value}" for name, value in facts.items())]
    for group in dict.fromkeys(row["group"] for row in rows):
        parts += ["", f"## {group}", "", *_table([row for row in rows if row["group"] == group])]
    left = [row for row in rows if row.get("operators")]
    if left:
        parts += ["", "## What ATen runs, beside matrix products, convolutions and attention", ""]
        parts += [f"- {row['name']}: {_names(row['operators'])}" for row in left]
    differences = list(_differences(rows))
    if any("detail" in row for row in rows):
        parts += ["", "## Call nodes that one has and the other has not", "", *(differences or ["None."])]
    failures = [row for row in rows if row["failure"]]
    if failures:
        parts += ["", "## What failed", ""]
        for reason in dict.fromkeys((row["compiler"], row["failure"]) for row in failures):
            where = dict.fromkeys(
                f"{row['group']} ({row['name']})" for row in failures if (row["compiler"], row["failure"]) == reason
            )
            parts.append(f"- {': '.join(reason)}. In: {'; '.join(where)}")
    return "\n".join(parts) + "\n"


def page(text: str, rows: list[dict[str, Any]], arguments: Iterable[str]) -> str:
    """The report as a page of the documentation: ratios first, as a table and as a chart, then all tables, folded."""
    facts, *sections = re.split(r"^## ", text.partition("\n")[2], flags=re.MULTILINE)
    introduction = INTRODUCTION.format(command=" ".join(["python -m benchmarks", *arguments]))
    parts = [introduction, *in_short(ratios(rows)), f"## How it was measured\n{facts}", "## All measurements\n"]
    return "\n".join([*parts, *map(_folded, sections)])


def ratios(rows: list[dict[str, Any]]) -> list[tuple[str, int, str, str]]:
    """For each group of the summary: its name, of how many programs, and our mean ratio to eager and torch.compile."""
    made = []
    for group in IN_SHORT:
        values = {(row["name"], row["compiler"]): row["value"] for row in rows if row["group"] == group}
        names = [name for name, compiler in values if compiler == OURS and name != NAME_OF_MEAN]
        pairs = {
            other: [(values[name, OURS], values[name, other]) for name in names if values.get((name, other))]
            for other in (EAGER, TORCH)
        }
        means = {other: mean_ratio(ours, theirs) for other, each in pairs.items() for ours, theirs in [_parted(each)]}
        if any(means.values()):
            made.append((group, len(names), means[EAGER] or "-", means[TORCH] or "-"))
    return made


def _parted(pairs: list[tuple[float | None, float]]) -> tuple[list[float], list[float]]:
    there = [(ours, theirs) for ours, theirs in pairs if ours]
    return [ours for ours, _ in there], [theirs for _, theirs in there]


def mean_ratio(ours: list[float], theirs: list[float]) -> str:
    """The geometric mean of ratios; "" where there is none."""
    logs = [math.log(one / other) for one, other in zip(ours, theirs, strict=True)]
    return f"{math.exp(sum(logs) / len(logs)):.3f}" if logs else ""


def in_short(found: list[tuple[str, int, str, str]]) -> list[str]:
    """The summary: a table, and the chart that nbcompile/sphinx_ext/ratios.py draws of its last column."""
    if not found:
        return []
    head = f"| {NAME_OF_MEAN} | programs | nbcompile / {EAGER} | nbcompile / {TORCH} |"
    rows = [f"| {IN_SHORT[group]} | {number} | {eager} | {torch} |" for group, number, eager, torch in found]
    drawn = [f"{IN_SHORT[group]}: {torch}" for group, _, _, torch in found if torch != "-"]
    chart = [f"```{{ratios}} nbcompile / {TORCH}", *drawn, "```", ""] if drawn else []
    return ["## In short\n", head, "|---|---|---|---|", *rows, "", *chart]


def _folded(section: str) -> str:
    """A section of the report that a reader opens."""
    title, _, content = section.partition("\n")
    return f"<details><summary>{title.replace('<', '&lt;')}</summary>\n\n{content.strip()}\n\n</details>\n"


def _table(rows: list[dict[str, Any]]) -> list[str]:
    columns = sorted(dict.fromkeys(row["compiler"] for row in rows), key=_rank)
    ratios = [each for each in columns if each != OURS] if OURS in columns else []
    lines = [
        "| " + " | ".join(["", *columns, *(f"nbcompile / {each}" for each in ratios)]) + " |",
        "|" + "---|" * (1 + len(columns) + len(ratios)),
    ]
    for name in dict.fromkeys(row["name"] for row in rows):
        cells = {row["compiler"]: row for row in rows if row["name"] == name}
        shown = [_shown(cells.get(column)) for column in columns]
        compared = [_ratio(cells.get(OURS), cells.get(column)) for column in ratios]
        lines.append("| " + " | ".join([name.replace("|", "\\|"), *shown, *compared]) + " |")
    return lines


def _rank(column: str) -> tuple[int, str]:
    order = [EAGER, TORCH, OURS]
    return (order.index(column), "") if column in (EAGER, OURS) else (1, column)


def _shown(row: dict[str, Any] | None) -> str:
    if row is None:
        return "-"
    if row["value"] is None:
        return "failed"
    return seconds(row["value"]) if row["unit"] == "s" else f"{row['value']:g}"


def seconds(value: float) -> str:
    """A time with a unit that suits it."""
    for scale, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if float(f"{value / scale:.3g}") >= 1:  # 999.7 ms are one second
            return f"{value / scale:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def _ratio(ours: dict[str, Any] | None, other: dict[str, Any] | None) -> str:
    if not ours or not other or ours["value"] is None or not other["value"]:
        return "-"
    return f"{ours['value'] / other['value']:.3f}"


def means(rows: Iterable[dict[str, Any]], group: str, compiler: str) -> dict[str, Any]:
    """The geometric mean of a group: the ratio of two means is the mean of the ratios."""
    values = [row["value"] for row in rows if (row["group"], row["compiler"]) == (group, compiler) and row["value"]]
    mean = math.exp(sum(map(math.log, values)) / len(values)) if values else None
    unit = next((row["unit"] for row in rows if row["group"] == group), "s")
    return {
        "group": group, "name": NAME_OF_MEAN, "compiler": compiler, "value": mean, "unit": unit, "failure": "",
    }  # fmt: skip


def _names(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} ({count})" if count > 1 else name for name, count in sorted(counts.items()))


def _differences(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Operators whose counts differ, model by model (rows with a ``detail``: how many of each)."""
    counted = {(row["name"], row["compiler"]): row["detail"] for row in rows if "detail" in row}
    for name in dict.fromkeys(name for name, _ in counted):
        ours, theirs = counted.get((name, OURS), {}), counted.get((name, TORCH), {})
        for operator in sorted({*ours, *theirs}):
            here, there = ours.get(operator, 0), theirs.get(operator, 0)
            if here != there:
                yield f"- {name}: {operator}: nbcompile {here}, torch.compile {there}"


def slope(points: Iterable[tuple[float, float]]) -> float:
    """The least-squares slope through some points."""
    pairs = list(points)
    middle_x = sum(x for x, _ in pairs) / len(pairs)
    middle_y = sum(y for _, y in pairs) / len(pairs)
    spread = sum((x - middle_x) ** 2 for x, _ in pairs)
    return sum((x - middle_x) * (y - middle_y) for x, y in pairs) / spread
