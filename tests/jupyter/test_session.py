"""%compile_config, %compile_report and %compile_reset."""

from __future__ import annotations

import logging
import os
import re
import types

import pytest
import torch

from nbcompile import config
from nbcompile.jupyter.session import COMPLETERS, MOST_CELLS, SessionMagics

CELL = "%%compile -q --backend eager\ndef f(x):\n    return x + 1\nf(torch.ones(3))"


@pytest.fixture
def asked(shell):
    shell.user_ns["torch"] = torch


@pytest.fixture
def settings():
    with config.patch(config.current()):
        yield


def test_settings_are_shown_and_changed(run, settings):
    """Settings can be listed and changed one by one; the default list has those that differ from their defaults."""
    assert run("%compile_config recompile_limit").value == 8
    assert run("%compile_config").value == {}
    assert run("%compile_config recompile_limit=16").value is None
    assert config.recompile_limit == 16
    assert run("%compile_config").value == {"recompile_limit": 16}
    assert run("%compile_config --all").value.keys() == config.DEFAULTS.keys()


def test_settings_say_what_they_do(run, settings):
    """--all lists each setting with a sentence; if none was changed, a hint says how to list all."""
    assert "--all lists them" in repr(run("%compile_config").value)
    run("%compile_config recompile_limit=16")
    assert repr(run("%compile_config").value).startswith("recompile_limit = 16  (default: 8)\n    Cache entries per")
    lines = repr(run("%compile_config --all").value).splitlines()
    assert [line.partition(" = ")[0] for line in lines[::2]] == list(config.DEFAULTS)
    assert [line for line in lines[1::2] if not re.fullmatch(r"    (?:[A-Z`]|assert ).{15,}\.", line)] == []


def test_a_kind_of_break_is_explained(run):
    """%compile_explain shows the page as Markdown and as text, without a network."""
    ran = run("%compile_explain nb0007")
    [shown] = ran.outputs
    assert shown.data["text/markdown"].startswith("# NB0007: ")
    assert "Without the break\n---" in shown.data["text/plain"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("%compile_config recompile_limits", "Did you mean 'recompile_limit'?"),
        ("%compile_config recompile_limit=lots", "expected a Python constant"),
        ("%compile_report", "expects a file"),
        ("%compile_report /none/out.html", "there is nothing to report yet"),
        ("%compile_open", "expects a record or a trace"),
        ("%compile_open /none.log", "No such file"),
        ("%compile_config log=frobnicate", "torch has no log frobnicate; %compile_config log=help lists the names"),
        ("%compile_explain", "expects a kind of graph break, as in: %compile_explain NB0007"),
        ("%compile_explain NB07", "'NB07' is no kind of graph break. Did you mean NB0007?"),
        ("%compile_reset now", "takes no arguments"),
    ],
)
def test_usage_errors_are_one_line(run, line, says, settings):
    """A usage error is one line without a traceback."""
    ran = run(line)
    assert says in ran.out + ran.err
    assert "Traceback" not in ran.out + ran.err


def test_names_of_settings_are_completed(shell):
    """The names of settings are completed after %compile_config."""
    complete = COMPLETERS["%compile_config"]
    assert complete(shell, types.SimpleNamespace(symbol="recompile_l")) == ["recompile_limit"]


def test_the_report_has_each_cell_once(run, asked, tmp_path):
    """The report has each cell once, with its code and its last result; after a reset it is empty."""
    path = tmp_path / "out.html"
    run(CELL)
    run(CELL)
    run(CELL.replace("x + 1", "x - 1").replace("def f", "def g").replace("f(torch", "g(torch"))
    assert run(f"%compile_report {path}").out == f"nbcompile: {path}\n"
    page = path.read_text()
    assert page.count("<section") == 2
    assert "<h2>f</h2>" in page
    assert "<h2>g</h2>" in page
    assert "cannot be written" in run(f"%compile_report {tmp_path / 'none' / 'x.html'}").err
    assert run("%compile_reset").out == ""
    assert "nothing to report" in run(f"%compile_report {path}").err


def test_only_the_last_cells_are_kept(shell):
    """The report keeps only the last cells, so that memory is bounded."""
    session = SessionMagics(shell)
    for number in range(MOST_CELLS + 5):
        session.keep(f"cell {number}", "f", None)
    assert len(session._cells) == MOST_CELLS
    assert "cell 0" not in session._cells


def test_unload_takes_all_magics_away(run, shell):
    """After %unload_ext no magic is left."""
    run("%unload_ext nbcompile")
    assert shell.find_line_magic("compile_config") is None
    assert shell.find_line_magic("compile_reset") is None


@pytest.mark.compiles
def test_logs_that_set_logs_does_not_know(run, settings, monkeypatch):
    """Names that only TORCH_LOGS takes can be set in a notebook; the variable does not change."""
    monkeypatch.setenv("TORCH_LOGS", "perf_hints")
    cell = (
        "import torch, nbcompile\ng = nbcompile.compile(lambda x: x + 1, backend='eager', dynamic=False)\n"
        "g(torch.ones(2)); g(torch.ones(3));"
    )
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())
    ours = logging.getLogger("nbcompile")
    ran = run("%compile_config log=recompiles_verbose,verbose_guards")
    assert ran.error is None, ran.err
    monkeypatch.setattr(ours, "handlers", [handler])
    assert run(cell).error is None
    assert any("guard 0 failures:" in text for text in said)
    assert any(text.startswith("GUARD: ") for text in said)
    assert os.environ["TORCH_LOGS"] == "perf_hints"
    run("%compile_config log=")
    monkeypatch.setattr(ours, "handlers", [handler])
    said.clear()
    run(cell)
    assert said == []


def test_the_names_of_logs(run):
    """``log=help`` lists the names with their meaning."""
    assert "recompiles_verbose all guards that failed" in " ".join(run("%compile_config log=help").out.split())
