"""Figures of a kernel that was cross-compiled for an absent GPU.

    sm_90:  29 registers   0 B spilled   16 B shared   100 % occupancy   48 kB moved   48 kB at least   3.1 µs predicted

Below it, line by line of the kernel: the PTX of the line, the SASS that ptxas generated from that, and the bytes that
it moves next to those that are used. A row is linked to the operators of its line, and so to the source.

In torch: nothing. Read next: nbcompile/views/kernels.py
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from markupsafe import Markup

from nbcompile.record.model import CompiledGraph, Gpu, GpuLine, Kernel
from nbcompile.views import costs, gpu_pictures
from nbcompile.views.graph import words
from nbcompile.views.markup import Limits, code, fold, row, table, tag

_PIECES = 4
"""Number of different instructions of a line that are named."""


def sentence(compiled: CompiledGraph) -> str:
    """Name of the GPU that a graph was compiled for; "" for this machine."""
    return f"compiled for {compiled.target}, run in the simulator" if compiled.target else ""


def render(kernel: Kernel, by_line: Mapping[int, tuple[str, ...]], limits: Limits) -> Markup | None:
    """The figures of a kernel, and those of its lines."""
    gpu = kernel.gpu
    if gpu is None:
        return None
    figures = [tag("li", tag("b", value), " ", name) for value, name in _figures(gpu)]
    drawn = gpu_pictures.tiles(gpu)
    return tag(
        "div",
        tag("p", f"{gpu.chip}, by ptxas, the simulator and a model:", class_="n-quiet"),
        tag("ul", figures, class_="n-tiles"),
        _lines(kernel, gpu, by_line, limits),
        fold("Tiles: which program accesses which elements", drawn, tag("p", tag("small", _explained(gpu))))
        if drawn
        else None,
    )


def _lines(kernel: Kernel, gpu: Gpu, by_line: Mapping[int, tuple[str, ...]], limits: Limits) -> Markup | None:
    """The lines of a kernel with their PTX, SASS and memory traffic, folded."""
    shown, more = limits.cut([line for line in gpu.lines if line.instructions or line.ptx])
    if not shown:
        return None
    text = kernel.source.split("\n")
    # As in the listing below, lines that only surround the selected ones have their edge marked.
    looks = {line.line: "r" for line in kernel.lines if line.role == "surrounds"}
    rows = [
        _line(line, text[line.line - 1].strip(), words(by_line.get(line.line, ())), looks.get(line.line, ""))
        for line in shown
    ]
    # In three columns they would be wider than most pages, and the last column invisible.
    listed = table("Lines of the kernel", ("line", "Triton, PTX, SASS", "moved", "used", "instructions"), rows)
    return fold("Line by line: PTX, SASS and bytes", tag("div", listed, class_="n-lines"), more)


def _explained(gpu: Gpu) -> str:
    """The legend of the drawing of its tiles, for the colours that occur."""
    found = {program for tile in gpu.tiles for program in tile.programs}
    sentences = [
        "A tensor is drawn as it is laid out in memory, whatever its shape: neighbours in a row are neighbours there."
    ]
    if any(map(gpu_pictures.is_sampled, gpu.tiles)):
        sentences.append("Of a tensor with too many elements for the drawing, evenly spaced ones are drawn.")
    programs = {program for program in found if program >= 0}
    if programs:
        sentences.append("A number is that of a program (a block of threads).")
    if len(programs) > gpu_pictures.COLOURS:
        sentences.append("Colours repeat, as there are more programs than colours.")
    if gpu_pictures.SEVERAL in found:
        sentences.append("Grey: several programs.")
    if gpu_pictures.NO_PROGRAM in found:
        sentences.append("Pale: none.")
    return " ".join(sentences)


def candidates(kernel: Kernel) -> Markup | None:
    """The candidates of a matrix product, with their times; the first one was chosen."""
    tuned = kernel.autotuning
    if tuned is None:
        return None
    # They are sorted by time: the first was chosen, and times are relative to it.
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
    return fold(title, table(title, ("candidate", "time", "speed against the best", "how", ""), rows))


def roofline(compiled: CompiledGraph) -> Markup | None:
    """The kernels of a graph under the roofline of its GPU."""
    found = gpu_pictures.roofline(compiled.kernels)
    if found is None:
        return None
    drawn, is_named = found
    sentences = (
        "A kernel on the line is as fast as the memory, or the issue of instructions, allows. A small kernel is far "
        "below it, because a launch alone takes 2 µs. The times are those of a model (gpu/predict.py): nothing ran on "
        "a GPU."
    )
    short = "" if is_named else " Where there is no room for a name, the number at its end is shown, or nothing."
    return tag("div", drawn, tag("p", tag("small", sentences + short)))


def text(kernel: Kernel) -> Iterator[str]:
    """Figures as plain text."""
    gpu = kernel.gpu
    if gpu is not None:
        yield f"{gpu.chip}: {', '.join(f'{value} {name}' for value, name in _figures(gpu))}"


def _figures(gpu: Gpu) -> Iterator[tuple[str, str]]:
    """Values with their labels."""
    yield str(gpu.registers), "registers"
    yield f"{gpu.spills} B", "spilled"
    yield f"{gpu.shared_bytes} B", "shared"
    yield _percent(gpu.occupancy), "occupancy"
    # Compiled, but too long to simulate: ptxas reports registers and spills; only a simulation counts the others.
    if not gpu.blocks:
        yield "not", "run"
        return
    yield str(gpu.blocks), f"block{'s' * (gpu.blocks != 1)} of {gpu.threads} threads"
    yield costs.words(gpu.moved), "moved"
    yield costs.words(gpu.least), "at least"
    yield _percent(gpu.coalescing), "coalescing"
    yield _time(gpu.predicted_us), "predicted"
    yield _time(gpu.roofline_us), "roofline"


def _percent(share: float) -> str:
    return f"{share:.0%}".replace("%", " %")


def _time(microseconds: float) -> str:
    return f"{microseconds:.1f} µs" if microseconds < 1000 else f"{microseconds / 1000:.1f} ms"


def _line(line: GpuLine, text: str, linked: str, look: str) -> Markup:
    moved = (costs.words(line.moved), costs.words(line.least)) if line.moved else ("", "")
    became = [
        tag("div", tag("small", layer), " ", code(_named(names)))
        for layer, names in (("PTX", line.ptx), ("SASS", line.sass))
        if names
    ]
    layers = tag("td", code(text), became)
    return row(tag("th", str(line.line)), layers, *moved, str(line.instructions or ""), nodes=linked, look=look)


def _named(names: tuple[str, ...]) -> str:
    return ", ".join(names[:_PIECES]) + (f", {len(names) - _PIECES} more" if len(names) > _PIECES else "")
