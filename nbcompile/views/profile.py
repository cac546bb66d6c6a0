"""View of a profile: source lines and kernels with their measured times.

    print(view)                  text
    view                         HTML in a notebook
    view.data, view.to_json()    the profile as data
    view.report("out.html")      one file

In torch: key_averages().table() of torch.profiler, which has no lines. Read next: nbcompile/record/profile.py
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePath

from markupsafe import Markup

from nbcompile.record.profile import KernelTime, LineTime, Place, Profile
from nbcompile.support.digits import three_digits, with_unit
from nbcompile.views import assets, costs, facts, html
from nbcompile.views.lines import columns, encodable, wrapped
from nbcompile.views.markup import Limits, code, join, row, section, table, tag
from nbcompile.views.report import page

SHOWN = Limits(rows=200)
HEAD_OF_LINES = ("line", "time", "share", "bytes", "roofline", "source", "computed with")
HEAD_OF_KERNELS = ("kernel", "operators", "lines", "calls", "time", "share", "a call", "bytes", "roofline")


@dataclass(frozen=True)
class ProfileView:
    """A profile with its displays in notebooks and terminals."""

    data: Profile

    def __str__(self) -> str:
        return "\n".join(text_lines(self.data))

    __repr__ = __str__

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        del include, exclude
        return {"text/plain": str(self), "text/html": render(self.data)}

    def to_json(self, indent: int | None = None) -> str:
        """Everything as JSON."""
        return self.data.to_json(indent)

    def report(self, path: str | Path) -> Path:
        """Write one HTML file."""
        Path(path).write_text(document(self.data), encoding="utf-8")
        return Path(path)


def duration(microseconds: float) -> str:
    """``1.23 ms``: three digits."""
    return with_unit(microseconds, (("s", 1e6), ("ms", 1e3), ("µs", 1.0)))


def summary(data: Profile) -> Iterator[str]:
    """The profile in sentences."""
    if not data.kernels:
        yield "No compiled kernel ran."
        return
    inside = data.kernel_microseconds
    frames = facts.count(data.calls, "call")
    yield (
        f"Compiled code took {duration(data.microseconds)} in {frames} of compiled frames: {duration(inside)} in "
        f"kernels and operators, {duration(max(data.microseconds - inside, 0.0))} between them."
    )
    if data.compile_microseconds:
        yield f"Compilation took {duration(data.compile_microseconds)} more."
    if data.peak_bytes:
        yield f"Tensors held at most {costs.words(data.peak_bytes)} more than at the start."
    machine = data.machine
    yield (
        f"Roofline: this machine, with {facts.count(machine.threads, 'thread')}, was measured to copy "
        f"{three_digits(machine.bytes_per_second / 1e9)} GB/s and to multiply float32 matrices with "
        f"{three_digits(machine.flops_per_second / 1e9)} GFLOP/s. More than 100% means that the data came from a cache."
    )


def _share(part: float, data: Profile) -> str:
    return _percent(part / data.microseconds) if data.microseconds else ""


def _percent(part: float) -> str:
    return "under 1%" if 0 < part < 0.01 else f"{part:.0%}"


def _location(location: Place) -> str:
    return f"{PurePath(location.file).name}:{location.line}"


def _together(line: LineTime) -> str:
    return ", ".join(str(other.line) if other.file == line.place.file else _location(other) for other in line.shared)


def _line_cells(line: LineTime, data: Profile) -> tuple[str, ...]:
    return (
        str(line.place.line),
        duration(line.microseconds),
        _share(line.microseconds, data),
        costs.words(line.bytes),
        _percent(line.roofline),
    )


def _cells(kernel: KernelTime, data: Profile) -> tuple[str, ...]:
    return (
        kernel.id,
        kernel.operators,
        ", ".join(map(_location, kernel.places)),
        str(kernel.calls),
        duration(kernel.microseconds),
        _share(kernel.microseconds, data),
        duration(kernel.microseconds / kernel.calls),
        costs.words(kernel.bytes // kernel.calls),
        _percent(kernel.roofline(data.machine)),
    )


# --- text -------------------------------------------------------------------------------------------------------------


def text_lines(data: Profile) -> Iterator[str]:
    """The profile as text."""
    yield f"{data.title}: profile"
    for sentence in summary(data):
        yield from wrapped(sentence)
    for file, lines in itertools.groupby(data.lines, key=lambda line: line.place.file):
        yield f"\n{PurePath(file).name}"
        rows = [(*_line_cells(line, data), line.text, f"with {other}" if (other := _together(line)) else "")
                for line in lines]  # fmt: skip
        yield from columns([(*HEAD_OF_LINES[:-1], ""), *rows])
    if data.kernels:
        yield ""
        yield from columns([HEAD_OF_KERNELS, *(_cells(kernel, data) for kernel in data.kernels)])


# --- HTML -------------------------------------------------------------------------------------------------------------


def document(data: Profile) -> str:
    """One HTML document."""
    return page(f"{data.title}: profile", []).replace("</h1>", "</h1>" + str(_body(data)), 1)


def render(data: Profile) -> str:
    """An HTML fragment."""
    return encodable(str(join((assets.styles(*html.ALL_STYLES), _body(data)))))


def _body(data: Profile) -> Markup:
    title = tag("p", tag("b", data.title), " profile", class_="n-title")
    parts = (_lines(data), _kernels(data)) if data.kernels else ()
    return tag("div", tag("header", title, [tag("p", sentence) for sentence in summary(data)]), parts, class_="nbc")


def _lines(data: Profile) -> Markup:
    shown, more = SHOWN.cut(data.lines)
    files = {line.place.file for line in data.lines}
    rows = []
    for line in shown:
        number, *figures = _line_cells(line, data)
        name = _location(line.place) if len(files) > 1 else number
        source = tag("td", tag("pre", tag("code", line.text)))
        rows.append(row(name, *figures, source, f"line {other}" if (other := _together(line)) else ""))
    where = f" of {PurePath(min(files)).name}" if len(files) == 1 else ""
    caption = f"Kernels that compute each line{where}; a kernel of several lines counts at each of them"
    return section("profile_lines", "Lines", table(caption, HEAD_OF_LINES, rows, grid=True), more, is_open=True)


def _kernels(data: Profile) -> Markup:
    shown, more = SHOWN.cut(data.kernels)
    rows = [row(tag("td", code(cells[0])), *cells[1:]) for cells in (_cells(kernel, data) for kernel in shown)]
    drawn = table("Kernels and operators, slowest first", HEAD_OF_KERNELS, rows, grid=True)
    return section(
        "profile_kernels", "Kernels", drawn, more, about=facts.count(len(data.kernels), "kernel"), is_open=True
    )
