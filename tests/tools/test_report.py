"""nbcompile.report(path), and python -m nbcompile script.py."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import nbcompile
from nbcompile.__main__ import main
from nbcompile.record import codec, recorder
from tests.support.processes import python

SCRIPT = """
import sys
import torch, nbcompile
@nbcompile.compile(backend="eager")
def scaled(x):
    return x * 2
print(scaled(torch.ones(3)).sum().item(), sys.argv[1:], __name__)
"""


@nbcompile.compile(backend="eager")
def doubled(x):
    return x + x


def test_a_block_writes_its_report(tmp_path):
    """The file has all that the block compiled; afterwards no recorder is active."""
    nbcompile.reset()
    with nbcompile.report(tmp_path / "out.html") as seen:
        doubled(torch.ones(3))
        assert not seen.path.exists()
    page = seen.path.read_text()
    assert page.startswith("<!doctype html>")
    assert 'id="s0-0.0-guards"' in page
    assert seen.record.frames[0].function == "doubled"
    assert recorder.watching == []
    doubled(torch.ones(4))
    assert len(seen.record.frames) == 1


def test_a_report_has_what_every_thread_compiles(tmp_path):
    """Threads that started before the report are recorded, too."""
    nbcompile.reset()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()
        with nbcompile.report(tmp_path / "out.html") as seen:
            pool.submit(doubled, torch.ones(3)).result()
    assert [frame.function for frame in seen.record.frames] == ["doubled"]


def test_a_missing_folder_is_reported_at_once(tmp_path):
    """A missing folder is an error before the program runs."""
    with pytest.raises(FileNotFoundError, match="no folder"):
        nbcompile.report(tmp_path / "none" / "out.html")


def test_a_report_without_a_block_is_written_at_the_end(tmp_path):
    """In a separate process, the statement alone writes the report at exit, whatever the working directory is."""
    script = tmp_path / "script.py"
    script.write_text(f"import nbcompile, os\nnbcompile.report('out.html')\nos.chdir('/')\n{SCRIPT}")
    python(script, folder=tmp_path)
    assert "scaled" in (tmp_path / "out.html").read_text()


@pytest.fixture
def script(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", [*sys.argv])
    monkeypatch.setattr(sys, "path", [*sys.path])
    nbcompile.reset()

    def write(text):
        (tmp_path / "script.py").write_text(text)
        return str(tmp_path / "script.py")

    return write


def test_a_script_is_run_and_reported(script, tmp_path, capsys):
    """The script has its own arguments; its output comes first; page and data are written."""
    page, data = tmp_path / "out.html", tmp_path / "seen.json"
    assert main([script(SCRIPT), "--html", str(page), "--json", str(data), "--size", "3"]) == 0
    told = capsys.readouterr()
    assert told.out == "6.0 ['--size', '3'] __main__\n"
    assert str(page) in told.err
    assert [frame.function for frame in codec.from_json(data.read_text()).frames] == ["scaled"]
    assert 'href="#s0' in page.read_text() or 'id="s0-0.0"' in page.read_text()


def test_options_may_come_first(script, tmp_path, capsys):
    """Arguments without a command are the program's line, also if they begin with an option."""
    page = tmp_path / "out.html"
    assert main(["--html", str(page), script(SCRIPT), "--size", "3"]) == 0
    assert page.exists()


def test_without_a_file_the_record_is_printed(script, capsys):
    """Without a file, the record is printed after the program's output."""
    assert main([script(SCRIPT)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("6.0 [] __main__\nnbcompile: script.py\n")


@pytest.mark.parametrize(
    ("end", "status", "says"),
    [("raise ValueError('no')", 1, "ValueError: no"), ("sys.exit(3)", 3, ""), ("sys.exit('bye')", 1, "bye")],
)
def test_a_script_that_ends_early_is_reported(script, tmp_path, capsys, end, status, says):
    """The report has what was compiled; exit code and traceback are the program's."""
    page = tmp_path / "out.html"
    assert main([script(f"{SCRIPT}\n{end}\n"), "--html", str(page)]) == status
    said = capsys.readouterr().err
    assert says in said
    assert "runpy" not in said
    assert "scaled" in page.read_text()


def test_unknown_arguments(capsys, tmp_path):
    """A missing script, or an unknown option of another command, is an error."""
    assert main([str(tmp_path / "none.py")]) == 2
    assert "there is no file" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["doctor", "--html", "x"])
