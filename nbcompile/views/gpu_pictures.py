"""Pictures of kernels on a GPU: the roofline with a dot for each kernel, and which program accesses which elements.

    instructions a µs |        ________ limit of instruction issue
                      |      /   o kernel0
                      |    /  limit of memory bandwidth
                      +------------------------ instructions a byte

Each is an ``<img>`` with its own background, so it is legible in a light and a dark theme, even if styles are removed.

In torch: nothing; Nsight Compute draws a roofline of kernels that ran on a GPU. Read next: nbcompile/views/gpu.py
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from markupsafe import Markup

from nbcompile.record.model import Gpu, GpuTile, Kernel
from nbcompile.views.markup import tag as html_tag, xml_tag as tag
from nbcompile.views.svg import data_url

# A picture is an image with its own style sheet: the page's rules do not reach into it, `light-dark` does.
_STYLE = Markup(
    ":root{color-scheme:light dark;background:light-dark(#fff,#15181e)}"
    "text{font:11px system-ui,sans-serif;fill:light-dark(#1c2330,#e4e8ef)}.m{fill:light-dark(#59626f,#a5afbe)}"
    ".l{fill:none;stroke:light-dark(#98a1b0,#6b7686)}.r{fill:none;stroke:light-dark(#2f54c0,#93b3ff);stroke-width:2}"
    ".d{fill:light-dark(#a4241a,#ff9f94)}"
)
_TONES = Markup(
    ".p0{fill:light-dark(#2f54c0,#7f9dee)}.p1{fill:light-dark(#8fd0ae,#24704a)}.p2{fill:light-dark(#f3c37e,#8a5a12)}"
    ".p3{fill:light-dark(#c9a4e0,#6d4090)}.p4{fill:light-dark(#9cc7ea,#29618f)}.p5{fill:light-dark(#efa9a3,#8c3a33)}"
    ".s{fill:light-dark(#b9c0ca,#555f6e)}.n{fill:light-dark(#f6f7f9,#1c2028)}.w{fill:light-dark(#fff,#10141a)}"
    ".i text{font-size:9.5px}"
)
Scale = Callable[[float], float]
"""Map from a value to pixels."""
Dot = tuple[str, int, int]
"""A text and its position."""
Corner = tuple[float, float]
Box = tuple[float, float, float, float]
"""Left, upper, right and lower edge."""
_END = re.compile(r"\d*$")
COLOURS = 6
_CLASS = "n-picture dark-light"
"""Own size rules; and "dark-light", by which themes of Sphinx know a picture that is dark on dark pages by itself."""
WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 340, 240, 52, 26, 34
"""Sizes in pixels. All pictures fit a page of 400 pixels: scaled down, their words would be too small to read."""
CELL, LINE = 9, 12
"""Width and height of a cell of a grid."""
ACROSS = 32
"""Cells of a line of a grid: one of more continues in the next line."""
LETTER = 6.4
"""Width of a letter, at most on average."""
NO_PROGRAM, SEVERAL = -1, -2
"""Programs of an element that none accesses, or more than one."""


def roofline(kernels: Iterable[Kernel]) -> tuple[Markup, bool] | None:
    """The roofline of a GPU, with the kernels that were simulated for it; None if there are none.

    The second result says whether all kernels have their names in it.
    """
    dots = [(each.name, each.gpu) for each in kernels if each.gpu and each.gpu.instructions and each.gpu.least]
    if not dots:
        return None
    gpu = dots[0][1]
    # The ridge: the intensity at which memory and issue limit equally, where the slope ends and the flat roof begins.
    ridge = gpu.peak_instructions / gpu.peak_bytes
    points = [(name, each.instructions / each.least, each.instructions / each.predicted_us) for name, each in dots]
    # The ridge is always in the picture, also where all kernels are on one side of it.
    xs = _decades([ridge, *(x for _, x, _ in points)])
    ys = _decades([gpu.peak_instructions, *(y for _, _, y in points)])
    across, down = _scale(xs, LEFT, WIDTH - 12), _scale(ys, HEIGHT - BOTTOM, TOP)
    # The slope enters the picture at its left or at its lower edge.
    lowest = max(10.0 ** xs[0], 10.0 ** ys[0] / gpu.peak_bytes)
    corners = [
        (across(lowest), down(lowest * gpu.peak_bytes)),
        (across(ridge), down(gpu.peak_instructions)),
        (across(10.0 ** xs[1]), down(gpu.peak_instructions)),
    ]
    positioned = [(name, round(across(x)), round(down(y))) for name, x, y in points]
    labels = labelled(positioned, corners)
    drawing = tag(
        "svg", tag("style", _STYLE), _axes(xs, ys, across, down), _roof(corners),
        [tag("circle", cx=x, cy=y, r=4, class_="d") for _, x, y in positioned],
        [tag("text", text, x=x, y=y) for text, x, y in labels if text],
        xmlns="http://www.w3.org/2000/svg", width=WIDTH, height=HEIGHT, viewBox=f"0 0 {WIDTH} {HEIGHT}",
    )  # fmt: skip
    image = html_tag(
        "img", src=data_url(drawing), alt=_alternative_text(dots), width=WIDTH, height=HEIGHT, class_=_CLASS
    )
    return image, [text for text, _, _ in labels] == [name for name, _ in dots]


def _roof(corners: Sequence[Corner]) -> Markup:
    return tag("path", d="M" + "L".join(f"{x:.0f} {y:.0f}" for x, y in corners), class_="r")


def _alternative_text(dots: Sequence[tuple[str, Gpu]]) -> str:
    """The text alternative of the picture."""
    text = "; ".join(f"{name} reaches {_share(gpu):.0%}, limited by {gpu.limit or 'memory'}" for name, gpu in dots)
    return f"Roofline of {dots[0][1].chip}, by a model: of what memory or issue allow {text}".replace("%", " %")


def _share(gpu: Gpu) -> float:
    """Instructions a microsecond over what the roof allows at that intensity."""
    allowed = min(gpu.peak_instructions, gpu.instructions / gpu.least * gpu.peak_bytes)
    return gpu.instructions / gpu.predicted_us / allowed


def _decades(values: list[float]) -> tuple[int, int]:
    """Powers of ten around some values."""
    # A fifth of a decade more on each side keeps dots off the axes.
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
    #     10**2: 100      10**4: 10 k      10**6: 1 M
    if power < 3:
        return f"{10.0**power:g}"
    return f"{10 ** (power % 3)} {('k', 'M', 'G', 'T')[power // 3 - 1]}"


def labelled(dots: Sequence[Dot], roof: Sequence[Corner]) -> list[Dot]:
    """Text of each dot and its position: name, number at the end, or nothing, as there is space."""
    # Obstacles: the dots themselves, and the roof as small boxes, four pixels apart. Each label with a position
    # becomes an obstacle, so that the first kernels get the best positions.
    taken: list[Box] = [(x - 5, y - 5, x + 5, y + 5) for _, x, y in dots]
    for (x, y), (to_x, to_y) in itertools.pairwise(roof):
        steps = max(round(to_x - x) // 4, 1)
        along = ((x + (to_x - x) * at / steps, y + (to_y - y) * at / steps) for at in range(steps + 1))
        taken += [(x - 2, y - 2, x + 2, y + 2) for x, y in along]
    labels = []
    for name, x, y in dots:
        tried = ((text, *corner) for text in (name, _END.findall(name)[0]) for corner in _corners(text, x, y))
        label = next((each for each in tried if not any(_overlap(_box(*each), other) for other in taken)), ("", x, y))
        if label[0]:
            taken.append(_box(*label))
        labels.append(label)
    return labels


def _corners(text: str, x: int, y: int) -> Iterator[tuple[int, int]]:
    """Possible positions for the label of a dot: to its right, left, above, below; inside of the picture."""
    wide = math.ceil(len(text) * LETTER)
    inside = max(LEFT + 2, min(x - wide // 2, WIDTH - wide - 2))
    for left, baseline in ((x + 7, y + 4), (x - 7 - wide, y + 4), (inside, y - 8), (inside, y + 16)):
        if left > LEFT and left + wide < WIDTH and baseline < HEIGHT - BOTTOM:
            yield left, baseline


def _box(text: str, left: int, baseline: int) -> Box:
    return left, baseline - 10, left + len(text) * LETTER, baseline + 2


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


# --- tiles -------------------------------------------------------------------------------------


def tiles(gpu: Gpu) -> Markup | None:
    """Drawing of the tensors of a kernel: a colour for each program; grey for what several access."""
    if not gpu.tiles:
        return None
    tones = _tones(gpu.tiles)
    # One tensor below the other; each needs its caption and the lines of its cells.
    drawn: list[Markup] = []
    y = 0
    for tile in gpu.tiles:
        drawn.append(tag("text", f"{tile.buffer}: {_size(tile)}, {tile.access}", x=2, y=y + 12))
        drawn.extend(_grid(tile, y + 18, tones))
        y += 18 + len(_lines(tile)) * LINE + 8
    wide = ACROSS * CELL + 4
    drawing = tag(
        "svg", tag("style", _STYLE, _TONES), drawn,
        xmlns="http://www.w3.org/2000/svg", width=wide, height=y, viewBox=f"0 0 {wide} {y}",
    )  # fmt: skip
    alt = "; ".join(map(described, gpu.tiles))
    return html_tag("img", src=data_url(drawing), alt=alt, width=wide, height=y, class_=_CLASS)


def _lines(tile: GpuTile) -> list[tuple[int, ...]]:
    """The programs line by line, as they are drawn."""
    across = min(tile.columns, ACROSS)
    return [tile.programs[begin : begin + across] for begin in range(0, len(tile.programs), across)]


def _tones(tiles: Sequence[GpuTile]) -> dict[int, str]:
    """A colour for each program, different from its neighbours' if there are enough colours."""
    adjacent = _neighbours(tiles)
    tones: dict[int, int] = {}
    for at, program in enumerate(sorted(adjacent)):
        # Greedy colouring of the graph of neighbours: programs in order, each with the first colour
        # that no neighbour has.
        taken = {tones[other] for other in adjacent[program] if other in tones}
        # Each program begins with the colour after that of the one before it: programs that follow
        # each other differ even where they are not neighbours.
        order = [(at + step) % COLOURS for step in range(COLOURS)]
        tones[program] = next((tone for tone in order if tone not in taken), order[0])
    return {program: f"p{tone}" for program, tone in tones.items()} | {SEVERAL: "s", NO_PROGRAM: "n"}


