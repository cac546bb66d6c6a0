"""Figures of a kernel that was cross-compiled for an absent GPU.

    sm_90   29 registers   0 B spilled   16 B shared   occupancy 100 %   moved 48 kB, least 48 kB   3.1 µs predicted

Below it, line by line of the kernel: the bytes that the line moves against the least that would do, the PTX that it
became, and the SASS that ptxas made of that. A row is linked to the operators of its line, and so to the source.

In torch: nothing. Read next: nbcompile/views/kernels.py
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from markupsafe import Markup

from nbcompile.record.model import CompiledGraph, Gpu, GpuLine, Kernel
from nbcompile.views import costs, gpu_pictures
from nbcompile.views.graph import words
from nbcompile.views.markup import Limits, code, fold, row, table, tag

_HEAD = (
    "GPU", "registers", "spilled", "shared", "occupancy", "blocks", "moved", "least", "coalescing", "predicted",
    "roofline",
)  # fmt: skip
_PIECES = 4
"""Number of different instructions of a line that are named."""


def sentence(compiled: CompiledGraph) -> str:
    """For which GPU a graph was compiled; "" if for this machine."""
    return f"compiled for {compiled.target}, run in the simulator" if compiled.target else ""


def render(kernel: Kernel, by_line: Mapping[int, tuple[str, ...]], limits: Limits) -> Markup | None:
    """The figures of a kernel, and those of its lines."""
    gpu = kernel.gpu
    if gpu is None:
        return None
    figures = table(
        f"{kernel.name} on a GPU, as ptxas, the simulator and a model of {gpu.chip} have it",
        _HEAD,
        [row(tag("th", gpu.chip), *_cells(gpu))],
    )
    lines, more = limits.cut([each for each in gpu.lines if each.instructions or each.ptx])
    text = kernel.source.split("\n")
    rows = [_line(each, text[each.line - 1].strip(), words(by_line.get(each.line, ()))) for each in lines]
    below = table("Lines of the kernel", ("line", "Triton", "moved", "least", "instructions", "PTX", "SASS"), rows)
    drawn = gpu_pictures.tiles(gpu)
    return tag(
        "div",
        figures,
        fold("Line by line: bytes, PTX and SASS", below, more) if rows else None,
        fold("Tiles: which program accesses which elements", drawn, tag("p", _TILES)) if drawn else None,
    )


def candidates(kernel: Kernel) -> Markup | None:
    """The candidates of a matrix product, with their times; the first one was chosen."""
    tuned = kernel.autotuning
    if tuned is None:
        return None
    best = tuned.candidates[0].microseconds
    rows = [
        row(
            tag("th", candidate.name), _time(candidate.microseconds),
            _percent(best / max(candidate.microseconds, 1e-9)),
            "measured" if candidate.measured else "predicted", "chosen" if not at else "",
        )
        for at, candidate in enumerate(tuned.candidates)
    ]  # fmt: skip
    title = f"Candidates of {tuned.operator}({', '.join(tuned.sizes)})"
    return fold(title, table(title, ("candidate", "time", "best over it", "how", ""), rows))


_TILES = tag(
    "small",
    "A colour and a number for each program (block of threads), sampled; grey: several programs. A row of a drawing is "
    "a run of neighbours in memory.",
)


def roofline(compiled: CompiledGraph) -> Markup | None:
    """The kernels of a graph under the roofline of its GPU."""
    drawn = gpu_pictures.roofline(compiled.kernels)
    said = (
        "A kernel as high as the line is as fast as memory or issue allow; small ones are far below it, as the launch "
        "alone takes 2 µs. By a model (gpu/predict.py): nothing ran on a GPU."
    )
    return tag("div", drawn, tag("p", tag("small", said))) if drawn else None


def text(kernel: Kernel) -> Iterator[str]:
    """Figures as plain text."""
    gpu = kernel.gpu
    if gpu is not None:
        names = [f"{name} {value}" for name, value in zip(_HEAD[1:], _cells(gpu), strict=True)]
        yield f"{gpu.chip}: {', '.join(names)}"


def _cells(gpu: Gpu) -> tuple[str, ...]:
    known = (
        str(gpu.registers), f"{gpu.spills} B", f"{gpu.shared_bytes} B", _percent(gpu.occupancy),
    )  # fmt: skip
    if not gpu.blocks:
        return (*known, *["not run"] * 6)
    return (
        *known, f"{gpu.blocks} of {gpu.threads} threads", costs.words(gpu.moved), costs.words(gpu.least),
        _percent(gpu.coalescing), _time(gpu.predicted_us), _time(gpu.roofline_us),
    )  # fmt: skip


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")


def _time(microseconds: float) -> str:
    return f"{microseconds:.1f} µs" if microseconds < 1000 else f"{microseconds / 1000:.1f} ms"


def _line(line: GpuLine, text: str, linked: str) -> Markup:
    moved = (costs.words(line.moved), costs.words(line.least)) if line.moved else ("", "")
    shown = (code(_named(names)) if names else "" for names in (line.ptx, line.sass))
    cells = (code(text), *moved, str(line.instructions) if line.instructions else "", *shown)
    return row(tag("th", str(line.line)), *cells, nodes=linked)


def _named(names: tuple[str, ...]) -> str:
    return ", ".join(names[:_PIECES]) + (f", {len(names) - _PIECES} more" if len(names) > _PIECES else "")
