"""Pictures of kernels on a GPU: the roofline with a dot for each kernel, and which program accesses which elements.

    instructions a µs |        ________ what can be issued
                      |      /   o kernel0
                      |    /  what memory can bring
                      +------------------------ instructions a byte

Each is an ``<img>`` with a ground of its own, so it is legible on a page of either theme.

In torch: nothing; Nsight Compute draws a roofline of what ran on a GPU. Read next: nbcompile/views/gpu.py
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping

from markupsafe import Markup

from nbcompile.record.model import Gpu, GpuTile, Kernel
from nbcompile.views.markup import tag as html_tag, xml_tag as tag
from nbcompile.views.svg import data_url

_STYLE = Markup(
    ":root{color-scheme:light dark}text{font:11px system-ui,sans-serif;fill:light-dark(#1c2330,#e4e8ef)}"
    ".g{fill:light-dark(#fff,#15181e)}.m{fill:light-dark(#59626f,#a5afbe)}"
    ".l{fill:none;stroke:light-dark(#98a1b0,#6b7686)}.r{fill:none;stroke:light-dark(#2f54c0,#93b3ff);stroke-width:2}"
    ".d{fill:light-dark(#a4241a,#ff9f94)}"
)
_TONES = Markup(
    ".p0{fill:light-dark(#2f54c0,#7f9dee)}.p1{fill:light-dark(#8fd0ae,#2b7a51)}.p2{fill:light-dark(#f3c37e,#8a5a12)}"
    ".p3{fill:light-dark(#c9a4e0,#6d4090)}.p4{fill:light-dark(#9cc7ea,#29618f)}.p5{fill:light-dark(#efa9a3,#8c3a33)}"
    ".s{fill:light-dark(#b9c0ca,#555f6e)}.n{fill:light-dark(#f6f7f9,#1c2028)}.w{fill:light-dark(#fff,#10141a)}"
    ".i text{font-size:9.5px}"
)
Scale = Callable[[float], float]
"""From a value to pixels."""
_COLOURS = 6
_CLASS = "n-picture dark-light"
"""Own size rules; and "dark-light", by which themes of Sphinx know a picture that is dark on dark pages by itself."""
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 460, 230, 60, 26, 34
CELL, LINE = 9, 12
"""Width and height of a cell of a grid."""
SEVERAL = -2


def roofline(kernels: Iterable[Kernel]) -> Markup | None:
    """The roofline of a GPU, with the kernels that were simulated for it; None if there are none."""
    dots = [(each.name, each.gpu) for each in kernels if each.gpu and each.gpu.instructions and each.gpu.least]
    if not dots:
        return None
    gpu = dots[0][1]
    # The intensity at which memory and issue limit equally: the slope ends and the flat roof begins.
    ridge = gpu.peak_instructions / gpu.peak_bytes
    points = [(name, each.instructions / each.least, each.instructions / each.predicted_us) for name, each in dots]
    xs = _decades([ridge, *(x for _, x, _ in points)])
    ys = _decades([gpu.peak_instructions, *(y for _, _, y in points)])
    across, down = _scale(xs, LEFT, WIDTH - 12), _scale(ys, HEIGHT - BOTTOM, TOP)
    # The slope enters the picture at its left or at its lower edge.
    lowest = max(10.0 ** xs[0], 10.0 ** ys[0] / gpu.peak_bytes)
    corners = (
        (lowest, lowest * gpu.peak_bytes),
        (ridge, gpu.peak_instructions),
        (10.0 ** xs[1], gpu.peak_instructions),
    )
    roof = "L".join(f"{across(x):.0f} {down(y):.0f}" for x, y in corners)
    drawing = tag(
        "svg", tag("style", _STYLE), tag("rect", width=WIDTH, height=HEIGHT, class_="g"),
        _axes(xs, ys, across, down), tag("path", d=f"M{roof}", class_="r"),
        [_dot(name, across(x), down(y)) for name, x, y in points],
        xmlns="http://www.w3.org/2000/svg", width=WIDTH, height=HEIGHT, viewBox=f"0 0 {WIDTH} {HEIGHT}",
    )  # fmt: skip
    said = "; ".join(f"{name} reaches {_share(each):.0%}, limited by {each.limit or 'memory'}" for name, each in dots)
    alt = f"Roofline of {gpu.chip}, by a model: of what memory or issue allow {said}"
    return html_tag("img", src=data_url(drawing), alt=alt.replace("%", " %"), width=WIDTH, height=HEIGHT, class_=_CLASS)


def _share(gpu: Gpu) -> float:
    """Instructions a microsecond over what the roof allows at that intensity."""
    allowed = min(gpu.peak_instructions, gpu.instructions / gpu.least * gpu.peak_bytes)
    return gpu.instructions / gpu.predicted_us / allowed


def _decades(values: list[float]) -> tuple[int, int]:
    """Powers of ten around some values."""
    return math.floor(math.log10(min(values)) - 0.2), math.ceil(math.log10(max(values)) + 0.2)


def _scale(ends: tuple[int, int], begin: float, end: float) -> Scale:
    """A logarithmic scale, from decades to pixels."""

    def position(value: float) -> float:
        return begin + (math.log10(value) - ends[0]) / (ends[1] - ends[0]) * (end - begin)

    return position


def _axes(xs: tuple[int, int], ys: tuple[int, int], across: Scale, down: Scale) -> Iterator[Markup]:
    yield tag("path", d=f"M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - 12}", class_="l")
    for power in range(xs[0], xs[1] + 1):
        yield tag("text", _number(power), x=round(across(10.0**power)), y=HEIGHT - BOTTOM + 14, text_anchor="middle",
                  class_="m")  # fmt: skip
    for power in range(ys[0], ys[1] + 1):
        yield tag("text", _number(power), x=LEFT - 5, y=round(down(10.0**power)) + 4, text_anchor="end", class_="m")
    yield tag("text", "instructions (of a warp) per byte", x=(LEFT + WIDTH) // 2, y=HEIGHT - 6, text_anchor="middle")
    yield tag("text", "instructions per µs", x=4, y=11)


def _number(power: int) -> str:
    if power < 3:
        return f"{10.0**power:g}"
    return f"{10 ** (power % 3)} {('k', 'M', 'G', 'T')[power // 3 - 1]}"


def _dot(name: str, x: float, y: float) -> Markup:
    near_the_end = x > WIDTH - 90
    return Markup("").join(
        (tag("circle", cx=round(x), cy=round(y), r=4, class_="d"),
         tag("text", name, x=round(x) + (-7 if near_the_end else 7), y=round(y) + 4,
             text_anchor="end" if near_the_end else "start"))
    )  # fmt: skip


# --- tiles -------------------------------------------------------------------------------------


def tiles(gpu: Gpu) -> Markup | None:
    """Drawing of the tensors of a kernel: a colour for each program; grey for what several access."""
    if not gpu.tiles:
        return None
    seen = sorted({program for each in gpu.tiles for program in each.programs if program >= 0})
    tones = {program: f"p{at % _COLOURS}" for at, program in enumerate(seen)} | {SEVERAL: "s", -1: "n"}
    drawn: list[Markup] = []
    y = 0
    for tile in gpu.tiles:
        drawn.append(tag("text", f"{tile.buffer}: {_size(tile)}, {tile.access}", x=2, y=y + 12))
        drawn.extend(_grid(tile, y + 18, tones))
        y += 18 + tile.rows * LINE + 8
    wide = max(max(each.columns for each in gpu.tiles) * CELL + 4, 300)
    drawing = tag(
        "svg", tag("style", _STYLE, _TONES), tag("rect", width=wide, height=y, class_="g"), drawn,
        xmlns="http://www.w3.org/2000/svg", width=wide, height=y, viewBox=f"0 0 {wide} {y}",
    )  # fmt: skip
    alt = "; ".join(map(described, gpu.tiles))
    return html_tag("img", src=data_url(drawing), alt=alt, width=wide, height=y, class_=_CLASS)


def described(tile: GpuTile) -> str:
    """The drawing of one tensor in words."""
    programs = sorted({each for each in tile.programs if each >= 0})
    shared = SEVERAL in tile.programs
    by = (
        [f"programs {programs[0]} to {programs[-1]}" if len(programs) > 1 else f"program {programs[0]}"]
        if programs
        else []
    )
    by += ["several programs at once"] if shared else []
    return f"{tile.buffer} ({_size(tile)}) is {tile.access} by {' and '.join(by) or 'no program'}"


def _size(tile: GpuTile) -> str:
    return f"{tile.height} × {tile.width}" if tile.height > 1 else f"{tile.width} in a row"


def _grid(tile: GpuTile, top: int, tones: Mapping[int, str]) -> Iterator[Markup]:
    # All cells of a colour are one path, and a run of equal cells one rectangle: an element for each would be many
    # times the size.
    paths: dict[str, list[str]] = {}
    numbers: list[Markup] = []
    for line in range(tile.rows):
        cells = tile.programs[line * tile.columns : (line + 1) * tile.columns]
        above = tile.programs[(line - 1) * tile.columns : line * tile.columns] if line else ()
        x = 0
        for program, run in itertools.groupby(cells):
            wide = sum(1 for _ in run)
            left, right = 2 + x * CELL, wide * CELL - 1
            paths.setdefault(tones[program], []).append(f"M{left} {top + line * LINE}h{right}v{LINE - 1}h-{right}z")
            # One number for each rectangle: in its first row, where it fits.
            if program >= 0 and wide > len(str(program)) and (not above or above[x] != program):
                white = "w" if tones[program] == "p0" else ""
                numbers.append(tag("text", str(program), x=left + 3, y=top + line * LINE + 9, class_=white))
            x += wide
    for tone, parts in paths.items():
        yield tag("path", d="".join(parts), class_=tone)
    yield tag("g", numbers, class_="i")
