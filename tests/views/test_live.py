"""A view as a widget."""

import pytest

anywidget = pytest.importorskip("anywidget", reason="an extra (nbcompile[widget])")

from nbcompile.views import html, live  # noqa: E402
from tests.views import sample_records as sample  # noqa: E402


def test_a_record_and_what_has_one_are_the_same_view():
    """A record and an object with one give the same view; the page has no scripts and styles, which the widget has."""
    record = sample.simple()

    class Explained:
        pass

    explained = Explained()
    explained.record = record
    assert live.View(record).page == live.View(explained).page == html.render(record, None, assets=False)
    assert "<script" not in live.View(record).page


def test_sections_are_chosen_as_in_a_cell():
    """The sections of the view are chosen by one name, or several."""
    record = sample.simple()
    assert live.View(record, "graph").page == html.render(record, "graph", assets=False)
    assert live.View(record, ["source", "graph"]).page != live.View(record, "graph").page


def test_it_is_one_widget_with_all_scripts():
    """The view is one anywidget, whose module has all scripts."""
    assert issubclass(live.View, anywidget.AnyWidget)
    assert len(str(live.View._esm)) > 1000
