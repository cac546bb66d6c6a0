"""The figures of a kernel that was compiled for a GPU, on the page and as text."""

from __future__ import annotations

import dataclasses
import re
import urllib.parse

from nbcompile.record import codec
from nbcompile.record.model import Gpu, GpuLine, GpuTile
from nbcompile.views import html, predict, text
from tests.views import sample_records as sample

LINES = (
    GpuLine(7, instructions=96, moved=4096, least=1024, ptx=("4 ld.global.b32", "mov.u32"), sass=("4 LDG.E",)),
    GpuLine(2, instructions=12, ptx=("3 add.f32", *(f"op{at}.b32" for at in range(9)))),
)
TILES = (
    GpuTile("x", "read", 4, 1000, 4, 8, tuple(row for row in range(4) for _ in range(8))),
    GpuTile("b", "read", 1, 1000, 1, 8, (-2,) * 8),
    GpuTile("y", "written", 2, 8, 2, 8, (7,) * 15 + (-1,)),
)
RAN = Gpu(
    "sm_90", 29, 0, 2048, 128, 0.625, 6, 0.25, 8192, 2048, 3.06, 2.04, "latency", 108, 4.32e6, 1.0e6, LINES, TILES
)  # fmt: skip
BUILT = Gpu("sm_90", 29, 16, 2048, 128, 0.625, lines=LINES[1:])


def record(gpu: Gpu):
    """The simple record, its kernel compiled for a GPU."""
    (frame,) = sample.simple().frames
    compiled = frame.compiled_graph
    kernels = (dataclasses.replace(compiled.kernels[0], gpu=gpu), *compiled.kernels[1:])
    graph = dataclasses.replace(compiled, kernels=kernels, target="sm_90")
    return dataclasses.replace(sample.simple(), frames=(dataclasses.replace(frame, compiled_graph=graph),))


def page(gpu: Gpu) -> str:
    return html.render(record(gpu), ("kernels",))


def cells(row: str) -> list[str]:
    return [re.sub(r"<[^>]+>", "", each) for each in re.split(r"</t[hd]>", row)[:-1]]


def rows(gpu: Gpu) -> list[str]:
    """Those of the tables of the kernel."""
    return [each for each in re.findall(r"<tr.*?</tr>", page(gpu)) if re.search(r"<th>(sm_90|\d+)</th>", each)]


def test_the_page_says_for_which_gpu():
    """And that nothing ran there."""
    assert "compiled for sm_90, run in the simulator" in page(RAN)
    assert "compiled for" not in html.render(sample.simple(), ("kernels",))


def test_the_figures_of_a_kernel_are_one_row():
    """What ptxas says, what was moved against the least, and how long it would take against the roofline."""
    assert cells(rows(RAN)[0]) == [
        "sm_90", "29", "0 B", "2048 B", "62 %", "6 of 128 threads", "8192 B", "2048 B", "25 %", "3.1 µs", "2.0 µs",
    ]  # fmt: skip


def test_before_the_first_call_only_ptxas_has_spoken():
    """A backward graph that was never run, say."""
    assert cells(rows(BUILT)[0]) == ["sm_90", "29", "16 B", "2048 B", "62 %", *["not run"] * 6]


def test_each_line_has_its_bytes_and_its_ptx():
    """Linked to the operators of the line, as the line itself is."""
    _, loading, adding = rows(RAN)
    assert cells(loading)[2:] == ["4096 B", "1024 B", "96", "4 ld.global.b32, mov.u32", "4 LDG.E"]
    assert cells(adding)[2:4] == ["", ""]
    assert cells(adding)[-2].endswith("op2.b32, 6 more")
    linked = {each.line for each in record(RAN).frames[0].compiled_graph.kernels[0].lines if each.nodes}
    assert [("data-n" in row) for row in (loading, adding)] == [7 in linked, 2 in linked] == [True, False]


def pictures(gpu: Gpu) -> list[tuple[str, str]]:
    """Alternative text and drawing of those of the section."""
    found = re.findall(r'<img src="(data:[^"]*)" alt="([^"]*)"', page(gpu))
    return [(alt, urllib.parse.unquote(source)) for source, alt in found]


def test_kernels_are_dots_below_the_roofline():
    """One dot for each that ran, below the line; what it reaches stands in the alternative text."""
    (alt, drawing), _ = pictures(RAN)
    assert alt.startswith("Roofline of sm_90, by a model")
    assert "kernel0 reaches 0 %, limited by latency" in alt
    (line,) = re.findall(r"d='M([^']*)' class='r'", drawing)
    ((x, y),) = re.findall(r"<circle cx='(\d+)' cy='(\d+)'", drawing)
    corners = [tuple(map(int, each.split())) for each in line.split("L")]
    assert corners[0][0] < corners[1][0] < corners[2][0]
    assert corners[0][1] > corners[1][1] == corners[2][1]  # up, then level
    (x0, y0), (x1, y1), _ = corners
    assert int(y) > y0 + (y1 - y0) * (int(x) - x0) / (x1 - x0)


def test_tiles_have_a_colour_for_each_program():
    """What several programs read is grey; a number stands where a program begins."""
    _, (alt, drawing) = pictures(RAN)
    assert alt == (
        "x (4 × 1000) is read by programs 0 to 3; b (1000 in a row) is read by several programs at once; "
        "y (2 × 8) is written by program 7"
    )
    assert [int(each) for each in re.findall(r">(\d+)</text>", drawing)] == [0, 1, 2, 3, 7]
    tones = re.findall(r"<path d='[^']*' class='(\w+)'", drawing)
    assert tones == ["p0", "p1", "p2", "p3", "s", "p4", "n"]


def test_what_was_not_run_has_no_picture():
    """There is nothing to place."""
    assert pictures(BUILT) == []


def test_the_same_as_text():
    """One line below the kernel's name."""
    shown = text.render(record(RAN), ("kernels",))
    assert "backend inductor, compiled for sm_90, run in the simulator" in shown
    assert "sm_90: registers 29, spilled 0 B, shared 2048 B, occupancy 62 %" in shown


def test_a_record_keeps_them():
    """Written as JSON and read back."""
    assert codec.from_json(codec.to_json(record(RAN))) == record(RAN)


def asked(gpu: Gpu) -> list[predict.Question]:
    """The questions about the kernel on its GPU."""
    return predict.questions(record(gpu))[len(predict.questions(sample.simple())) :]


def test_a_prediction_asks_for_coalescing_occupancy_and_the_bottleneck():
    """The key is computed: the nearest power of two, and the line that moves most for nothing is named."""
    share, resident, waits = asked(RAN)
    assert [each.choices[each.answer] for each in (share, resident, waits)] == ["about 25 %", "about 50 %", "latency"]
    assert "moves 4096 B in sectors of 32 bytes, where 1024 B would do" in share.because
    assert "128 threads, each with 29 registers" in resident.text
    assert "6 blocks; predicted 3.1 µs, and 2.0 µs" in waits.because


def test_where_nothing_is_wasted_no_line_is_blamed():
    """Nor is anything asked of a kernel that did not run."""
    tidy = dataclasses.replace(RAN, coalescing=1.0, lines=LINES[1:])
    assert asked(tidy)[0].because == "exactly 100 %: no line moves more sectors than its threads use; 8192 B in all"
    assert asked(BUILT) == []
