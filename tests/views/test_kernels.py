"""The section of the backend: kernels in execution order, each program once."""

from __future__ import annotations

from dataclasses import replace

from bs4 import BeautifulSoup

from nbcompile.record import links
from nbcompile.record.model import CompiledGraph, Kernel
from nbcompile.views import kernels
from nbcompile.views.kernels import in_order
from nbcompile.views.markup import Limits
from tests.views import sample_records


def kernel(name: str, source: str = "", graph: str = "inference") -> Kernel:
    return Kernel(f"0/0.{graph}.{name}", name, "cpp" if source else "aten", source)


def order(wrapper: str, *given: Kernel) -> list[str]:
    found = in_order(CompiledGraph("inductor", kernels=given, wrapper=wrapper))
    assert sorted(at for at, _ in found) == list(range(len(given))), "each is shown once"
    return [given[at].id.removeprefix("0/0.") for at, _ in found]


def test_kernels_are_in_the_order_of_their_launches():
    """A kernel's launch is found by its whole name, and not by a prefix or an attribute."""
    wrapper = "kernel10(x)\nother.kernel0(x)\nkernel1(x)\nmy_kernel0(x)\nkernel0(x)\n"
    given = [kernel(name, "text") for name in ("kernel0", "kernel1", "kernel10")]
    assert order(wrapper, *given) == ["inference.kernel10", "inference.kernel1", "inference.kernel0"]


def test_calls_of_aten_are_found_by_their_number():
    """Calls of ATen are found by number, because one operator may be called often."""
    given = [kernel("extern0"), kernel("k", "text"), kernel("extern1")]
    wrapper = "extern1_target(x)\nk(x)\nextern0_target(y)"
    assert order(wrapper, *given) == ["inference.extern1", "inference.k", "inference.extern0"]


def test_two_graphs_count_from_zero():
    """The forward's kernels come before the backward's of the same names; uncalled ones come last."""
    given = [kernel("gone", "a"), kernel("k", "a", "forward"), kernel("k", "b", "backward")]
    assert order("def forward(): k(x)\ndef backward(): k(y)", *given) == ["forward.k", "backward.k", "inference.gone"]
    assert order("", *given) == ["inference.gone", "forward.k", "backward.k"]
    assert in_order(CompiledGraph("inductor")) == []


def drawn(*given: Kernel, limits: Limits) -> BeautifulSoup:
    frame = sample_records.simple().frames[0]
    compiled = CompiledGraph("inductor", kernels=given, wrapper="".join(f"{one.name}(x)\n" for one in given))
    frame = replace(frame, compiled_graph=compiled)
    return BeautifulSoup(str(kernels.render(frame, links.frame_links(frame), limits)), "html.parser")


def test_a_program_that_was_shown_is_named():
    """Equal programs, up to names and comments, are shown once; in full, all are shown."""
    given = [
        kernel("a", "void a() { x; }  // of a"),
        kernel("b", "void b() { x; }  // of b"),
        kernel("c", "void c() { y; }"),
    ]
    short = drawn(*given, limits=Limits(repeated=True))
    assert "b C++ ; the program of a, for other buffers" in " ".join(short.text.split()).replace(" ;", " ;")
    assert [code.text.split("(")[0] for code in short.select("pre") if "void" in code.text] == ["void a", "void c"]
    assert len([code for code in drawn(*given, limits=Limits()).select("pre") if "void" in code.text]) == 3


def test_kernels_and_calls_are_counted_apart():
    """A cut list states its length; kernel text is escaped."""
    given = [kernel("a", "x<y>(z)"), kernel("b", "y;"), kernel("extern0")]
    page = drawn(*given, limits=Limits(rows=2))
    assert "2 generated kernels, 1 ATen call, backend inductor" in page.text
    assert "1 more" in page.text and "x<y>(z)" in page.text and page.find("y") is None


def test_a_frame_without_a_backend_has_no_section():
    """A frame without a backend has no section."""
    frame = replace(sample_records.simple().frames[0], compiled_graph=None)
    assert kernels.render(frame, links.frame_links(frame), Limits()) is None
