"""The figures of a kernel for a GPU, on the page and as text."""

from __future__ import annotations

import dataclasses
import re

from nbcompile.record import codec
from nbcompile.record.model import Gpu, GpuLine, GpuTile
from nbcompile.views import html, predict, text
from tests.views import sample_records as sample

LINES = (
    GpuLine(7, instructions=96, moved=4096, least=1024, ptx=("4 ld.global.b32", "mov.u32"), sass=("4 LDG.E",)),
    GpuLine(21, instructions=12, ptx=("3 add.f32", *(f"op{at}.b32" for at in range(9)))),
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
    """The simple record, with its kernel compiled for a GPU."""
    (frame,) = sample.simple().frames
    compiled = frame.compiled_graph
    kernels = (dataclasses.replace(compiled.kernels[0], gpu=gpu), *compiled.kernels[1:])
    graph = dataclasses.replace(compiled, kernels=kernels, target="sm_90")
    return dataclasses.replace(sample.simple(), frames=(dataclasses.replace(frame, compiled_graph=graph),))


def page(gpu: Gpu) -> str:
    return html.render(record(gpu), ("kernels",))


def cells(row: str) -> list[str]:
    """The texts of cells, with plain spaces before units."""
    found = (re.sub(r"<[^>]+>", "", cell) for cell in re.split(r"</t[hd]>", row)[:-1])
    return [text.replace("\N{NO-BREAK SPACE}", " ") for text in found]


def rows(gpu: Gpu) -> list[str]:
    """The rows of the table of the kernel's lines."""
    return [row for row in re.findall(r"<tr.*?</tr>", page(gpu)) if re.search(r"<th>\d+</th>", row)]


def figures(gpu: Gpu) -> list[str]:
    """The kernel's figures by name."""
    listed = re.search(r"sm_90, by ptxas, the simulator and a model:</p><ul[^>]*>(.*?)</ul>", page(gpu))
    return [re.sub(r"<[^>]+>", "", item) for item in listed[1].split("</li>")[:-1]]


def test_the_page_says_for_which_gpu():
    """The page names the GPU, and says that nothing ran there."""
    assert "compiled for sm_90, run in the simulator" in page(RAN)
    assert "compiled for" not in html.render(sample.simple(), ("kernels",))


def test_each_figure_of_a_kernel_is_labelled():
    """The page has ptxas's figures, bytes moved against the minimum, and predicted time against the roofline."""
    assert figures(RAN) == [
        "29 registers", "0 B spilled", "2048 B shared", "62 % occupancy", "6 blocks of 128 threads", "8192 B moved",
        "2048 B at least", "25 % coalescing", "3.1 µs predicted", "2.0 µs roofline",
    ]  # fmt: skip
    assert "1 block of 128 threads" in figures(dataclasses.replace(RAN, blocks=1))


def test_before_the_first_call_only_ptxas_has_spoken():
    """A kernel that has not run, for example of a backward graph, has only ptxas's figures."""
    assert figures(BUILT) == ["29 registers", "16 B spilled", "2048 B shared", "62 % occupancy", "not run"]


def test_each_line_is_above_its_ptx_and_sass():
    """PTX and SASS are in the cell below their line, and are linked to the line's operators."""
    loading, adding = rows(RAN)
    text, moved, least, instructions = cells(loading)[1:]
    assert text.endswith("PTX 4 ld.global.b32, mov.u32SASS 4 LDG.E")
    assert [moved, least, instructions] == ["4096 B", "1024 B", "96"]
    assert cells(adding)[2:4] == ["", ""]
    assert cells(adding)[1].endswith("op2.b32, 6 more")
    linked = {line.line for line in record(RAN).frames[0].compiled_graph.kernels[0].lines if line.nodes}
    assert [("data-n" in row) for row in (loading, adding)] == [7 in linked, 21 in linked] == [True, False]


def test_the_same_as_text():
    """The text has the figures below the kernel's name, in lines of 80 columns."""
    shown = text.render(record(RAN), ("kernels",))
    figures = " ".join(shown.split())
    assert "backend inductor, compiled for sm_90, run in the simulator" in shown
    assert "sm_90: 29 registers, 0 B spilled, 2048 B shared, 62 % occupancy, 6 blocks of" in figures
    (kernel,) = record(RAN).frames[0].compiled_graph.kernels
    assert max(len(line) for line in shown.splitlines() if line.strip() not in kernel.source) < 80


def test_a_record_keeps_them():
    """The record reads back from JSON with these figures."""
    assert codec.from_json(codec.to_json(record(RAN))) == record(RAN)


def asked(gpu: Gpu) -> list[predict.Question]:
    """The questions about the kernel on its GPU."""
    return predict.questions(record(gpu))[len(predict.questions(sample.simple())) :]


def test_a_prediction_asks_for_coalescing_occupancy_and_the_bottleneck():
    """The answers are computed: the nearest power of two, and the line with the most wasted traffic."""
    share, resident, waits = asked(RAN)
    assert [each.choices[each.answer] for each in (share, resident, waits)] == ["about 25 %", "about 50 %", "latency"]
    assert "moves 4096 B in sectors of 32 bytes, where 1024 B would do" in share.because
    assert "128 threads, each with 29 registers" in resident.text
    assert "6 blocks; predicted 3.1 µs, and 2.0 µs" in waits.because


def test_where_nothing_is_wasted_no_line_is_blamed():
    """Without waste no line is named, and a kernel that did not run has no questions."""
    tidy = dataclasses.replace(RAN, coalescing=1.0, lines=LINES[1:])
    assert asked(tidy)[0].because == "exactly 100 %: no line moves more sectors than its threads use; 8192 B in all"
    assert asked(BUILT) == []
