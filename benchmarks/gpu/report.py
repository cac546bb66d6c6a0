"""The page of ``make gpu``: what each part found, as tables in Markdown.

Read next: benchmarks/gpu/__main__.py
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

Row = dict[str, Any]
NO_TIME = "–"
STANDIN = (
    "There is no GPU here: kernels ran in the simulator, on the stand-in driver. Results are checked; times on the "
    f"device are not there ({NO_TIME})."
)


def page(found: dict[str, dict[str, Any]], command: str) -> str:
    """Markdown of all parts; one that failed or was cut off says so."""
    machine = next(iter(found.get("doctor", {}).get("rows", [])), {})
    lines = [
        "---", "orphan: true", "---", "", f"# Measured on {machine.get('gpu', 'an unknown GPU')}", "",
        f"Written by `{command}`. {_versions(machine)}", "",
    ]  # fmt: skip
    if "stand-in" in machine.get("gpu", ""):
        lines += [STANDIN, ""]
    for name, write in SECTIONS.items():
        part = found.get(name)
        lines += [f"## {name.capitalize()}", ""]
        if part is None:
            lines += ["Not run.", ""]
            continue
        if part["rows"]:
            lines += [*write(part["rows"]), ""]
        if part["error"]:
            lines += [f"**It ended early**: {part['error']}", ""]
        elif part.get("cut_off"):
            lines += ["**Its time was up**: the next run of the command goes on.", ""]
        lines += [f"{part['seconds']:.0f} s.", ""]
    return "\n".join(lines)


def _versions(machine: Row) -> str:
    if not machine:
        return "The doctor was not run."
    driver = machine["driver"]
    return (
        f"{machine['chip']}, CUDA {driver // 1000}.{driver % 1000 // 10}, torch {machine['torch']}, "
        f"Triton {machine['triton']}, Python {machine['python']}."
    )


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """A table of Markdown."""
    texts = [[_text(cell) for cell in row] for row in rows]
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head), *("| " + " | ".join(row) + " |" for row in texts)]


def _text(cell: object) -> str:
    if cell is None:
        return NO_TIME
    if isinstance(cell, bool):
        return "yes" if cell else "**no**"
    if isinstance(cell, float):
        return f"{cell:.3g}"
    return str(cell).replace("|", "\\|")


def _doctor(rows: Sequence[Row]) -> list[str]:
    return table(("what", "found"), [(key, value) for key, value in rows[0].items()])


def _launches(rows: Sequence[Row]) -> list[str]:
    return table(
        ("launch", "nbcompile, us", "Triton's launcher, us", "ratio"),
        [
            (row["name"], row["nbcompile_us"], row.get("triton_us"), _ratio(row["nbcompile_us"], row.get("triton_us")))
            for row in rows
        ],
    )


def _checks(rows: Sequence[Row]) -> list[str]:
    ran = [row for row in rows if not row["reason"].startswith("eager")]
    exact = [row for row in ran if row["bits"] is not None]
    wrong = [row for row in ran if not row["equal"] or row["bits"] is False]
    equal, same = sum(row["equal"] for row in ran), sum(row["bits"] for row in exact)
    text = f"{len(rows)} programs: {len(ran)} ran, {equal} are equal to eager mode; of {len(exact)} without "
    lines = [text + f"approximate instructions {same} have the simulator's bits."]
    return (
        [
            *lines,
            "",
            *table(
                ("program", "equal", "bits", "why"),
                [(row["name"], row["equal"], row["bits"], row["reason"]) for row in wrong],
            ),
        ]
        if wrong
        else lines
    )


def _calibration(rows: Sequence[Row]) -> list[str]:
    return table(
        ("what", "us", "GB/s", "of the data sheet"),
        [
            (row["name"], row["us"], (row.get("bytes_per_second") or 0) / 1e9 or None, row.get("of_sheet"))
            for row in rows
        ],
    )


def _programs(rows: Sequence[Row]) -> list[str]:
    head = (
        "program", "equal", "first call, s", "eager, us", "torch.compile, us", "max-autotune, us", "nbcompile, us",
        "GB/s", "torch.compile / nbcompile", "host: torch, us", "host: nbcompile, us",
    )  # fmt: skip
    lines = table(
        head,
        [
            (
                row["name"] + (", training" if row["trains"] else ""), row["equal"], row["first_call_s"],
                row["eager_us"], row.get("torch_default_us"), row.get("torch_max_autotune_us"), row["nbcompile_us"],
                row["bytes"] / row["nbcompile_us"] / 1e3 if row["nbcompile_us"] else None,
                _ratio(row.get("torch_default_us"), row["nbcompile_us"]), row.get("torch_default_host_us"),
                row.get("nbcompile_host_us"),
            )
            for row in rows
        ],
    )  # fmt: skip
    ratios = [ratio for row in rows if (ratio := _ratio(row.get("torch_default_us"), row["nbcompile_us"]))]
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        lines += ["", f"Geometric mean of torch.compile / nbcompile: {mean:.2f}; least {min(ratios):.2f}."]
    return lines


def _predictions(rows: Sequence[Row]) -> list[str]:
    return table(
        ("program", "predicted, us", "roofline, us", "measured, us", "predicted / measured"),
        [
            (row["name"], row.get("predicted_us"), row.get("roofline_us"), row.get("measured_us"), row.get("error"))
            for row in rows
        ],
    )


def _ratio(one: float | None, two: float | None) -> float | None:
    return one / two if one and two else None


SECTIONS: dict[str, Callable[[Sequence[Row]], list[str]]] = {
    "doctor": _doctor, "launches": _launches, "checks": _checks, "calibration": _calibration, "kernels": _programs,
    "models": _programs, "predictions": _predictions,
}  # fmt: skip
