"""``explain`` and ``tour``: commands that call another tool."""

from __future__ import annotations

import sys

from nbcompile.__main__ import main


def test_a_kind_of_break_is_explained(capsys):
    """`explain NB0005` prints its page as text; an unknown kind is an error of one line."""
    assert main(["explain", "NB0005"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("NB0005: Data-dependent branching\n====")
    assert "The condition is computed in line 2, `if x.sum() > 0:`" in " ".join(text.split())
    assert main(["explain", "NB5"]) == 2
    assert "'NB5' is no kind of graph break." in capsys.readouterr().err


def test_the_tour_without_its_extra(monkeypatch, capsys):
    """Without the extra `notebook`, the tour names the extra before anything runs."""
    monkeypatch.setitem(sys.modules, "jupytext", None)
    monkeypatch.delitem(sys.modules, "nbcompile.tools.tour", raising=False)
    assert main(["tour"]) == 2
    assert 'the tour needs jupytext: pip install "nbcompile[notebook]"' in capsys.readouterr().err