def _neighbours(tiles: Sequence[GpuTile]) -> dict[int, set[int]]:
    """The programs that are drawn, each with its neighbours left, right, above and below."""
    adjacent: dict[int, set[int]] = {program: set() for tile in tiles for program in tile.programs if program >= 0}
    for tile in tiles:
        lines = _lines(tile)
        pairs = [pair for line in lines for pair in itertools.pairwise(line)]
        pairs += [pair for above, below in itertools.pairwise(lines) for pair in zip(above, below, strict=False)]
        for one, other in pairs:
            if one != other and min(one, other) >= 0:
                adjacent[one].add(other)
                adjacent[other].add(one)
    return adjacent


def described(tile: GpuTile) -> str:
    """The text alternative of the drawing of one tensor."""
    programs = sorted({each for each in tile.programs if each >= 0})
    shared = SEVERAL in tile.programs
    by = (
        [f"programs {programs[0]} to {programs[-1]}" if len(programs) > 1 else f"program {programs[0]}"]
        if programs
        else []
    )
    by += ["several programs each"] if shared else []
    sample = f", {tile.rows * tile.columns} elements of it," if is_sampled(tile) else ""
    return f"{tile.buffer} ({_size(tile)}){sample} is {tile.access} by {' and by '.join(by) or 'no program'}"


def is_sampled(tile: GpuTile) -> bool:
    """Return whether the drawing omits elements."""
    return (tile.rows, tile.columns) != (tile.height, tile.width)


def _size(tile: GpuTile) -> str:
    return f"{tile.height} × {tile.width}" if tile.height > 1 else f"{tile.width} in a row"


def _grid(tile: GpuTile, top: int, tones: Mapping[int, str]) -> Iterator[Markup]:
    # All cells of a colour are one path, and a run of equal cells one rectangle: an element for each would be many
    # times the size.
    paths: dict[str, list[str]] = {}
    numbers: list[Markup] = []
    above: tuple[int, ...] = ()
    for line, cells in enumerate(_lines(tile)):
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
        above = cells
    for tone, parts in paths.items():
        yield tag("path", d="".join(parts), class_=tone)
    yield tag("g", numbers, class_="i")
