"""The view of a profile."""

from __future__ import annotations

import json

from nbcompile.record.profile import KernelTime, LineTime, Machine, Place, Profile
from nbcompile.views.profile import ProfileView, document, render, summary, text_lines

HERE, THERE = Place("/home/me/model.py", 3), Place("/home/me/other.py", 7)
MACHINE = Machine(1.5e12, 2.25e12, 8)


def profile(**more) -> Profile:
    kernels = (
        KernelTime("0/0.k0", "add, <sin>", (HERE, THERE), 2, 30.0, 8_000),
        KernelTime("0/0.k1", "mm", (HERE,), 1, 0.05, 4_000),
    )
    lines = (
        LineTime(HERE, "y = x < 1", ("0/0.k0", "0/0.k1"), 30.05, 12_000, 0.5, (THERE, Place(HERE.file, 4))),
        LineTime(THERE, "z = y", ("0/0.k0",), 30.0, 8_000, 0.001, (HERE,)),
    )
    fields = {"title": "f", "calls": 2, "microseconds": 40.0, "compile_microseconds": 0.0, "kernels": kernels,
              "lines": lines, "machine": MACHINE, **more}  # fmt: skip
    return Profile(**fields)


def test_times_are_those_of_kernels_and_between_them():
    """The time between kernels is not negative, although clocks differ; fast speeds have no exponent."""
    first, *_, roofline = summary(profile())
    assert first.endswith("2 calls of compiled frames: 30.1 µs in kernels and operators, 9.95 µs between them.")
    assert "1500 GB/s" in roofline and "2250 GFLOP/s" in roofline
    assert "0 µs between them" in next(summary(profile(microseconds=30.0)))


def test_what_did_not_happen_is_not_said():
    """Without kernels there is one sentence; compilation and memory appear if there was any."""
    assert list(summary(profile(kernels=()))) == ["No compiled kernel ran."]
    assert not any("Compilation" in one or "held" in one for one in summary(profile()))
    more = list(summary(profile(compile_microseconds=1.5e6, peak_bytes=2048)))
    assert "Compilation took 1.5 s more." in more and any("2048 B" in one for one in more)


def test_text_and_html_have_each_line_and_kernel():
    """Lines of a shared kernel have numbers, those of other files have the file; texts are escaped."""
    text, page = "\n".join(text_lines(profile())), render(profile())
    for shown in ("0/0.k0", "0/0.k1", "under 1%", "other.py:7"):
        assert shown in text and shown in page
    assert "with other.py:7, 4" in text and "line other.py:7, 4" in page
    assert "y = x &lt; 1" in page and "&lt;sin&gt;" in page and "<sin>" not in page
    assert text.index("model.py") < text.index("y = x < 1") < text.index("z = y")


def test_a_profile_without_time_has_no_shares():
    """A profile of zero time has no shares."""
    empty = profile(microseconds=0.0)
    assert "%" in "\n".join(text_lines(empty)) and render(empty)  # the division of the roofline


def test_a_file_and_a_notebook_show_the_same(tmp_path):
    """The HTML file contains the notebook's fragment, and the JSON has its data."""
    view = ProfileView(profile(title="a </h1> b"))
    bundle = view._repr_mimebundle_()
    assert bundle["text/plain"] == str(view) and bundle["text/html"] == render(view.data)
    written = view.report(tmp_path / "out.html").read_text()
    assert written == document(view.data)
    assert written.count("0/0.k0") == bundle["text/html"].count("0/0.k0")
    assert "a &lt;/h1&gt; b" in written and "a </h1> b" not in written
    assert json.loads(view.to_json())["title"] == "a </h1> b"
